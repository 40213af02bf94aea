"""Whatever breaks beside one power loss: nothing trips, and no cap rises without room."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from drivers.sim import scenarios
from tests.scenarios.fault_scripts import SECONDS, FaultScript, script
from tests.scenarios.judging import Judge
from tests.scenarios.runs import judged

IN_CI = 20
ALL = 200


def survive(found: FaultScript, folder: Path) -> Judge:
    judge = Judge()
    run = judged(found, folder, judge, SECONDS)
    power = run.report["power"]
    wrong = list(judge.wrong)
    if power["tripped"]:
        wrong.append(f"tripped: {power['tripped']}")
    if power["overload_s"] > 0.0:
        wrong.append(f"overloaded for {power['overload_s']} s")
    assert not wrong, "\n".join([*wrong, found.keep(folder)])
    return judge


@pytest.mark.parametrize("seed", range(IN_CI))
def test_a_random_script_is_survived(seed: int, tmp_path: Path) -> None:
    judge = survive(script(seed), tmp_path)
    assert judge.cycles > 5


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(IN_CI, ALL))
def test_another_script(seed: int, tmp_path: Path) -> None:
    survive(script(seed), tmp_path)


def test_a_seed_says_the_same_for_ever() -> None:
    assert script(7) == script(7)
    assert script(7).text != script(8).text


def test_scripts_break_everything_that_they_are_meant_to() -> None:
    kinds = {f.kind for seed in range(IN_CI) for f in script(seed).scenario.faults}
    assert kinds >= {
        "element_lost", "device_dead", "device_slow", "device_flapping", "device_garbage",
        "sensor_nan", "agent_killed", "clock_stepped", "controller_killed", "broker_stopped",
    }  # fmt: skip


def test_power_losses_come_one_at_a_time() -> None:
    for seed in range(ALL):
        losses = [f for f in script(seed).scenario.faults if f.kind == "element_lost"]
        assert 1 <= len(losses) <= 2
        assert all(a.end < b.start for a, b in pairwise(losses))


def test_a_script_is_a_file_that_demo_takes(tmp_path: Path) -> None:
    found = script(3)
    command = found.keep(tmp_path)
    assert f"--scenario {tmp_path / 'faults-3.yaml'}" in command
    assert scenarios.load(str(tmp_path / "faults-3.yaml")).faults == found.scenario.faults
