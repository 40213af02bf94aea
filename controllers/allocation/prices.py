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

TextArray = np.ndarray[tuple[int, ...], np.dtype[np.object_]]

#: A cap within this many W of a bound sits on it.
ON_BOUND_W = 1e-6
#: Rows without room among which a node's limit is looked for where no price names one.
LOOKED_AT = 50


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
    slack_w: FloatArray,
) -> Explanation:
    """Name what set each cap; highest class first, as the stages ran.

    Args:
        problem: the question.
        caps_w: float64[U], W per GPU.
        results: of the classes solved; none where nothing fits.
        pool: the rows written out.
        slack_w: float64[rows], W left on every row at these caps.
    """
    parked = np.zeros(len(caps_w), dtype=np.bool_)
    rows, lumps = len(pool.numbers), problem.lumps
    price = np.zeros(rows)
    taken = np.zeros(rows, dtype=np.bool_)
    binding = np.full(len(caps_w), -1, dtype=np.int64)
    classes = np.unique(problem.rank)[::-1]
    for rank, result in zip(classes.tolist(), results, strict=False):
        parked |= result.parked
        mine = problem.rank == rank
        own = np.zeros(rows)
        own[: len(result.row_price)] = result.row_price
        # One more kW goes to the highest class that a limit holds back.
        price = np.where(taken, price, own)
        if rank != classes[-1]:
            held = mine & (problem.unit_price(result.load_price) > 0.0)
            on = np.zeros(lumps.count, dtype=np.bool_)
            on[lumps.lump[held]] = True
            taken |= (pool.columns[:, on] > 0.0).any(axis=1)
        dear = np.flatnonzero(own > 0.0)
        if len(dear):
            cost = own[dear, None] * pool.columns[dear]
            row = np.where(cost.max(axis=0) > 0.0, dear[cost.argmax(axis=0)], -1)
            binding[mine] = row[lumps.lump[mine]]
    if np.any(slack_w < 0.0):
        texts = nothing_fits(problem, caps_w)
    else:
        texts = _because(problem, caps_w, parked, binding, pool, slack_w)
    because = tuple(texts[problem.unit].tolist())
    prices = _prices(problem, caps_w, parked, price, pool)
    groups = together(problem, pool, slack_w, np.flatnonzero(price > 0.0))
    return Explanation(because, parked, prices, groups)


def place(name: tuple[str, str]) -> str:
    """As people say it: "ups-a2 after loss of ups-a1", "ups-a2 in the normal case"."""
    element, case = name
    return f"{element} in the normal case" if case == "normal" else f"{element} after {case}"


def nothing_fits(problem: Problem, caps_w: FloatArray) -> TextArray:
    """Per unit, what is said of its cap where even the floors do not fit."""
    level, of = np.unique(caps_w, return_inverse=True)
    said = np.array([f"its floor, {cap:.0f} W: no plan fits" for cap in level], dtype=object)
    texts = said[of]
    fixed = np.flatnonzero(problem.overridden)
    texts[fixed] = problem.say_high(fixed)
    return texts


def _because(
    problem: Problem,
    caps_w: FloatArray,
    parked: BoolArray,
    binding: IntArray,
    pool: Pool,
    slack_w: FloatArray,
) -> TextArray:
    """Per unit, what set its cap."""
    units = problem.units
    texts = np.full(len(caps_w), "parked at its floor: its watts earn too little", dtype=object)
    bound = binding >= 0
    for row in np.unique(binding[bound]).tolist():
        name, mine = place(pool.rows.name(pool.numbers[row])), binding == row
        texts[mine] = name
        texts[mine & parked] = f"parked at its floor: {name}"
    top = np.flatnonzero(problem.overridden | (~parked & (caps_w >= units.high - ON_BOUND_W)))
    rest = ~parked & ~bound
    rest[top] = False
    low = np.flatnonzero(rest & (caps_w <= units.low + ON_BOUND_W))
    texts[low] = [f"its floor, {cap:.0f} W" for cap in caps_w[low].tolist()]
    rest[low] = False
    left = np.flatnonzero(rest)
    if len(left):
        texts[left] = _own_optimum(problem, left, pool, slack_w)
    texts[top] = problem.say_high(top)
    return texts


