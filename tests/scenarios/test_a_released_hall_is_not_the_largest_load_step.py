"""Releasing the hall, with the database down, raises the load inside the site's ramp."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from concurrent.futures import Future
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from api.demo.virtual import VirtualOptions, run_virtual
from api.hall import Released
from api.service.service import Service
from drivers.sim import scenarios
from facility.commands import Mode
from facility.loading import load_text

RAMP_W_PER_MIN = 120e3


def test_the_load_rises_over_the_minutes_that_the_answer_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[Released] = []
    took_s: list[float] = []
    caps: list[dict[str, float]] = []
    modes: list[Mapping[str, Mode]] = []

    def never(self: Any, *_: Any) -> Future[None]:
        return Future()

    async def people(service: Service) -> None:
        monkeypatch.setattr(type(service.store), "release", never)
        began_s = service.clock.monotonic_s()
        told.append(await service.release("hall", "an operator", "maintenance"))
        took_s.append(service.clock.monotonic_s() - began_s)
        modes.append(dict(service.modes()))
        caps.append(node_caps(service))
        await asyncio.sleep(185.0)
        caps.append(node_caps(service))

    text = (resources.files("facility") / "demo.yaml").read_text("utf-8")
    assert "ramp: 2 MW/min" in text
    text = text.replace("ramp: 2 MW/min", "ramp: 120 kW/min")
    loaded = load_text(text, "demo.yaml")
    steady = scenarios.load("steady")
    run = run_virtual(
        VirtualOptions(loaded, steady, 1, 190.0, tmp_path / "demo.db", meanwhile=people)
    )
    assert took_s[0] <= 2.5
    assert modes == [{"hall": Mode.OFF}]
    assert "over about" in told[0].text
    assert told[0].moves_w is not None
    assert told[0].moves_w > 2.0 * RAMP_W_PER_MIN / 60.0
    still = [name for name, cap_w in caps[0].items() if cap_w < 500.0]
    assert len(still) > 25
    assert set(caps[1].values()) == {700.0}
    # One node of eight boards is the most that rises in a second.
    assert run.report["power"]["largest_step_w"] < 4e3


def node_caps(service: Service) -> dict[str, float]:
    """The lowest limit of each node's boards, W."""
    caps: dict[str, float] = {}
    for name, node in service.nodes.items():
        assert node.status is not None
        caps[name] = min(g.enforced_w or 0.0 for g in node.status.gpus)
    return caps
