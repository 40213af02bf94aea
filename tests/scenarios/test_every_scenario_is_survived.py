"""What `wattkeeper demo` must show, for every scenario, by the plant's own truth."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from drivers.sim import scenarios
from tests.scenarios.runs import FAULTY, demo

TRIPS = {"feed-loss"}
THROTTLES = {"pump-loss", "hot-day"}
RAMP_W_PER_MIN = 2e6


def judge(report: dict[str, Any], scenario: str) -> None:
    power, cooling, caps = report["power"], report["cooling"], report["caps"]
    assert power["tripped"] == []
    assert power["overload_s"] == 0.0
    assert cooling["below_dew_point_s"] == 0.0
    assert cooling["thermal_throttle_s"] == 0.0
    assert report["devices"]["bad"] == 0
    assert report["devices"]["good"] == report["devices"]["total"] > 80
    assert report["tokens"]["of_clairvoyant"] >= 0.95
    assert report["webhooks"]["failed"] == 0
    assert caps["rejected"] == caps["unanswered"] == 0
    if scenario in FAULTY:
        assert report["webhooks"]["delivered"] >= 1
    twin = report["uncontrolled"]
    assert bool(twin["tripped"]) == (scenario in TRIPS)
    assert (twin["thermal_throttle_s"] > 0.0) == (scenario in THROTTLES)
    json.dumps(report, allow_nan=False)


@pytest.mark.parametrize("scenario", scenarios.names())
def test_nothing_trips_throttles_or_condenses(scenario: str, tmp_path: Path) -> None:
    run = demo(scenario, 1, tmp_path)
    judge(run.report, scenario)
    assert run.receiver.refused == 0
    assert len(run.receiver.valid) == run.report["webhooks"]["delivered"]


@pytest.mark.soak
@pytest.mark.parametrize("seed", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("scenario", scenarios.names())
def test_every_seed_too(scenario: str, seed: int, tmp_path: Path) -> None:
    judge(demo(scenario, seed, tmp_path).report, scenario)
