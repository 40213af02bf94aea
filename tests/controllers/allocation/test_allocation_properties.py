"""Plans hold every limit, are optimal, and never invert classes; judged by plain Python."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from controllers.allocation import Plan, Problem, feasible, solve, water_fill
from facility.config import Node
from facility.topology import Topology
from tests.facility.topology import oracle
from tests.facility.topology.plants import Plant, nameplates, plants

FACTOR = 1.05 / 0.96


@dataclass(frozen=True)
class Hall:
    plant: Plant
    nodes: dict[str, Node]

    def topology(self) -> Topology:
        return Topology.of(oracle.power(self.plant))

    def loads(self, caps: dict[str, float]) -> dict[str, float]:
        out = nameplates(self.plant)
        for rack in {n.rack for n in self.nodes.values()}:
            mine = {k: n for k, n in self.nodes.items() if n.rack == rack}
            out[rack] = sum(n.overhead + FACTOR * n.gpus * caps[k] for k, n in mine.items())
        return out

    def over(self, caps: dict[str, float]) -> float:
        """W by which the worst limit is broken; negative: room on the tightest."""
        found = oracle.headrooms(self.plant, self.loads(caps)).values()
        return max((-room[0] for room in found if room is not None), default=-math.inf)

    def rows(self) -> Iterator[tuple[dict[str, float], float]]:
        """(W on a limit per W of each node's cap, room left at caps of zero)."""
        zero = self.loads(dict.fromkeys(self.nodes, 0.0))
        for _, lost in oracle.cases(self.plant):
            total, by_load = oracle.carried(self.plant, lost, zero)
            for name, element in self.plant["elements"].items():
                if oracle.alive(self.plant, lost, name) and element.get("rating"):
                    weights = {
                        k: by_load[n.rack].get(name, 0.0) * FACTOR * n.gpus
                        for k, n in self.nodes.items()
                    }
                    yield weights, oracle.limit(element) - total.get(name, 0.0)


def tokens(node: Node, cap: float) -> float:
    curve = node.curve
    assert curve is not None
    if cap <= curve.c0:
        return 0.0
    x = (cap - curve.c0) / curve.k
    whole = curve.tm * x / (1.0 + x**curve.n) ** (1.0 / curve.n)
    return float(whole if node.demand is None else min(whole, 1.2 * node.demand / node.gpus))


def worth(node: Node, cap: float) -> float:
    assert node.curve is not None
    value = 1.0 / node.curve.tm if node.worth is None else node.worth
    return value * node.gpus * tokens(node, cap)


@st.composite
def halls(draw: st.DrawFn, *, concave: bool, classes: bool, most: int = 4) -> Hall:
    plant = draw(plants())
    nodes = {}
    for i in range(draw(st.integers(1, most))):
        c0 = draw(st.sampled_from([0.0, 4.0, 8.0]))
        least = c0 + draw(st.integers(1, 5)) if concave else draw(st.integers(1, 12))
        floor = least + draw(st.sampled_from([0.0, 0.0, 3.0]))
        document = {
            "rack": draw(st.sampled_from(sorted(plant["racks"]))),
            "gpus": draw(st.sampled_from([1, 2, 8])),
            "gpu": "h100",
            "min_cap": f"{least} W",
            "max_cap": f"{floor + draw(st.integers(1, 80))} W",
            "floor": f"{floor} W",
            "overhead": f"{draw(st.integers(0, 5))} W",
            "priority": draw(st.sampled_from(["low", "normal", "high"])) if classes else "normal",
            "curve": {
                "tm": f"{draw(st.sampled_from([10, 1000]))} tok/s",
                "c0": f"{c0} W",
                "k": f"{draw(st.sampled_from([10, 25, 40]))} W",
                "n": draw(st.sampled_from([1.0, 2.0, 4.0, 14.0])),
            },
        }
        nodes[f"n{i}"] = Node.model_validate_json(json.dumps(document))
    return Hall(plant, nodes)


def bounds_hold(hall: Hall, plan: Plan) -> bool:
    return all(
        (node.floor or node.min_cap) - 1e-9 <= plan.caps_w[name] <= node.max_cap + 1e-9
        for name, node in hall.nodes.items()
    )


@settings(max_examples=120, deadline=None)
@given(halls(concave=False, classes=True), st.sampled_from(["throughput", "efficiency"]))
def test_plans_fit_and_are_infeasible_exactly_when_the_floors_do_not(
    hall: Hall, policy: str
) -> None:
    problem = Problem.of(hall.topology(), hall.nodes, policy=policy)  # type: ignore[arg-type]
    floors = {name: node.floor or node.min_cap for name, node in hall.nodes.items()}
    over = hall.over(floors)
    assume(abs(over) > 1e-6)
    for plan in (solve(problem), water_fill(problem)):
        assert plan.feasible == (over < 0.0)
        assert bounds_hold(hall, plan)
        if plan.feasible:
            assert hall.over(plan.caps_w) <= 1e-5
            assert feasible(problem, plan.caps_w) is None
            assert hall.over(plan.fallback_w) <= 1e-5 or plan.fallback_w == floors
            assert plan.missing is None
        else:
            assert plan.caps_w == floors
            assert plan.missing is not None
            assert plan.missing.kw == pytest.approx(over / 1000.0, abs=1e-8)
        assert Plan.from_json(json.loads(json.dumps(plan.to_json()))) == plan


@settings(max_examples=80, deadline=None)
@given(halls(concave=True, classes=False, most=3), st.sampled_from(["throughput", "efficiency"]))
def test_no_feasible_caps_earn_more(hall: Hall, policy: str) -> None:
    """A concave objective is greatest where no vertex of the room lies up its gradient."""
    problem = Problem.of(hall.topology(), hall.nodes, policy=policy)  # type: ignore[arg-type]
    plan = solve(problem)
    assume(plan.feasible)
    names = list(hall.nodes)
    price = {r: float(p) for r, p in zip(problem.topology.loads, problem.price_w, strict=True)}
    gradient = []
    for name in names:
        node, cap = hall.nodes[name], plan.caps_w[name]
        up = (worth(node, cap + 1e-5) - worth(node, cap - 1e-5)) / 2e-5
        net = up - price[node.rack] * FACTOR * node.gpus
        enough = (1.0 - 2e-6) * tokens(node, node.max_cap)
        if cap < 0.99 * node.max_cap and tokens(node, cap) >= enough:
            net = min(net, 0.0)  # watts that buy less than a millionth are not wanted
        gradient.append(net)
    a, b = [], []
    for weights, room in hall.rows():
        if any(weights.values()):
            a.append([weights[n] for n in names])
            b.append(room)
    for i, name in enumerate(names):
        unit = [float(i == j) for j in range(len(names))]
        a += [unit, [-x for x in unit]]
        b += [hall.nodes[name].max_cap, -(hall.nodes[name].floor or 0.0)]
    whole = np.unique(np.column_stack([a, b]), axis=0)
    matrix, limits = whole[:, :-1], whole[:, -1]
    found = np.array([plan.caps_w[n] for n in names])
    best = 0.0
    for active in itertools.combinations(range(len(limits)), len(names)):
        square = matrix[list(active)]
        if abs(np.linalg.det(square)) < 1e-9:
            continue
        vertex = np.linalg.solve(square, limits[list(active)])
        if np.all(matrix @ vertex <= limits + 1e-6):
            best = max(best, float(np.array(gradient) @ (vertex - found)))
    scale = sum(worth(hall.nodes[n], hall.nodes[n].max_cap) for n in names)
    assert best <= 2e-5 * max(scale, 1.0)


def desired(node: Node, price: float) -> float:
    """The cap at which a node earns most when a watt drawn costs `price`."""
    low, high = node.floor or node.min_cap, node.max_cap
    for _ in range(100):
        a, b = low + (high - low) / 3.0, high - (high - low) / 3.0
        left, right = (worth(node, c) - price * FACTOR * node.gpus * c for c in (a, b))
        low, high = (a, high) if left < right else (low, b)
    return 0.5 * (low + high)


@settings(max_examples=100, deadline=None)
@given(halls(concave=True, classes=True), st.sampled_from(["throughput", "efficiency"]))
def test_a_higher_class_never_waits_while_a_lower_one_has_watts_to_give(
    hall: Hall, policy: str
) -> None:
    problem = Problem.of(hall.topology(), hall.nodes, policy=policy)  # type: ignore[arg-type]
    plan = solve(problem)
    assume(plan.feasible)
    price = dict(zip(problem.topology.loads, problem.price_w.tolist(), strict=True))
    order = ["low", "normal", "high"]
    for name, node in hall.nodes.items():
        best = desired(node, price[node.rack])
        if tokens(node, plan.caps_w[name]) >= tokens(node, best) * (1.0 - 1e-5):
            continue
        moved = {
            other: (
                (n.floor or n.min_cap)
                if order.index(n.priority) < order.index(node.priority)
                else plan.caps_w[other]
            )
            for other, n in hall.nodes.items()
        }
        moved[name] = min(plan.caps_w[name] + 0.05, best)
        # Peers of its own class compete with it at their margin; only lower classes must yield.
        assert hall.over(moved) > 0.0


@settings(max_examples=60, deadline=None)
@given(halls(concave=True, classes=True))
def test_water_filling_earns_nearly_what_the_program_does(hall: Hall) -> None:
    problem = Problem.of(hall.topology(), hall.nodes, policy="throughput")
    best, filled = solve(problem), water_fill(problem)
    assume(best.feasible)
    high = [n for n, node in hall.nodes.items() if node.priority == "high"]
    gain = [sum(worth(hall.nodes[n], plan.caps_w[n]) for n in high) for plan in (best, filled)]
    assert gain[1] <= gain[0] + 1e-5 * max(1.0, gain[0])
    assert gain[1] >= 0.7 * gain[0]


@settings(max_examples=40, deadline=None)
@given(halls(concave=False, classes=True), st.sampled_from(["throughput", "efficiency"]))
def test_equal_problems_give_equal_plans(hall: Hall, policy: str) -> None:
    one, two = (
        Problem.of(hall.topology(), hall.nodes, policy=policy)  # type: ignore[arg-type]
        for _ in range(2)
    )
    assert one.digest == two.digest
    assert solve(one) == solve(two)


@settings(max_examples=40, deadline=None)
@given(halls(concave=True, classes=False, most=2), st.integers(2, 4))
def test_equal_curves_of_one_rack_get_equal_caps(hall: Hall, copies: int) -> None:
    first = next(iter(hall.nodes.values()))
    nodes = {f"n{i}": first for i in range(copies)}
    plan = solve(Problem.of(hall.topology(), nodes, policy="throughput"))
    caps = list(plan.caps_w.values())
    assert caps == pytest.approx([caps[0]] * copies, rel=1e-9)