def _own_optimum(
    problem: Problem, left: IntArray, pool: Pool, slack_w: FloatArray
) -> list[str] | TextArray:
    """What set caps that no price explains."""
    if problem.policy == "efficiency":
        rack = np.zeros(len(problem.rank), dtype=np.int64)
        rack[problem.unit[::-1]] = problem.table.rack[::-1]
        said = [f"most tokens per watt of {name}" for name in problem.table.racks]
        return np.array(said, dtype=object)[rack[left]]
    order = np.argsort(slack_w, kind="stable")[:LOOKED_AT].tolist()
    if not order:
        return ["its own optimum"] * len(left)
    weights = problem.lumps.columns(pool.rows.weights(order))
    on = weights[:, problem.lumps.lump[left]] > 0.0
    first = np.where(on.any(axis=0), on.argmax(axis=0), 0)
    names = np.array([place(pool.rows.name(row)) for row in order], dtype=object)
    return names[first]


def _prices(
    problem: Problem,
    caps_w: FloatArray,
    parked: BoolArray,
    price: FloatArray,
    pool: Pool,
) -> tuple[Price, ...]:
    dear = np.flatnonzero(price > 0.0)
    if not len(dear):
        return ()
    units, lumps = problem.units, problem.lumps
    inside = (caps_w > units.start + ON_BOUND_W) & (caps_w < units.high - ON_BOUND_W) & ~parked
    bend = np.maximum(units.bend(caps_w), 1e-300)
    known = problem.table.gpus * problem.claimed
    c = units.curves
    slope = c.slope(caps_w[problem.unit])
    tokens = np.bincount(problem.unit, slope / np.maximum(c.gain, 1e-300) * known, len(caps_w))
    # One more kW spreads over the margin as the prices fall together; of what the nodes there gain
    # by it, a limit that binds beside others has the part that is its own price.
    rises = np.bincount(problem.unit, slope, len(caps_w))
    net = np.maximum(rises - problem.unit_price(problem.price_w), 0.0)
    give = np.where(inside, lumps.part / bend, 0.0)
    earned = np.bincount(lumps.lump, give * tokens, lumps.count)
    valued = np.bincount(lumps.lump, give * net, lumps.count)
    columns = pool.columns[dear]
    gain_tok, gain_worth = columns @ earned, columns @ valued
    found: dict[tuple[str, str], tuple[float, float]] = {}
    for at, row in enumerate(dear.tolist()):
        per_worth = float(gain_tok[at] / gain_worth[at]) if gain_worth[at] > 0.0 else None
        if per_worth is None:
            per_worth = _tokens_per_worth(problem, columns[at])
        gained = float(price[row]) * per_worth
        # One more kW on an element gives each of its phases a third of it.
        number = pool.numbers[row]
        part, name = float(pool.rows.room_share[number]), pool.rows.name(number)
        worth, so_far = found.get(name, (0.0, 0.0))
        found[name] = (worth + part * float(price[row]), so_far + part * gained)
    dearest = sorted(found.items(), key=lambda item: -item[1][0])
    return tuple(Price(*name, worth, gained) for name, (worth, gained) in dearest)


def _tokens_per_worth(problem: Problem, column: FloatArray) -> float:
    """Tokens a second per unit of worth among the nodes on a row."""
    on = (column > 0.0)[problem.lumps.lump][problem.unit]
    gain = problem.units.curves.gain[on]
    known = (problem.table.gpus * problem.claimed)[on]
    return float(np.sum(known) / np.sum(gain)) if len(gain) and np.sum(gain) > 0 else 0.0
