"""The best caps of a small hall once more: random halls and a plain program for each.

Written from the control laws alone and sharing nothing with the controllers: weights come from the
plain oracle of the topology, curves are cut finely in watts of cap, every node and every limit is
written out, and who is parked is left to branch and bound.
"""

from __future__ import annotations

import itertools
import json
import math
import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import highspy
import numpy as np

from facility.config import Node
from facility.topology import Topology
from tests.facility.topology import oracle

#: Board accuracy over the supplies' efficiency, and the meters' accuracy: the file's defaults.
FACTOR, METER = 1.05 / 0.96, 1.02
CLASSES = ("high", "normal", "low")
#: Pieces of a curve; the chords of so many are within a ten-thousandth of it.
PIECES = 60


@dataclass(frozen=True)
class RandomHall:
    """A small plant, its managed nodes, and what its racks' meters have seen."""

    plant: oracle.Plant
    nodes: dict[str, Node]
    metered: dict[str, float] = field(default_factory=dict)

    def topology(self) -> Topology:
        return Topology.of(oracle.power(self.plant))

    def base(self) -> dict[str, float]:
        """W of each load at caps of zero."""
        out = {name: float(load["rating"].split()[0]) for name, load in self._loads().items()}
        for rack in {n.rack for n in self.nodes.values()}:
            out[rack] = sum(n.overhead for n in self.nodes.values() if n.rack == rack)
            out[rack] += float(self.plant["racks"][rack].get("overhead", "0 W").split()[0])
        return out

    def loads(self, caps: Mapping[str, float]) -> dict[str, float]:
        """W of each load at these caps."""
        out = self.base()
        for name, node in self.nodes.items():
            out[node.rack] += FACTOR * node.gpus * caps[name]
        for rack, watts in self.metered.items():
            out[rack] = max(out[rack], METER * watts)
        return out

    def over(self, caps: Mapping[str, float]) -> float:
        """W by which the worst limit is broken; negative: room on the tightest."""
        found = oracle.headrooms(self.plant, self.loads(caps)).values()
        return max((-room[0] for room in found if room is not None), default=-math.inf)

    def rows(self) -> list[tuple[dict[str, float], float]]:
        """Every limit: W on it per W of each load, and W."""
        ones = dict.fromkeys(self._loads(), 1.0)
        out = []
        for _, lost in oracle.cases(self.plant):
            _, by_load = oracle.carried(self.plant, lost, ones)
            for name, element in self.plant["elements"].items():
                if oracle.alive(self.plant, lost, name) and element.get("rating"):
                    weights = {k: w[name] for k, w in by_load.items() if w.get(name, 0.0) > 0.0}
                    out.append((weights, oracle.limit(element)))
        return out

    def _loads(self) -> dict[str, Any]:
        return {**self.plant["racks"], **self.plant.get("loads", {})}


def tokens(node: Node, cap: Any) -> Any:
    """tok/s of one GPU at a cap or at many, at most 1.2 times what it is offered."""
    curve = node.curve
    assert curve is not None
    x = np.maximum(cap - curve.c0, 0.0) / curve.k
    whole = curve.tm * x / (1.0 + x**curve.n) ** (1.0 / curve.n)
    return whole if node.demand is None else np.minimum(whole, 1.2 * node.demand / node.gpus)


def worth(node: Node, cap: Any) -> Any:
    """Worth of all the tokens of a node at a cap or at many."""
    assert node.curve is not None
    value = 1.0 / node.curve.tm if node.worth is None else node.worth
    return value * node.gpus * tokens(node, cap)


def floor(node: Node) -> float:
    return max(node.floor or 0.0, node.min_cap)


def tangent(node: Node, top: float) -> float:
    """Where the line from the floor is steepest; the floor where the curve is concave from it."""
    low, best = floor(node), floor(node)
    assert node.curve is not None
    if low >= node.curve.c0:
        return low

    def steep(cap: float) -> float:
        return float((tokens(node, cap) - tokens(node, low)) / (cap - low))

    left, right = node.curve.c0, top
    if right <= left:
        return top
    for _ in range(80):
        a, b = left + (right - left) / 3.0, right - (right - left) / 3.0
        left, right = (a, right) if steep(a) < steep(b) else (left, b)
    best = 0.5 * (left + right)
    return min(best, top)


