"""How long a plan of the demo hall takes, from nothing and on a changed load."""

from __future__ import annotations

from importlib import resources
from typing import Any

from api.commands.loads_file import read_loads
from api.commands.studies import find_plan
from facility.clock import SystemClock
from facility.loading import load_text
from facility.topology import Topology

ROUNDS = 10


def measure() -> dict[str, Any]:
    """Seconds of one plan; the headroom study of the caps found is counted with it."""
    text = (resources.files("facility") / "demo.yaml").read_text("utf-8")
    facility = load_text(text, "demo.yaml").facility
    topology = Topology.of(facility.power)
    loads, clock = read_loads(None, topology), SystemClock()
    figures: dict[str, float] = {"nodes": len(facility.nodes), "cases": len(topology.cases)}
    for policy in ("efficiency", "throughput"):
        spans = []
        for _ in range(ROUNDS):
            began_s = clock.monotonic_s()
            plan, _ = find_plan(facility, topology, loads, policy)
            spans.append(clock.monotonic_s() - began_s)
            assert plan.feasible
        figures[f"{policy}_s_best"] = min(spans)
        figures[f"{policy}_s_worst"] = max(spans)
    return {"figures": figures}
