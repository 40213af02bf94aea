"""Run a scenario of the demo hall under the virtual clock."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from api.demo.virtual import VirtualOptions, VirtualRun, run_virtual
from drivers.sim import scenarios
from facility.loading import load_text
from tests.scenarios.fault_scripts import FaultScript
from tests.scenarios.judging import Judge

FAULTY = frozenset(scenarios.names()) - {"steady"}


def demo(
    scenario: str, seed: int, folder: Path, *, seconds: float = 120.0, record: Path | None = None
) -> VirtualRun:
    text = (resources.files("facility") / "demo.yaml").read_text("utf-8")
    return run_virtual(
        VirtualOptions(
            load_text(text, "demo.yaml"),
            scenarios.load(scenario),
            seed,
            seconds,
            folder / "demo.db",
            record,
        )
    )


def judged(found: FaultScript, folder: Path, judge: Judge, seconds: float) -> VirtualRun:
    """A script under the eyes of a judge."""
    return run_virtual(
        VirtualOptions(
            found.loaded,
            found.scenario,
            found.seed,
            seconds,
            folder / "demo.db",
            watch=judge,
        )
    )
