"""Rows of the cooling loops: how much heat a loop can still take away in each case."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from facility import config
from facility.points import FloatArray
from facility.topology import Topology


@dataclass(frozen=True)
class HeatRow:
    """Σ share·P ≤ capacity, one loop in one case.

    Attributes:
        share: float64[L]; part of each load's heat that reaches the liquid, 0 for loads that are
            dark in the case.
        capacity_w: W that the loop takes away in the case.
    """

    loop: str
    case: str
    share: FloatArray = field(repr=False)
    capacity_w: float


def heat_rows(topology: Topology, loops: Mapping[str, config.Loop]) -> tuple[HeatRow, ...]:
    """One row per loop for the normal case and for each case that changes its CDUs or racks.

    The heat that a loop takes away falls with its flow: `flow_one_cdu_lost` for each CDU that is
    dark or in maintenance, nothing when all are.
    """
    rows: list[HeatRow] = []
    up = topology.compiled.up
    for name, loop in loops.items():
        share = np.zeros(len(topology.loads))
        for rack, part in loop.racks.items():
            share[topology.load_index[rack]] = part
        cdus = [topology.load_index[load] for load in loop.cdus.values()]
        seen: set[tuple[float, bytes]] = set()
        mine = [*cdus, *(topology.load_index[rack] for rack in loop.racks)]
        # Cases in which the same of its CDUs and racks are up make the same row: the first counts.
        firsts = np.unique(up[:, mine], axis=0, return_index=True)[1]
        for k in np.sort(firsts).tolist():
            case = topology.case_names[k]
            dark = sum(not up[k, i] or i in topology.idle for i in cdus)
            left = 0.0 if cdus and dark == len(cdus) else loop.flow_one_cdu_lost**dark
            row = HeatRow(name, case, share * up[k], loop.heat_capacity * left)
            key = (row.capacity_w, row.share.tobytes())
            if key not in seen:
                seen.add(key)
                rows.append(row)
    return tuple(rows)
