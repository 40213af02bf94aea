"""What the racks would draw with every managed node at its floor: the least that caps can ask."""

from __future__ import annotations

from collections.abc import Mapping

from facility import config
from facility.points import FloatArray
from facility.topology import Topology


def floors_w(
    topology: Topology, nodes: Mapping[str, config.Node], load_w: FloatArray
) -> FloatArray | None:
    """float64[L]: loads with managed nodes at their floors, W; None where none is managed.

    The caps' term of a live load: O_r + Σ(O_n + (1 + ε_b)·g·floor/η_psu).

    Args:
        topology: the plant.
        nodes: managed nodes.
        load_w: float64[L], of everything else.
    """
    if not nodes:
        return None
    power = topology.power
    factor = (1.0 + power.board_accuracy) / power.psu_efficiency
    least: dict[str, float] = {}
    for node in nodes.values():
        floor = node.min_cap if node.floor is None else max(node.floor, node.min_cap)
        start = power.racks[node.rack].overhead
        least[node.rack] = least.get(node.rack, start) + node.overhead + factor * node.gpus * floor
    out = load_w.copy()
    for rack, watts in least.items():
        out[topology.load_index[rack]] = watts
    return out
