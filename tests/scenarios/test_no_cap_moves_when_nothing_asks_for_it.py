"""A lost feed needs no command, and a lost controller or broker moves no cap."""

from __future__ import annotations

from pathlib import Path

import pytest

from api.service.service import Service
from facility.commands import Ack, Command
from tests.scenarios.runs import demo

FAULT_FROM_S, FAULT_TO_S = 40.0, 80.0


@pytest.mark.parametrize("scenario", ["feed-loss", "controller-loss", "broker-loss"])
def test_no_cap_moves_during_the_fault(
    scenario: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[tuple[float, Command]] = []
    begun: list[float] = []
    apply_one = Service._apply_one

    async def record(self: Service, command: Command) -> Ack:
        begun.append(self.clock.monotonic_s())
        sent.append((self.clock.monotonic_s(), command))
        return await apply_one(self, command)

    monkeypatch.setattr(Service, "_apply_one", record)
    report = demo(scenario, 2, tmp_path).report
    settled_s = 8.0
    caps = [
        (at, c.point)
        for at, c in sent
        if c.point.kind == "power_cap"
        and settled_s + FAULT_FROM_S <= at <= settled_s + FAULT_TO_S + 10.0
    ]
    assert caps == []
    assert report["power"]["largest_step_w"] < 2e6 / 60.0
    assert report["power"]["overload_s"] == 0.0
