"""Rows of the cooling loops: how much heat a loop can still take away in each case."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from facility import config
from facility.points import FloatArray
from facility.topology import Topology, cooling_left


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

    The heat that a loop takes away falls with its flow; see `facility.topology.cooling_left`.
    """
    rows: list[HeatRow] = []
    up = topology.compiled.up
    for left in cooling_left(topology, loops):
        name, loop = left.loop, loops[left.loop]
        share = np.zeros(len(topology.loads))
        for rack, part in loop.racks.items():
            share[topology.load_index[rack]] = part
        seen: set[tuple[float, bytes]] = set()
        mine = [*left.cdus.tolist(), *(topology.load_index[rack] for rack in loop.racks)]
        # Cases in which the same of its CDUs and racks are up make the same row: the first counts.
        firsts = np.unique(up[:, mine], axis=0, return_index=True)[1]
        for k in np.sort(firsts).tolist():
            case = topology.case_names[k]
            capacity_w = loop.heat_capacity * float(left.share[k])
            row = HeatRow(name, case, share * up[k], capacity_w)
            key = (row.capacity_w, row.share.tobytes())
            if key not in seen:
                seen.add(key)
                rows.append(row)
    return tuple(rows)
