"""A small hall whose answers can be worked out by hand."""

from __future__ import annotations

import numpy as np

from facility.config import Facility
from facility.loading import load_text
from facility.points import FloatArray
from facility.topology import Topology

HALL = """
facility: 1
site: {name: Small, timezone: UTC}
power:
  elements:
    grid-a: {kind: source}
    grid-b: {kind: source}
    ups-a: {kind: ups, fed_by: [grid-a], rating: 200 kW}
    ups-b: {kind: ups, fed_by: [grid-b], rating: 180 kW}
    row-a: {kind: busway, fed_by: [ups-a], rating: 150 kW}
    row-b: {kind: busway, fed_by: [ups-b], rating: 150 kW}
    pdu-r01-a: {kind: rack_pdu, fed_by: [row-a], rating: 60 kW}
    pdu-r01-b: {kind: rack_pdu, fed_by: [row-b], rating: 50 kW}
  racks:
    r01: {feeds: {a: pdu-r01-a, b: pdu-r01-b}, rating: 40 kW, SPACE}
    r02: {feeds: {a: row-a, b: row-b}, rating: 40 kW}
    r03: {feeds: {a: row-a, b: row-b}, rating: 40 kW}
  loads:
    cdu-1: {feeds: {a: row-a, b: row-b}, rating: 5 kW}
    cdu-2: {feeds: {a: row-a, b: row-b}, rating: 5 kW}
  rows:
    row-1: {racks: [r01, r02, r03], positions: 5}
nodes:
  n1: {rack: r01, gpus: 8, gpu: h100, min_cap: 200 W, max_cap: 700 W, floor: 300 W}
cooling:
  loops:
    loop-1:
      cdus: {cdu-1: cdu-1, cdu-2: cdu-2}
      racks: {r01: 80 %, r02: 80 %, r03: 80 %}
      design_flow: 100 L/min
      heat_capacity: HEAT
"""
SPACE = (
    "space: {units: 48, units_used: 40, weight_limit: 1600 kg, weight: 1310 kg, "
    "ports: 8, ports_used: 8}"
)


def hall(space: str = SPACE, heat: str = "400 kW", **changes: str) -> Facility:
    text = HALL.replace("SPACE", space).replace(", }", "}").replace("HEAT", heat)
    for word, value in changes.items():
        text = text.replace(word, value)
    return load_text(text).facility


def nameplate(facility: Facility) -> tuple[Topology, FloatArray]:
    topology = Topology.of(facility.power)
    return topology, np.array(topology.nameplate_w)
