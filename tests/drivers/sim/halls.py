"""Facilities for the tests of the simulated plant."""

from __future__ import annotations

from importlib import resources
from typing import Any

from drivers.sim import scenarios
from drivers.sim.plant.world import Start, World
from facility.config import Facility
from facility.loading import load_text

#: What N+1 leaves the racks of the demo hall's first row, and an efficient cap for the second.
GOOD_CAPS_W = {"row1": 375.0, "row2": 415.0}


def demo_hall(**loop_changes: Any) -> Facility:
    """facility/demo.yaml; what the twin must feel (plate and flow) does not follow later edits."""
    text = (resources.files("facility") / "demo.yaml").read_text(encoding="utf-8")
    facility = load_text(text).facility
    changes = {**loop_changes}
    loops = {name: loop.model_copy(update=changes) for name, loop in facility.cooling.loops.items()}
    cooling = facility.cooling.model_copy(update={"loops": loops})
    return facility.model_copy(update={"cooling": cooling})


def good_start(facility: Facility) -> Start:
    """Caps that hold N+1 and a supply near the optimum: what control would reach."""
    caps = {
        name: GOOD_CAPS_W["row1" if node.rack <= "r04" else "row2"]
        for name, node in facility.nodes.items()
    }
    return Start(caps, 33.0)


def world(
    scenario: str, seed: int = 1, duration_s: float | None = 120.0, *, good: bool = True
) -> World:
    """A world on the demo hall, at good caps or at the file's fallback."""
    facility = demo_hall()
    start = good_start(facility) if good else None
    return World.of(facility, seed, scenarios.load(scenario), duration_s, start)


POWER = """
facility: 1
site: {name: Small, timezone: UTC}
power:
  elements:
    utility: {kind: source, rating: 1 MW}
    ups-1: {kind: ups, fed_by: [utility], rating: [50 kVA, 60 kW], autonomy: 10 s}
    ups-2: {kind: ups, fed_by: [utility], rating: 60 kW}
    pdu-a: {kind: pdu, fed_by: [bus], rating: {current: 100 A, voltage_ll: 400 V}}
    pdu-b: {kind: pdu, fed_by: [utility], rating: 100 kW, overload: [[110 %, 100 s], [150 %, 10 s]]}
    sts: {kind: switch, transfer: {normal: pdu-a, alternate: pdu-b}, rating: 40 kW}
    shelf: {kind: shelf, fed_by: [pdu-b], modules: 6, needs: 5, module_rating: 5 kW}
  groups:
    bus: {members: [ups-1, ups-2], needs: 1}
  racks:
    r1: {feeds: {a: pdu-a, b: pdu-b}, rating: 20 kW}
    r2: {feeds: {a: pdu-a, b: pdu-b}, split: {a: 0.75, b: 0.25}, rating: 40 kW}
    r3: {feeds: {a: sts}, rating: 10 kW}
  loads:
    fan: {feeds: {b: shelf}, rating: 5 kW}
"""


def small_power() -> Facility:
    """A few elements of every sort, without nodes."""
    return load_text(POWER).facility
