"""Three ways to cap a hall, as published.

- `Uniform`: one cap for every GPU, the highest that N+1 allows: what fleets provision by
  (arXiv 2605.24461: every GB200 of a fleet at one cap).
- `Static80`: 80 % of the maximum everywhere, never moved, with only as many racks as N+1 allows at
  that cap (the common rule of thumb; Zeus NSDI'23 traces: 1 to 4 % slower at 80 %).
- `ThreeBand`: Facebook's Dynamo (Wu et al., ISCA'16): leaf controllers every 3 s, upper ones every
  9 s; above 99 % of a limit cut to 95 %, below 90 % give back; lowest priority first, inside a
  priority the highest bucket of power first.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

import numpy as np

from facility.points import FloatArray
from tests.bench.baselines.proof import Proof

LEAF_S: Final = 3.0
UPPER_S: Final = 9.0
CAP_AT, CAP_TO, UNCAP_AT = 0.99, 0.95, 0.90
#: Dynamo's buckets are 10 to 30 W of a server of some 300 W; as a share of a GPU's range here.
BUCKET_W: Final = 20.0
_PRIORITY: Final = {"low": 0, "normal": 1, "high": 2}


class Scheme(Protocol):
    """Caps over time; W per GPU by node."""

    @property
    def caps_w(self) -> Mapping[str, float]:
        """Caps now."""

    def start(self) -> dict[str, float]:
        """Caps at the beginning."""

    def step(self, t_s: float, load_w: FloatArray, node_w: FloatArray) -> dict[str, float]:
        """Caps that change now; load_w: float64[L] true loads, node_w: float64[N] W per GPU."""


class Constant:
    """Caps that never move."""

    def __init__(self, caps_w: Mapping[str, float]) -> None:
        self.caps_w: Mapping[str, float] = dict(caps_w)

    def start(self) -> dict[str, float]:
        return dict(self.caps_w)

    def step(self, t_s: float, load_w: FloatArray, node_w: FloatArray) -> dict[str, float]:
        return {}


def uniform(proof: Proof) -> Constant:
    """The highest cap that all GPUs can have at once."""
    nodes = proof.facility.nodes
    low = max(node.min_cap for node in nodes.values())
    high = min(node.max_cap for node in nodes.values())
    for _ in range(40):
        middle = (low + high) / 2.0
        if proof.holds(dict.fromkeys(nodes, middle)):
            low = middle
        else:
            high = middle
    return Constant(dict.fromkeys(nodes, low))


def static_80(proof: Proof) -> Constant:
    """80 % of the maximum."""
    return Constant({name: 0.8 * node.max_cap for name, node in proof.facility.nodes.items()})


class ThreeBand:
    """Dynamo's controllers over every limited element of the hall."""

    def __init__(self, proof: Proof) -> None:
        self.proof = proof
        facility = proof.facility
        self.names = list(facility.nodes)
        nodes = list(facility.nodes.values())
        racks = list(facility.power.racks)
        self.rack = np.array([racks.index(node.rack) for node in nodes])
        self.low = np.array([node.min_cap for node in nodes])
        self.high = np.array([node.max_cap for node in nodes])
        self.gpus = np.array([node.gpus for node in nodes], dtype=np.float64)
        self.rank = np.array([_PRIORITY[node.priority] for node in nodes])
        self.caps = self.high.copy()
        self.caught: dict[int, set[int]] = {}  # element -> nodes that it holds down
        self.last_s: dict[bool, float] = {True: -UPPER_S, False: -UPPER_S}
        parents = {p for e in facility.power.elements.values() for p in e.fed_by}
        self.leaf = [name not in parents for name in proof.elements]

    @property
    def caps_w(self) -> dict[str, float]:
        return dict(zip(self.names, self.caps.tolist(), strict=True))

    def start(self) -> dict[str, float]:
        return self.caps_w

    def step(self, t_s: float, load_w: FloatArray, node_w: FloatArray) -> dict[str, float]:
        before = self.caps.copy()
        for leaf, period_s in ((True, LEAF_S), (False, UPPER_S)):
            if t_s - self.last_s[leaf] < period_s - 1e-6:
                continue
            self.last_s[leaf] = t_s
            for e in np.flatnonzero(np.isfinite(self.proof.limit_w)).tolist():
                if self.leaf[e] == leaf:
                    worst_w = self.proof.worst_w(self._after_cuts(load_w, node_w))
                    self._control(e, worst_w[e] / self.proof.limit_w[e], node_w)
        moved = np.flatnonzero(self.caps != before)
        return {self.names[i]: float(self.caps[i]) for i in moved}

    def _after_cuts(self, load_w: FloatArray, node_w: FloatArray) -> FloatArray:
        """Loads once the cuts of this step act: two feeds of one rack must not both ask for it."""
        off_w = self.gpus * (node_w - np.minimum(node_w, self.caps))
        after = load_w.copy()
        np.subtract.at(after, self.rack, off_w)
        return after

    def _control(self, e: int, used: float, node_w: FloatArray) -> None:
        if used > CAP_AT:
            self._cut(e, (used - CAP_TO) * self.proof.limit_w[e], node_w)
        elif used < UNCAP_AT and e in self.caught:
            held = set().union(*(nodes for other, nodes in self.caught.items() if other != e))
            free = [i for i in self.caught.pop(e) if i not in held]
            self.caps[free] = self.high[free]

    def _cut(self, e: int, cut_w: float, node_w: FloatArray) -> None:
        """Lower the highest buckets of the lowest priorities until enough has come off."""
        weight = self.proof.weight(e)[self.rack] * self.gpus
        drawn = np.minimum(node_w, self.caps)
        for rank in sorted(set(self.rank.tolist())):
            mine = np.flatnonzero((self.rank == rank) & (weight > 0.0))
            level = float(drawn[mine].max(initial=0.0))
            while cut_w > 0.0 and level > float(self.low[mine].min(initial=np.inf)):
                level -= BUCKET_W
                to = np.maximum(np.minimum(drawn[mine], level), self.low[mine])
                bucket_w = float((weight[mine] * (drawn[mine] - to)).sum())
                if bucket_w > cut_w:  # the last bucket gives only what is still asked for, evenly
                    to = drawn[mine] - (drawn[mine] - to) * (cut_w / bucket_w)
                cut_w -= bucket_w
                lowered = to < drawn[mine]
                self.caps[mine[lowered]] = to[lowered]
                self.caught.setdefault(e, set()).update(mine[lowered].tolist())
                drawn[mine] = to
            if cut_w <= 0.0:
                return
