"""What never changes of the managed nodes, side by side: made once for a list of nodes.

A hall has 18,000 of them and is asked every few seconds; looking at each node's record again
would cost more than the plan.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from controllers.allocation.curves import Curves, prior_curve, stack
from facility import config
from facility.points import FloatArray, IntArray
from facility.topology.graph import BoolArray

#: Lowest class first.
CLASSES = ("low", "normal", "high")
#: What is offered counts with this margin.
DEMAND_MARGIN = 1.2


@dataclass(frozen=True, eq=False)
class Table:
    """Managed nodes in file order; N nodes, U units (nodes with one `group` share a cap).

    Attributes:
        names, configs: per node; index: name -> row.
        gpus, overhead_w, min_cap_w, max_cap_w, floor_w: float64[N]; caps in W per GPU, the floor
            at least the least cap.
        unit: int64[N]; rank: int64[U], class (0 low … 2 high), the highest of its members.
        least_w: float64[U], what the boards of all members accept; floors_w: float64[U].
        fallback_low_w, fallback_high_w: float64[U].
        racks: rack names in order of appearance; rack: int64[N] into them.
        curves, claimed: stated or assumed; bool[N], whether somebody stated it.
    """

    names: tuple[str, ...]
    configs: tuple[config.Node, ...] = field(repr=False)
    index: Mapping[str, int] = field(repr=False)
    gpus: FloatArray
    overhead_w: FloatArray
    min_cap_w: FloatArray
    max_cap_w: FloatArray
    floor_w: FloatArray
    unit: IntArray
    rank: IntArray
    least_w: FloatArray
    floors_w: FloatArray
    fallback_low_w: FloatArray
    fallback_high_w: FloatArray
    racks: tuple[str, ...]
    rack: IntArray
    curves: Curves
    claimed: BoolArray

    @classmethod
    def of(cls, nodes: Mapping[str, config.Node]) -> Table:
        """The table of these nodes; found again while the same records are asked for."""
        return _table(_Records(tuple(nodes), tuple(nodes.values())))

    @property
    def units(self) -> int:
        """How many units there are."""
        return len(self.rank)

    def with_learned(
        self, curves: Mapping[str, config.Curve], demand: Mapping[str, float]
    ) -> tuple[Curves, BoolArray]:
        """Curves and whether they are known, with learned ones and measured demand in place."""
        if not curves and not demand:
            return self.curves, self.claimed
        claimed = self.claimed.copy()
        shape = []
        for i, (name, node) in enumerate(zip(self.names, self.configs, strict=True)):
            claimed[i] |= name in curves
            shape.append(curves.get(name) or node.curve or prior_curve(node.gpu, node.max_cap))
        offered = [
            _offered(node, demand.get(name, node.demand))
            for name, node in zip(self.names, self.configs, strict=True)
        ]
        return _stacked(self.configs, shape, claimed, offered), claimed


class _Records:
    """Node records as a cache key: the same objects compare in no time, equal ones are equal."""

    def __init__(self, names: tuple[str, ...], configs: tuple[config.Node, ...]) -> None:
        self.names, self.configs = names, configs

    def __hash__(self) -> int:
        return hash((len(self.names), self.names[:1], self.names[-1:]))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, _Records)
            and self.names == other.names
            and self.configs == other.configs
        )


@lru_cache(maxsize=8)
def _table(key: _Records) -> Table:
    configs = key.configs
    unit = _units(configs)
    count = int(unit.max()) + 1 if len(unit) else 0
    racks: dict[str, int] = {}
    rack = [racks.setdefault(node.rack, len(racks)) for node in configs]
    floor = np.array([_floor(node) for node in configs], dtype=np.float64)
    configured = np.array(
        [f if n.fallback is None else n.fallback for n, f in zip(configs, floor, strict=True)],
        dtype=np.float64,
    )
    least_w = np.array([n.min_cap for n in configs], dtype=np.float64)
    claimed = np.array([n.curve is not None for n in configs], dtype=np.bool_)
    shape = [n.curve or prior_curve(n.gpu, n.max_cap) for n in configs]
    offered = [_offered(n, n.demand) for n in configs]
    low, high = np.zeros(count), np.full(count, np.inf)
    np.maximum.at(low, unit, floor)
    np.minimum.at(high, unit, np.maximum(configured, floor))
    least = np.zeros(count)
    np.maximum.at(least, unit, least_w)
    rank = np.zeros(count, dtype=np.int64)
    np.maximum.at(
        rank, unit, np.array([CLASSES.index(n.priority) for n in configs], dtype=np.int64)
    )
    return Table(
        names=key.names,
        configs=configs,
        index={name: i for i, name in enumerate(key.names)},
        gpus=np.array([n.gpus for n in configs], dtype=np.float64),
        overhead_w=np.array([n.overhead for n in configs], dtype=np.float64),
        min_cap_w=least_w,
        max_cap_w=np.array([n.max_cap for n in configs], dtype=np.float64),
        floor_w=floor,
        unit=unit,
        rank=rank,
        least_w=least,
        floors_w=low,
        fallback_low_w=np.minimum(low, high),
        fallback_high_w=high,
        racks=tuple(racks),
        rack=np.array(rack, dtype=np.int64),
        curves=_stacked(configs, shape, claimed, offered),
        claimed=claimed,
    )


def _stacked(
    configs: tuple[config.Node, ...],
    shape: list[config.Curve],
    claimed: BoolArray,
    offered: list[float],
) -> Curves:
    worth = [
        (node.worth if node.worth is not None and known else 1.0 / max(curve.tm, 1e-300))
        for node, curve, known in zip(configs, shape, claimed.tolist(), strict=True)
    ]
    return stack(shape, [n.gpus for n in configs], worth, offered)


def _floor(node: config.Node) -> float:
    return node.min_cap if node.floor is None else max(node.floor, node.min_cap)


def _offered(node: config.Node, demand: float | None) -> float:
    return math.inf if demand is None else DEMAND_MARGIN * demand / node.gpus


def _units(configs: tuple[config.Node, ...]) -> IntArray:
    seen: dict[str, int] = {}
    out = []
    for i, node in enumerate(configs):
        key = f"node {i}" if node.group is None else f"group {node.group}"
        out.append(seen.setdefault(key, len(seen)))
    return np.array(out, dtype=np.int64)
