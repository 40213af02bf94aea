"""The N+1 arithmetic that every baseline gets for nothing: loads after each single loss.

None of the published schemes proves N+1 over several feeds. Without it they would trip the hall at
the first loss and there would be nothing to compare, so they are given true loads and this proof.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from controllers.headroom import study
from facility.config import Facility
from facility.points import FloatArray
from facility.topology import Topology


class Proof:
    """Worst load of every element over all single losses, from the load of every rack."""

    def __init__(self, facility: Facility) -> None:
        self.facility = facility
        self.topology = Topology.of(facility.power)
        self.elements = self.topology.elements
        self.limit_w = self.topology.limit_w
        self.kinds = self.topology.kinds
        base = np.zeros(len(self.topology.loads))
        self._weight = np.zeros((len(self.elements), len(self.topology.racks)))
        for r in range(len(self.topology.racks)):
            one = base.copy()
            one[r] = 1.0
            self._weight[:, r] = np.nan_to_num(study(self.topology, one).worst_w)

    def worst_w(self, load_w: FloatArray) -> FloatArray:
        """float64[E], W; load_w: float64[L], racks then other loads."""
        return np.nan_to_num(study(self.topology, load_w).worst_w)

    def weight(self, element: int) -> FloatArray:
        """float64[R]: W on an element, in its worst case, for each W of a rack."""
        return np.asarray(self._weight[element])

    def rack_load_w(self, cap_w: Mapping[str, float]) -> FloatArray:
        """float64[L]: every load when its nodes draw their caps (W per GPU); others at rating."""
        power = self.facility.power
        load = {name: rack.overhead for name, rack in power.racks.items()}
        per_cap = (1.0 + power.board_accuracy) / power.psu_efficiency
        for name, node in self.facility.nodes.items():
            load[node.rack] += node.overhead + node.gpus * cap_w[name] * per_cap
        other = [each.rating for each in power.loads.values()]
        return np.array([*load.values(), *other])

    def holds(self, cap_w: Mapping[str, float]) -> bool:
        """Whether no single loss overloads anything at these caps."""
        return bool((self.worst_w(self.rack_load_w(cap_w)) <= self.limit_w * (1 + 1e-9)).all())
