"""Why each cap is what it is, and what one more kW would be worth to the nodes at the margin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from controllers.allocation.plan import Price
from controllers.allocation.problem import Problem
from controllers.allocation.rows import Pool
from controllers.allocation.stage import StageResult
from controllers.allocation.twins import together
from facility.points import FloatArray, IntArray
from facility.topology.graph import BoolArray

#: A cap within this many W of a bound sits on it.
ON_BOUND_W = 1e-6


@dataclass(frozen=True)
class Explanation:
    """What people see beside the caps.

    Attributes:
        because: per node.
        parked: bool[U].
        prices: limits that bind, dearest first.
        together: groups of elements that bind equally; see `twins.together`.
    """

    because: tuple[str, ...]
    parked: BoolArray
    prices: tuple[Price, ...]
    together: tuple[tuple[str, ...], ...]


def explain(
    problem: Problem,
    caps_w: FloatArray,
    results: Sequence[StageResult],
    pool: Pool,
    *,
    fits: bool,
) -> Explanation:
    """Name what set each cap; highest class first, as the stages ran."""
    parked = np.zeros(len(caps_w), dtype=np.bool_)
    rows = len(pool.numbers)
    price = np.zeros(rows)
    stage_of = np.full(len(caps_w), -1, dtype=np.int64)
    by_stage = []
    pull = [problem.unit_price(pool.matrix[row]) for row in range(rows)]
    taken = np.zeros(rows, dtype=np.bool_)
    for i, result in enumerate(results):
        parked |= result.parked
        mine = problem.rank == _rank(problem, i)
        stage_of[mine] = i
        own = np.zeros(rows)
        own[: len(result.row_price)] = result.row_price
        by_stage.append(own)
        # One more kW goes to the highest class that a limit holds back.
        price = np.where(taken, price, own)
        held = mine & (problem.unit_price(result.load_price) > 0.0)
        taken |= np.array([bool(np.any(row[held] > 0.0)) for row in pull], dtype=np.bool_)
    because = tuple(
        _because(problem, i, caps_w, parked, stage_of, by_stage, pull, pool, fits=fits)
        for i in range(len(problem.nodes))
    )
    prices = _prices(problem, caps_w, parked, price, pull, pool)
    priced = {(p.element, p.case) for p in prices}
    return Explanation(because, parked, prices, together(problem, caps_w, pool, pull, priced))


def _rank(problem: Problem, stage: int) -> int:
    return int(np.unique(problem.rank)[::-1][stage])


def place(name: tuple[str, str]) -> str:
    """As people say it: "ups-a2 after loss of ups-a1", "ups-a2 in the normal case"."""
    element, case = name
    return f"{element} in the normal case" if case == "normal" else f"{element} after {case}"


def _because(
    problem: Problem,
    node: int,
    caps_w: FloatArray,
    parked: BoolArray,
    stage_of: IntArray,
    by_stage: list[FloatArray],
    pull: list[FloatArray],
    pool: Pool,
    *,
    fits: bool,
) -> str:
    u = int(problem.unit[node])
    cap, low, high = float(caps_w[u]), problem.units.low[u], problem.units.high[u]
    if problem.high_because[node].startswith("override"):
        return problem.high_because[node]
    if not fits:
        return f"its floor, {cap:.0f} W: no plan fits"
    binding = None
    stage = int(stage_of[u])
    if stage >= 0 and pull:
        cost = np.array([by_stage[stage][r] * pull[r][u] for r in range(len(pull))])
        if float(cost.max(initial=0.0)) > 0.0:
            binding = place(pool.rows.name(pool.numbers[int(np.argmax(cost))]))
    if parked[u]:
        return f"parked at its floor: {binding or 'its watts earn too little'}"
    if cap >= high - ON_BOUND_W:
        return problem.high_because[node]
    if binding is not None:
        return binding
    if cap <= low + ON_BOUND_W:
        return f"its floor, {cap:.0f} W"
    if problem.policy == "efficiency":
        return f"most tokens per watt of {problem.configs[node].rack}"
    return place(pool.rows.name(_tightest(problem, caps_w, u, pool)))


def _tightest(problem: Problem, caps_w: FloatArray, u: int, pool: Pool) -> int:
    """The row without room that a unit touches; any tightest row where it touches none."""
    slack = pool.rows.slack_w(problem.load_w(caps_w))
    order = np.argsort(slack, kind="stable")
    for row in order[:50].tolist():
        if problem.unit_price(pool.rows.weights(row))[u] > 0.0:
            return int(row)
    return int(order[0])


def _prices(
    problem: Problem,
    caps_w: FloatArray,
    parked: BoolArray,
    price: FloatArray,
    pull: list[FloatArray],
    pool: Pool,
) -> tuple[Price, ...]:
    units = problem.units
    inside = (caps_w > units.start + ON_BOUND_W) & (caps_w < units.high - ON_BOUND_W) & ~parked
    bend = np.maximum(units.bend(caps_w), 1e-300)
    gpus = np.array([n.gpus for n in problem.configs], dtype=np.float64)
    known = np.array(problem.claimed, dtype=np.float64)
    c = units.curves
    per_token = np.where(
        c.gain > 0.0, c.slope(caps_w[problem.unit]) / np.maximum(c.gain, 1e-300), 0
    )
    tokens = np.bincount(problem.unit, per_token * gpus * known, len(caps_w))
    found: dict[tuple[str, str], tuple[float, float]] = {}
    for row in np.flatnonzero(price > 0.0).tolist():
        weight = np.where(inside, pull[row] ** 2 / bend, 0.0)
        total = float(weight.sum())
        if total > 0.0:
            # One more kW spreads over the margin as the prices fall together.
            share = np.where(pull[row] > 0.0, weight / total / np.maximum(pull[row], 1e-300), 0.0)
            gained = 1000.0 * float(share @ tokens)
        else:
            gained = float(price[row]) * _tokens_per_worth(problem, pull[row])
        # One more kW on an element gives each of its phases a third of it.
        number = pool.numbers[row]
        part, name = pool.rows.room_share(number), pool.rows.name(number)
        worth, so_far = found.get(name, (0.0, 0.0))
        found[name] = (worth + part * float(price[row]), so_far + part * gained)
    dearest = sorted(found.items(), key=lambda item: -item[1][0])
    return tuple(Price(*name, worth, gained) for name, (worth, gained) in dearest)


def _tokens_per_worth(problem: Problem, pull: FloatArray) -> float:
    """Tokens a second per unit of worth among the nodes on a row."""
    on = pull[problem.unit] > 0.0
    gain = problem.units.curves.gain[on]
    gpus = np.array([n.gpus for n in problem.configs], dtype=np.float64)[on]
    known = np.array(problem.claimed, dtype=np.float64)[on]
    return float(np.sum(gpus * known) / np.sum(gain)) if len(gain) and np.sum(gain) > 0 else 0.0