def own_price(hall: RandomHall, rack: str) -> float:
    """The most worth per watt of a rack over the caps of its nodes, by bisection on the ratio."""
    mine = [n for n in hall.nodes.values() if n.rack == rack]
    base = hall.base()[rack]
    grids = []
    for node in mine:
        caps = np.linspace(floor(node), max(node.max_cap, floor(node)), 20_001)
        free = node.model_copy(update={"demand": None})
        start = tangent(free, max(node.max_cap, floor(node)))
        caps = caps[(caps >= start - 1e-9) | (caps <= floor(node) + 1e-9)]
        grids.append((caps, worth(free, caps), FACTOR * node.gpus))
    low, high = 0.0, 1.0
    while sum(float(np.max(w - high * k * c)) for c, w, k in grids) > high * base:
        high *= 2.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        left = sum(float(np.max(w - middle * k * c)) for c, w, k in grids) - middle * base
        low, high = (middle, high) if left > 0.0 else (low, middle)
    return low


@dataclass
class _Model:
    """A program being written down row by row."""

    lower: list[float] = field(default_factory=list)
    upper: list[float] = field(default_factory=list)
    whole: list[int] = field(default_factory=list)
    rows: list[tuple[float, float, dict[int, float]]] = field(default_factory=list)

    def column(self, lower: float, upper: float) -> int:
        self.lower.append(lower)
        self.upper.append(upper)
        return len(self.lower) - 1

    def best(self, cost: Mapping[int, float]) -> float:
        lp = highspy.HighsLp()
        lp.num_col_, lp.num_row_ = len(self.lower), len(self.rows)
        lp.sense_ = highspy.ObjSense.kMaximize
        lp.col_cost_ = np.array([cost.get(i, 0.0) for i in range(len(self.lower))])
        lp.col_lower_, lp.col_upper_ = np.array(self.lower), np.array(self.upper)
        lp.row_lower_ = np.array([row[0] for row in self.rows])
        lp.row_upper_ = np.array([row[1] for row in self.rows])
        terms = [row[2] for row in self.rows]
        lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        lp.a_matrix_.start_ = np.cumsum([0, *(len(t) for t in terms)]).astype(np.int32)
        lp.a_matrix_.index_ = np.array([i for t in terms for i in t], dtype=np.int32)
        lp.a_matrix_.value_ = np.array([v for t in terms for v in t.values()])
        kinds = [highspy.HighsVarType.kContinuous] * len(self.lower)
        for column in self.whole:
            kinds[column] = highspy.HighsVarType.kInteger
        lp.integrality_ = kinds if self.whole else []
        solver = highspy.Highs()  # type: ignore[no-untyped-call]
        solver.setOptionValue("output_flag", False)
        solver.setOptionValue("mip_rel_gap", 1e-7)
        solver.passModel(lp)
        solver.run()
        assert solver.getModelStatus() == highspy.HighsModelStatus.kOptimal
        return float(solver.getInfo().objective_function_value)


