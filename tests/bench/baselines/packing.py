"""How many racks fit into the demo hall, and the tokens that they then make.

Racks of the demo's kind are added, each on the row where it brings more tokens, while every single
loss is still survivable at the caps of the scheme. Wattkeeper's hall may take racks while its caps
stay at or above the floors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from controllers.allocation import Problem, solve
from facility.config import Facility
from tests.bench.baselines.proof import Proof

Caps = Callable[[Proof], Mapping[str, float] | None]


@dataclass(frozen=True)
class Packed:
    """Racks of each row, and tokens/s of the hall at the scheme's caps."""

    rows: Mapping[str, int]
    tokens_per_s: float

    @property
    def racks(self) -> int:
        """Of the whole hall."""
        return sum(self.rows.values())


def hall_of(demo: Facility, rows: Mapping[str, int]) -> Facility:
    """The demo hall with so many racks on each row; power and nodes only."""
    rack = demo.power.racks["r01"]
    nodes = [node for node in demo.nodes.values() if node.rack == "r01"]
    racks, made = {}, {}
    for row, count in rows.items():
        for i in range(count):
            name = f"{row}-r{i:02}"
            racks[name] = rack.model_copy(update={"feeds": {"a": f"{row}-a", "b": f"{row}-b"}})
            for j, node in enumerate(nodes):
                made[f"{name}-n{j}"] = node.model_copy(update={"rack": name})
    power = demo.power.model_copy(update={"racks": racks})
    return demo.model_copy(update={"power": power, "nodes": made})


def packed(demo: Facility, caps: Caps, least_tokens_per_s: float = 0.0) -> Packed:
    """As many racks as fit while the hall makes at least so many tokens."""
    rows = {"row1": 0, "row2": 0}
    best = Packed(rows, 0.0)
    while True:
        grown = [{**rows, row: rows[row] + 1} for row in rows]
        fitting = []
        for each in grown:
            hall = hall_of(demo, each)
            given = caps(Proof(hall))
            if given is not None:
                fitting.append((tokens_per_s(hall, given), each))
        if not fitting:
            return best
        tokens, rows = max(fitting, key=lambda one: one[0])
        if tokens >= least_tokens_per_s:
            best = Packed(rows, tokens)


def tokens_per_s(hall: Facility, caps: Mapping[str, float]) -> float:
    """By the curves of the file, at full load."""
    total = 0.0
    for name, node in hall.nodes.items():
        assert node.curve is not None
        curve = node.curve
        x = max(caps[name] - curve.c0, 0.0) / curve.k
        total += node.gpus * curve.tm * x / (1.0 + x**curve.n) ** (1.0 / curve.n)
    return total


def ours(proof: Proof) -> Mapping[str, float] | None:
    """The allocation's caps for the most tokens; None where not even the floors fit."""
    hall = proof.facility
    loads = {name: load.rating for name, load in hall.power.loads.items()}
    problem = Problem.of(proof.topology, hall.nodes, policy="throughput", load_w=loads)
    plan = solve(problem)
    return plan.caps_w if plan.feasible else None


def holding(caps: Callable[[Proof], Mapping[str, float]]) -> Caps:
    """A fixed rule, as far as N+1 holds at its caps."""

    def checked(proof: Proof) -> Mapping[str, float] | None:
        given = caps(proof)
        return given if proof.holds(given) else None

    return checked
