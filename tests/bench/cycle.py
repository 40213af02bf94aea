"""What one control cycle of the demo hall costs: a recorded run, decided again."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from api.commands.replay import loader
from controllers.replaying import replay
from facility.clock import SystemClock
from facility.recording import read_recording
from tests.scenarios.runs import demo


def measure() -> dict[str, Any]:
    """Milliseconds a cycle, with the scans that it takes in; solvers run beside the cycle."""
    clock = SystemClock()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.jsonl"
        report = demo("feed-loss", 1, Path(folder), seconds=60.0, record=path).report
        recording = read_recording(path)
        began_s = clock.monotonic_s()
        again = replay(recording, loader(recording))
        took_s = clock.monotonic_s() - began_s
    assert again.same
    return {
        "figures": {
            "cycles": again.cycles,
            "scans": again.scans,
            "points": report["points"],
            "ms_per_cycle": 1e3 * took_s / again.cycles,
        }
    }