def best_of_class(
    hall: RandomHall, rank: int, caps: Mapping[str, float], price: Mapping[str, float]
) -> float:
    """The most that a class can earn, worth above its floors less λ for what it draws above them.

    Args:
        hall: the hall.
        rank: the class, 0 is highest.
        caps: those of higher classes, which stay; lower ones are at their floors.
        price: λ of racks.
    """
    model, draws = _Model(), dict[str, dict[int, float]]()
    cost: dict[int, float] = {}
    for nodes, own in units_of(hall):
        members = [hall.nodes[name] for name in nodes]
        low, top = max(floor(n) for n in members), min(n.max_cap for n in members)
        low = min(low, top)
        bought: dict[int, tuple[float, float]] = {}
        if own < rank:
            low = caps[nodes[0]]
        elif own == rank:
            start = tangent(members[0], top) if len(members) == 1 else low
            bought = _bought(model, members, low, start, top)
        for node in members:
            draw = draws.setdefault(node.rack, {-1: 0.0})
            draw[-1] += FACTOR * node.gpus * low / 1000.0
            for column, (watts, _) in bought.items():
                kw = FACTOR * node.gpus * watts / 1000.0
                draw[column] = draw.get(column, 0.0) + kw
                cost[column] = cost.get(column, 0.0) - 1000.0 * price.get(node.rack, 0.0) * kw
        for column, (_, earned) in bought.items():
            cost[column] += earned
    base, racks = hall.base(), {}
    for rack, draw in draws.items():
        least = METER * hall.metered.get(rack, 0.0) / 1000.0
        racks[rack] = model.column(least, math.inf)
        terms = {column: -kw for column, kw in draw.items() if column >= 0}
        model.rows.append((base[rack] / 1000.0 + draw[-1], math.inf, {racks[rack]: 1.0, **terms}))
    for weights, limit in hall.rows():
        terms = {racks[load]: w for load, w in weights.items() if load in racks}
        if terms:
            rest = sum(w * base[load] for load, w in weights.items() if load not in racks)
            # A hair more room, as higher classes use theirs to the last bit.
            model.rows.append((-math.inf, (limit * (1.0 + 1e-9) - rest) / 1000.0, terms))
    return model.best(cost)


def units_of(hall: RandomHall) -> list[tuple[list[str], int]]:
    """Nodes that share one cap, and the highest class among them."""
    units: dict[str, list[str]] = {}
    for name, node in hall.nodes.items():
        units.setdefault(f"job {node.group}" if node.group else name, []).append(name)
    return [
        (members, min(CLASSES.index(hall.nodes[n].priority) for n in members))
        for members in units.values()
    ]


def _bought(
    model: _Model, nodes: Iterable[Node], low: float, start: float, top: float
) -> dict[int, tuple[float, float]]:
    """Columns of a unit: each gives (W of cap, worth) per unit of it."""
    nodes = list(nodes)

    def earns(cap: float) -> float:
        return float(sum(worth(node, cap) for node in nodes))

    out: dict[int, tuple[float, float]] = {}
    runs = None
    if start > low:
        runs = model.column(0.0, 1.0)
        model.whole.append(runs)
        out[runs] = (start - low, earns(start) - earns(low))
    edges = [start + (top - start) * (i / PIECES) ** 1.5 for i in range(PIECES + 1)]
    needs: dict[int, float] = {}
    for a, b in itertools.pairwise(edges):
        if b - a > 1e-9:
            column = model.column(0.0, 1.0)
            out[column] = (b - a, earns(b) - earns(a))
            needs[column] = 1.0
    if runs is not None and needs:
        model.rows.append((-math.inf, 0.0, {**needs, runs: -float(len(needs))}))
    return out


def random_hall(
    seed: int, *, parks: bool, classes: bool, groups: bool = False, metered: bool = False
) -> RandomHall:
    """A small hall of one, two or three levels, with groups, switches and hot spares."""
    rng = random.Random(seed)
    count = rng.randint(2, 4)
    racks = [f"r{i}" for i in range(count)]
    nodes: dict[str, Node] = {}
    for i in range(rng.randint(2, 9)):
        c0 = rng.uniform(60.0, 150.0)
        least = (
            rng.uniform(0.4, 0.95) * c0
            if parks and rng.random() < 0.6
            else c0 + rng.uniform(5.0, 90.0)
        )
        spread = rng.uniform(120.0, 500.0)
        document: dict[str, Any] = {
            "rack": rng.choice(racks),
            "gpus": rng.choice([1, 4, 8]),
            "gpu": "h100",
            "min_cap": f"{least:.3f} W",
            "max_cap": f"{c0 + 60.0 + spread * rng.uniform(0.8, 1.6):.3f} W",
            "overhead": f"{rng.uniform(0.0, 900.0):.1f} W",
            "priority": rng.choice(CLASSES) if classes else "normal",
            "curve": {
                "tm": f"{rng.choice([60, 400, 1000, 2600]) * rng.uniform(0.9, 1.1):.3f} tok/s",
                "c0": f"{c0:.3f} W",
                "k": f"{spread * rng.uniform(0.5, 0.9):.3f} W",
                "n": round(rng.uniform(1.5, 6.5), 3),
            },
        }
        if rng.random() < 0.25:
            tm = float(document["curve"]["tm"].split()[0])
            document["worth"] = rng.uniform(0.5, 3.0) / tm
        if not parks and rng.random() < 0.2:
            tm = float(document["curve"]["tm"].split()[0])
            document["demand"] = f"{document['gpus'] * tm * rng.uniform(0.3, 0.9):.3f} tok/s"
        if groups and rng.random() < 0.4:
            document["group"] = rng.choice(["job-1", "job-2"])
            document["priority"] = "normal"
        nodes[f"n{i}"] = Node.model_validate_json(json.dumps(document))
    used = sorted({n.rack for n in nodes.values()})
    plant = _plant(rng, racks, nodes)
    peaks = {}
    if metered:
        for rack in used:
            if rng.random() < 0.6:
                most = _draw(nodes, rack, lambda n: n.max_cap)
                peaks[rack] = rng.uniform(0.3, 0.9) * most
    return RandomHall(plant, nodes, peaks)


