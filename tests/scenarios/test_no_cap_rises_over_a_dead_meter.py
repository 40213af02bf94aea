"""Caps are on their way up, at a slow ramp, when a meter dies: from then on none rises."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from tests.scenarios.fault_scripts import FaultScript
from tests.scenarios.judging import KNOWN_DEAD_S, Judge
from tests.scenarios.runs import judged

DEAD = """\
about: One rack meter dies while caps still rise.
faults:
  - {kind: device_dead, of: [rack_meter], index: 2, count: 1, start: 0.15}
"""


def test_none_rises_from_then_on(tmp_path: Path) -> None:
    text = (resources.files("facility") / "demo.yaml").read_text("utf-8")
    hall = text.replace("ramp: 2 MW/min", "ramp: 15 kW/min")
    seconds = 2.0 * KNOWN_DEAD_S
    judge = Judge()
    run = judged(FaultScript(1, hall, DEAD), tmp_path, judge, seconds)
    assert judge.wrong == []
    assert judge.raises > 0
    # There was more to come: at this ramp the whole way takes longer than the run.
    assert run.report["power"]["tripped"] == []
