"""Plans earn within a thousandth of what an independent program finds; run in numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from controllers.allocation import Plan, Problem, Solver, feasible, solve, water_fill
from tests.controllers.allocation.optimum import (
    CLASSES,
    FACTOR,
    RandomHall,
    best_of_class,
    floor,
    own_price,
    random_hall,
    units_of,
    worth,
)

#: What a plan may earn less, as a share of all that is earned.
GAP = 1e-3
KINDS: dict[str, dict[str, bool]] = {
    "concave": {"parks": False, "classes": False},
    "classes": {"parks": False, "classes": True},
    "jobs": {"parks": False, "classes": False, "groups": True},
    "metered": {"parks": False, "classes": False, "metered": True},
    "all but parking": {"parks": False, "classes": True, "groups": True, "metered": True},
    "parking": {"parks": True, "classes": False},
    "parking by class": {"parks": True, "classes": True, "metered": True},
}
POLICIES = ("throughput", "efficiency")


def posed(hall: RandomHall, policy: Any) -> Problem:
    return Problem.of(hall.topology(), hall.nodes, policy=policy, metered_w=hall.metered)


def earned(hall: RandomHall, plan: Plan, rank: int, price: dict[str, float]) -> float:
    """Worth of a class above its floors less λ for what it draws above them."""
    out, lows = 0.0, floors(hall)
    for names, own in units_of(hall):
        for name in names if own == rank else ():
            node, cap, low = hall.nodes[name], plan.caps_w[name], lows[name]
            out += float(worth(node, cap) - worth(node, low))
            out -= price.get(node.rack, 0.0) * FACTOR * node.gpus * (cap - low)
    return out


def floors(hall: RandomHall) -> dict[str, float]:
    """The least cap of each node; those of a job share the highest floor, as far as all can."""
    low, top = dict[str, float](), dict[str, float]()
    for name, node in hall.nodes.items():
        key = node.group or name
        low[key] = max(low.get(key, 0.0), floor(node))
        top[key] = min(top.get(key, float("inf")), node.max_cap)
    return {
        name: min(low[node.group or name], top[node.group or name])
        for name, node in hall.nodes.items()
    }


def check(kind: str, policy: str, seed: int) -> bool:
    """Judge one plan; whether there was one to judge."""
    hall = random_hall(seed, **KINDS[kind])
    problem = posed(hall, policy)
    plan = solve(problem)
    over = hall.over(floors(hall))
    where = f"{kind}, {policy}, seed {seed}"
    if abs(over) < 1e-6:
        return False
    assert plan.feasible == (over < 0.0), where
    if not plan.feasible:
        return False
    assert hall.over(plan.caps_w) <= 1e-5, where
    assert feasible(problem, plan.caps_w) is None, where
    price = {r: own_price(hall, r) for r in {n.rack for n in hall.nodes.values()}}
    if policy == "throughput":
        price = {}
    elif not hall.metered:
        mine = dict(zip(problem.topology.loads, problem.price_w.tolist(), strict=True))
        assert {r: mine[r] for r in price} == pytest.approx(price, rel=2e-6), where
    if policy == "efficiency" and hall.metered:
        # What a peak counts anyhow costs nothing more, so λ is not a price per watt of cap there.
        return True
    whole = sum(float(worth(node, plan.caps_w[name])) for name, node in hall.nodes.items())
    for rank in sorted({own for _, own in units_of(hall)}):
        best, got = best_of_class(hall, rank, plan.caps_w, price), earned(hall, plan, rank, price)
        assert got >= best - GAP * whole, f"{where}: {CLASSES[rank]} {got} of {best} ({whole})"
    return True


def cases(count: int, first: int) -> Iterator[tuple[str, str, int]]:
    for seed in range(first, first + count):
        for kind in KINDS:
            yield kind, POLICIES[seed % 2], seed


@pytest.mark.parametrize("kind", KINDS)
def test_a_plan_earns_what_an_independent_program_finds(kind: str) -> None:
    judged = [check(kind, POLICIES[seed % 2], seed) for seed in range(24)]
    assert sum(judged) >= 6


@pytest.mark.soak
def test_two_thousand_plans_earn_what_an_independent_program_finds() -> None:
    judged = [check(*case) for case in cases(300, 1000)]
    assert len(judged) >= 2000
    assert sum(judged) >= 1000


@pytest.mark.parametrize("kind", KINDS)
def test_a_solver_that_goes_on_from_another_question_finds_the_same_caps(kind: str) -> None:
    for seed in range(4):
        hall = random_hall(seed, **KINDS[kind])
        topology, solver = hall.topology(), Solver()
        for share in (0.8, 1.3, 1.0):
            problem = Problem.of(
                topology,
                hall.nodes,
                policy="throughput",
                load_w={"pump": 200.0 * share},
                metered_w=hall.metered,
            )
            warm, cold = solver.solve(problem), solve(problem)
            assert warm.caps_w == pytest.approx(cold.caps_w, abs=1e-3)
            assert warm.feasible == cold.feasible


@pytest.mark.parametrize("kind", KINDS)
def test_water_filling_is_feasible_and_nearly_as_good(kind: str) -> None:
    shares = []
    for seed in range(16):
        hall = random_hall(seed, **KINDS[kind])
        problem = posed(hall, POLICIES[seed % 2])
        filled, best = water_fill(problem), solve(problem)
        assert filled.feasible == best.feasible
        if not best.feasible:
            continue
        assert hall.over(filled.caps_w) <= 1e-5
        gains = []
        for plan in (filled, best):
            gains.append(sum(float(worth(n, plan.caps_w[k])) for k, n in hall.nodes.items()))
        shares.append(gains[0] / max(gains[1], 1e-9))
    assert sum(shares) / len(shares) >= 0.97
