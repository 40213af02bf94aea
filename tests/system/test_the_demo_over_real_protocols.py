"""`wattkeeper demo --json` as a user runs it: real SNMP, Modbus, MQTT, agents, HTTP, processes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from drivers.sim import scenarios
from tests.scenarios.runs import FAULTY
from tests.scenarios.test_every_scenario_is_survived import RAMP_W_PER_MIN, THROTTLES, TRIPS

pytestmark = [pytest.mark.system, pytest.mark.slow]


def run_demo(root: Path, *arguments: str, seconds: int) -> tuple[dict[str, Any], str]:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "api.cli", "demo", "--for", f"{seconds}s"),
            *("--port", "0", "--json", *arguments),
        ],
        cwd=root,
        capture_output=True,
        text=True,
        timeout=seconds + 120,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    lines = done.stdout.splitlines()
    assert len(lines) == 1, "one JSON document and nothing else"
    return json.loads(lines[0]), done.stderr


def judge(report: dict[str, Any]) -> None:
    assert report["power"]["tripped"] == []
    assert report["power"]["overload_s"] == 0.0
    assert report["cooling"]["below_dew_point_s"] == 0.0
    assert report["cooling"]["thermal_throttle_s"] == 0.0
    assert report["devices"]["good"] == report["devices"]["total"] > 80
    if report["scenario"] in FAULTY:
        assert report["webhooks"]["delivered"] >= 1
    assert report["webhooks"]["failed"] == 0
    assert report["tokens"]["of_clairvoyant"] >= 0.95
    assert report["samples_stored"] > 20_000


@pytest.mark.timeout(240)
def test_a_lost_feed_needs_no_command(root: Path, tmp_path: Path) -> None:
    record = tmp_path / "run.jsonl"
    report, printed = run_demo(root, "--scenario", "feed-loss", "--record", str(record), seconds=60)
    judge(report)
    assert report["uncontrolled"]["tripped"]
    assert report["url"].startswith("http://127.0.0.1:")
    for role in ("viewer", "operator", "engineer"):
        assert f"wk.{role}." in printed
    done = subprocess.run(
        [sys.executable, "-m", "api.cli", "replay", str(record), "--json"],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    replayed = json.loads(done.stdout)
    assert replayed["same"] is True
    assert replayed["cycles"] >= 55


@pytest.mark.timeout(240)
def test_a_killed_controller_moves_no_cap(root: Path) -> None:
    report, _ = run_demo(root, "--scenario", "controller-loss", "--seed", "2", seconds=75)
    judge(report)
    assert report["power"]["largest_step_w"] < RAMP_W_PER_MIN / 60.0
    assert report["caps"]["unanswered"] == 0


@pytest.mark.soak
@pytest.mark.timeout(400)
@pytest.mark.parametrize("seed", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("scenario", scenarios.names())
def test_every_scenario_and_seed(root: Path, scenario: str, seed: int) -> None:
    report, _ = run_demo(root, "--scenario", scenario, "--seed", str(seed), seconds=120)
    judge(report)
    if scenario in ("controller-loss", "broker-loss"):
        assert report["power"]["largest_step_w"] < RAMP_W_PER_MIN / 60.0
    assert bool(report["uncontrolled"]["tripped"]) == (scenario in TRIPS)
    assert (report["uncontrolled"]["thermal_throttle_s"] > 0.0) == (scenario in THROTTLES)