def _draw(nodes: Mapping[str, Node], rack: str, cap: Any) -> float:
    mine = [n for n in nodes.values() if n.rack == rack]
    return float(sum(n.overhead + FACTOR * n.gpus * cap(n) for n in mine))


def _plant(rng: random.Random, racks: list[str], nodes: Mapping[str, Node]) -> oracle.Plant:
    top = sum(_draw(nodes, rack, lambda n: n.max_cap) for rack in racks) + 500.0
    low = sum(_draw(nodes, rack, floor) for rack in racks) + 500.0

    def rated(share: float) -> dict[str, str]:
        if rng.random() < 0.15:
            return {}
        # Mostly between all floors and all greatest caps, now and then below the floors.
        watts = share * (low + (top - low) * rng.uniform(-0.05, 0.9))
        return {"rating": f"{watts:.1f} W"}

    elements: dict[str, Any] = {"s0": {"kind": "source"}, "s1": {"kind": "source"}}
    groups: dict[str, Any] = {}
    ends: list[str] = []
    for n, side in enumerate("ab"):
        members = [f"u{side}{i}" for i in range(rng.randint(1, 3))]
        for name in members:
            elements[name] = {
                "kind": "ups",
                "fed_by": [f"s{n}"],
                **rated(1.0 / max(len(members) - 1, 1)),
            }
            if rng.random() < 0.5:
                elements[name]["autonomy"] = "300 s"
        groups[f"bus{side}"] = {"members": members, "needs": max(len(members) - 1, 1)}
        for i in range(rng.randint(1, 2)):
            elements[f"p{side}{i}"] = {"kind": "pdu", "fed_by": [f"bus{side}"], **rated(0.8)}
            ends.append(f"p{side}{i}")
    if rng.random() < 0.4:
        elements["sts"] = {
            "kind": "switch",
            "transfer": {"normal": ends[0], "alternate": ends[-1]},
            **rated(0.7),
        }
        ends.append("sts")
    out: dict[str, Any] = {}
    for rack in racks:
        feeds = rng.sample(ends, min(len(ends), rng.choice([1, 2, 2, 2])))
        out[rack] = {
            "feeds": dict(zip("ab", feeds, strict=False)),
            "rating": f"{rng.uniform(200.0, 900.0):.1f} W",
            "overhead": f"{rng.uniform(0.0, 300.0):.1f} W",
            "psu": rng.choice(["balanced", "balanced", "hot_spare"]),
        }
        if rng.random() < 0.3 and len(feeds) == 2:
            out[rack]["split"] = {"a": 0.6, "b": 0.4}
    loads = {"pump": {"feeds": {"a": ends[0]}, "rating": f"{rng.uniform(50.0, 400.0):.1f} W"}}
    return {"elements": elements, "groups": groups, "maintenance": [], "racks": out, "loads": loads}
