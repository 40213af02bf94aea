"""The power plant as a graph: who feeds whom, what each may carry, and every single loss."""

from facility.topology.cooling import CoolingLeft, cases_json, cooling_left
from facility.topology.graph import Source
from facility.topology.plant import Case, Topology, phase_row
from facility.topology.problems import (
    load_out,
    named,
    parents_of,
    phase_faults,
    split_faults,
    suggestion,
    topology_problems,
)
from facility.topology.ratings import limit_of
from facility.topology.shares import UNMEASURED_SHARE, Shares

__all__ = [
    "UNMEASURED_SHARE",
    "Case",
    "CoolingLeft",
    "Shares",
    "Source",
    "Topology",
    "cases_json",
    "cooling_left",
    "limit_of",
    "load_out",
    "named",
    "parents_of",
    "phase_faults",
    "phase_row",
    "split_faults",
    "suggestion",
    "topology_problems",
]
