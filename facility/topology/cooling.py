"""What each case leaves of cooling: a lost feed can kill a pump."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from facility.config import Loop
from facility.points import FloatArray, IntArray
from facility.topology.plant import Topology


@dataclass(frozen=True, eq=False)
class CoolingLeft:
    """One loop in every case.

    Attributes:
        cdus: int64[C], indexes of the loads that its CDUs are; dark: bool[K, C], dark or idle.
        share: float64[K], part of flow and heat capacity that is left.
    """

    loop: str
    cdus: IntArray
    dark: np.typing.NDArray[np.bool_]
    share: FloatArray


def cooling_left(topology: Topology, loops: Mapping[str, Loop]) -> tuple[CoolingLeft, ...]:
    """Flow and heat capacity of each loop in each case, as parts of the design's.

    Each CDU that is dark (or in maintenance) leaves `flow_one_cdu_lost` of both; all: nothing.
    """
    out = []
    for name, loop in loops.items():
        cdus = np.array([topology.load_index[load] for load in loop.cdus.values()], dtype=np.int64)
        idle = np.array([i in topology.idle for i in cdus.tolist()], dtype=np.bool_)
        dark = ~topology.compiled.up[:, cdus] | idle[None, :]
        count = dark.sum(axis=1)
        share = loop.flow_one_cdu_lost ** count.astype(np.float64)
        none = (count == len(cdus)) & (len(cdus) > 0)
        out.append(CoolingLeft(name, cdus, dark, np.where(none, 0.0, share)))
    return tuple(out)


def cases_json(topology: Topology, loops: Mapping[str, Loop]) -> list[dict[str, Any]]:
    """Every case: what is dead, which racks, CDUs and pumps are dark, which cooling is left."""
    left = cooling_left(topology, loops)
    racks = len(topology.racks)
    up, names = topology.compiled.up, topology.loads
    out = []
    for case in topology.cases:
        dark = np.flatnonzero(~up[case.index])
        out.append(
            {
                "case": case.name,
                "dead": list(case.dead),
                "dark_racks": [names[i] for i in dark if i < racks],
                "dark_loads": [names[i] for i in dark if i >= racks],
                "loops": [
                    {
                        "loop": one.loop,
                        "dark_cdus": [names[i] for i in one.cdus[one.dark[case.index]]],
                        "flow_lpm": float(loops[one.loop].design_flow * one.share[case.index]),
                        "heat_capacity_w": float(
                            loops[one.loop].heat_capacity * one.share[case.index]
                        ),
                    }
                    for one in left
                ],
            }
        )
    return out
