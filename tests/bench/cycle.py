"""What one control cycle costs: of a made hall of 72,000 GPUs, and of the recorded demo hall."""

from __future__ import annotations

import resource
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from api.commands.replay import loader
from controllers.replaying import replay
from drivers.known import DriverKnowledge
from facility.checking import check
from facility.clock import SystemClock
from facility.loading import load_text
from facility.points import PointTable
from facility.recording import read_recording
from facility.site import SiteModel
from tests.bench.hall import FULL, Costs, Run, Size, hall_text, layouts_of
from tests.scenarios.runs import demo

WARM_UP = 40
#: Cycles that are counted, and in which of them what happens.
CYCLES = 300
ALL_CAPS_AT = (40, 140)
SILENT = range(60, 130)
LOST_FROM, LOST_TO = 200, 250


def measure() -> dict[str, Any]:
    """Both halls; solvers run beside the cycle."""
    return {"figures": {**hall(FULL), **_demo()}}


def hall(size: Size, cycles: int = CYCLES) -> dict[str, float]:
    """Figures of a made hall: load, points and elements, then milliseconds of its cycles.

    Every value wanders. Now and then three meters do not answer; two nodes fall silent and come
    back; twice a plan moves every cap there and back; a UPS is lost and returns.

    Args:
        size: of the hall.
        cycles: how many are counted; what happens in them keeps its share of the time.
    """
    clock = SystemClock()
    text, began_s = hall_text(size), clock.monotonic_s()
    loaded = load_text(text, "hall.yaml")
    assert not [p for p in check(loaded, DriverKnowledge.shipped()) if "auth" not in p.path]
    checked_s = clock.monotonic_s()
    table = PointTable.of(layouts_of(loaded.facility))
    tabled_s = clock.monotonic_s()
    site = SiteModel.of(loaded.facility, table)
    built_s = clock.monotonic_s()
    run = Run(site)
    run.settle(WARM_UP)
    costs = _go(run, cycles)
    return {
        "hall_racks": len(site.racks),
        "hall_nodes": len(site.nodes),
        "hall_gpus": int(site.gpus.sum()),
        "hall_points": len(table),
        "hall_elements": len(site.topology.elements),
        "hall_cases": len(site.topology.case_names),
        "load_and_check_s": checked_s - began_s,
        "point_table_s": tabled_s - checked_s,
        "site_model_s": built_s - tabled_s,
        **_figures(costs, len(site.nodes)),
        "rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0,
    }


def _go(run: Run, cycles: int) -> Costs:
    def at(of_the_full_run: int) -> int:
        return of_the_full_run * cycles // CYCLES

    names = run.site.nodes
    for cycle in range(cycles):
        if cycle in {at(c) for c in ALL_CAPS_AT}:
            run.move_all_caps()
        quiet = at(SILENT.start) <= cycle < at(SILENT.stop)
        run.feed.silent = {names[0], names[-1]} if quiet else set()
        if cycle == at(LOST_FROM):
            run.feed.lose("ups-a1")
        elif cycle == at(LOST_TO):
            run.feed.lose()
        run.step()
    return run.costs


def _figures(costs: Costs, nodes: int) -> dict[str, float]:
    cycle, commands = np.array(costs.cycle), np.array(costs.commands)
    moved = commands > nodes / 2
    figures: dict[str, float] = {
        "hall_cycles": len(cycle),
        "cycle_ms_p50": _percentile(costs.cycle, 50),
        "cycle_ms_p99": _percentile(costs.cycle, 99),
        "cycle_ms_max": float(cycle.max()),
        "cycle_cpu_ms_p50": _percentile(costs.cpu, 50),
        "cycle_cpu_ms_p99": _percentile(costs.cpu, 99),
        "freeze_ms_p99": _percentile(costs.freeze, 99),
        "n1_check_ms_p50": _percentile(costs.check, 50),
        "n1_check_ms_p99": _percentile(costs.check, 99),
        "all_caps_cycles": int(moved.sum()),
        "all_caps_cycle_ms_max": float(cycle[moved].max(initial=0.0)),
        "commands": int(commands.sum()),
        "scans_ms_p50": _percentile(costs.scan, 50),
    }
    if costs.intent:
        figures["intent_ms_p50"] = _percentile(costs.intent, 50)
        figures["intent_ms_max"] = max(costs.intent)
    if costs.plan:
        figures["plan_ms_p50"] = _percentile(costs.plan, 50)
        figures["plan_ms_max"] = max(costs.plan)
    return figures


def _percentile(values: list[float], share: float) -> float:
    return float(np.percentile(values, share))


def _demo() -> dict[str, float]:
    """Milliseconds a cycle of a recorded run decided again, with the scans that it takes in."""
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
        "cycles": again.cycles,
        "scans": again.scans,
        "points": report["points"],
        "ms_per_cycle": 1e3 * took_s / again.cycles,
    }
