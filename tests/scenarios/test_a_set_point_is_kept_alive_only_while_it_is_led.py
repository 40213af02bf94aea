"""The CDU's own watchdog: fed while the set-point is decided, left to run out once it is not."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

import pytest

from api.demo.virtual import VirtualOptions, run_virtual
from api.service.service import Service
from drivers.catalog import profiles
from drivers.profile import Profile
from drivers.sim import scenarios
from drivers.sim.plant.world import World
from facility.loading import load_text

LIFE_S = 16.0
RELEASED_S = 60.0


def forgetful(profile: Profile) -> Profile:
    """The simulator's CDU, which falls back to 30 degC after a few seconds without a write."""
    points = tuple(
        point
        if point.write is None
        else point.model_copy(update={"write": point.write.model_copy(update={"watchdog": LIFE_S})})
        for point in profile.points
    )
    return profile.model_copy(update={"points": points})


@pytest.fixture(autouse=True)
def _forgetful() -> Iterator[None]:
    """Every such CDU forgets while a test here runs."""
    name = "cdu/wattkeeper-sim"
    shipped = profiles()[name]
    profiles().add(name, forgetful(shipped))
    yield
    profiles().add(name, shipped)


def test_a_set_point_is_kept_alive_only_while_it_is_led(tmp_path: Path) -> None:
    seen: list[tuple[float, float]] = []

    def watch(world: World, service: Service) -> None:
        seen.append((world.seconds, world.plant.truth.loops[0].cdus[0].setpoint_c))

    async def people(service: Service) -> None:
        await asyncio.sleep(RELEASED_S)
        await service.release("loop:loop-1", "an operator", "a test of the watchdog")

    text = (resources.files("facility") / "demo.yaml").read_text("utf-8")
    options = VirtualOptions(
        load_text(text, "demo.yaml"),
        scenarios.load("steady"),
        1,
        RELEASED_S + 2.0 * LIFE_S,
        tmp_path / "demo.db",
        meanwhile=people,
        watch=watch,
    )
    run_virtual(options)
    led = [setpoint_c for at_s, setpoint_c in seen if at_s < RELEASED_S]
    assert min(led) > 30.0
    assert led == sorted(led)
    assert seen[-1][1] == 30.0
