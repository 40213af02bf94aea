"""A corrective hall at full load loses a feed or a UPS: overloaded for a moment, nothing trips."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pytest

from api.demo.virtual import VirtualOptions, run_virtual
from api.service.service import Service
from drivers.sim import scenarios
from drivers.sim.plant.world import World
from facility.loading import load_text

STILL_LOOKS = 5
WITHIN_S = 180


async def drilled(service: Service) -> None:
    """Drill, and wait until corrective mode is engaged and the caps have risen."""
    await asyncio.sleep(5.0)
    await service.drills.start("pdu-b", "ada", "proof")
    before, still = np.zeros(0), 0
    missing: object = None
    for _ in range(WITHIN_S):
        await asyncio.sleep(1.0)
        decision = service.decision()
        assert decision is not None
        missing = decision.facts["corrective"]["missing"]
        caps = service.loop.memory.caps.readback_w
        same = bool(decision.facts["corrective"]["engaged"]) and np.array_equal(caps, before)
        before, still = caps.copy(), still + 1 if same else 0
        if still >= STILL_LOOKS:
            return
    raise AssertionError(missing)


@pytest.mark.parametrize(
    "seed", [1, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(2, 8))]
)
@pytest.mark.parametrize("scenario", ["feed-loss", "ups-loss"])
def test_caps_are_down_within_two_seconds(
    scenario: str, seed: int, tmp_path: Path, root: Path
) -> None:
    engaged: dict[bool, list[bool]] = {False: [], True: []}

    def watch(world: World, service: Service) -> None:
        decision = service.decision()
        assert decision is not None
        lost = bool(world.plant.truth.disturbance.elements)
        engaged[lost].append(bool(decision.facts["corrective"]["engaged"]))

    text = (root / "docs" / "examples" / "corrective.yaml").read_text("utf-8")
    run = run_virtual(
        VirtualOptions(
            load_text(text, "corrective.yaml"),
            scenarios.load(scenario),
            seed,
            30.0,
            tmp_path / "demo.db",
            before=drilled,
            watch=watch,
        )
    )
    power, caps = run.report["power"], run.report["caps"]
    assert all(engaged[False][:50])
    assert not any(engaged[True][10:])
    assert power["tripped"] == []
    assert power["overload_s"] > 0.0
    assert caps["overload_to_caps_s"]["max"] <= 2.0
    assert power["worst_headroom_w"] < 0.0


@pytest.mark.soak
def test_orphans_of_a_corrective_hall_are_at_their_fallback_before_its_leases_matter(
    tmp_path: Path, root: Path
) -> None:
    caps: list[float] = []

    def watch(world: World, service: Service) -> None:
        if 8.5 < world.seconds < 13.0:
            caps.append(float(world.plant.truth.bank.limit_w.max()))

    text = (root / "docs" / "examples" / "corrective.yaml").read_text("utf-8")
    run = run_virtual(
        VirtualOptions(
            load_text(text, "corrective.yaml"),
            scenarios.load("controller-loss"),
            1,
            20.0,
            tmp_path / "demo.db",
            before=drilled,
            watch=watch,
        )
    )
    # Killed at 5 s: the lease of 4 s ends by 9 s, and the next look of the agent follows it.
    assert caps[0] > 300.0
    assert caps[-1] <= 270.0
    assert run.report["power"]["tripped"] == []
    assert run.report["power"]["overload_s"] == 0.0
