"""From good prices to exact ones: Newton's method on the dual, where the caps have closed form.

The dual of a concave program is convex in the prices of the limits; its gradient is the room left
at the caps that the prices ask for. Each step solves for the prices at which the limits that have
a price are just full, and is shortened until the dual falls. Source: two-metric projection,
Bertsekas, Projected Newton methods, SIAM J. Control 20 (1982).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from controllers.allocation.rows import Pool
from controllers.allocation.stage.market import Asked, Market
from facility.points import FloatArray

#: Steps; shortenings of one step, by this factor.
STEPS, SHORTER, FACTOR = 40, 12, 0.4
#: Rounds in which limits are found that lose their price.
FIXINGS = 12
#: What a limit may be off, as a share of it: sought, and good enough where no step gains any more.
SOUGHT, ENOUGH = 2e-11, 1e-9
#: Keeps limits that bind equally, or whose nodes all sit on their bounds, solvable.
RIDGE = 1e-10


@dataclass(frozen=True, eq=False)
class Settled:
    """Prices at which every limit holds and each with a price is full.

    Attributes:
        row_price: float64[pool], worth per W.
    """

    row_price: FloatArray
    asked: Asked


def settle(market: Market, pool: Pool, row_price: FloatArray) -> Settled | None:
    """Exact prices from good ones; None where the steps do not get there (straight curves).

    Args:
        market: the class; every choice made.
        pool: rows written out so far; grows.
        row_price: float64[at most the pool's], where to start.
    """
    while True:
        start = np.zeros(len(pool.numbers))
        start[: len(row_price)] = row_price
        settled = _descend(market, pool, start)
        if settled is None or pool.grow(market.with_caps(settled.asked.cap_w)) == 0:
            return settled
        row_price = settled.row_price


def _descend(market: Market, pool: Pool, price: FloatArray) -> Settled | None:
    matrix, columns, limit = pool.matrix, pool.columns, pool.limit_w
    scale = np.maximum(limit, 1.0)
    asked = market.ask(price, matrix, limit)
    off = np.inf
    for _ in range(STEPS):
        over = matrix @ asked.load_w - limit
        moves = (price > 0.0) | (over > 0.0)
        before, off = off, float(np.max(np.abs(over[moves]) / scale[moves], initial=0.0))
        if off <= SOUGHT or (off <= ENOUGH and off > 0.5 * before):
            return Settled(price, asked)
        step = _step(columns[moves], asked.give, over[moves], price[moves])
        if step is None:
            return None
        # No limit's price more than doubles past the dearest at once.
        reach = 2.0 * max(float(price.max()), float(np.max(asked.load_price)))
        step = np.clip(step, -reach, reach)
        length, taken = 1.0, None
        for _ in range(SHORTER):
            trial = price.copy()
            trial[moves] = np.maximum(price[moves] + length * step, 0.0)
            found = market.ask(trial, matrix, limit)
            gains = 1e-4 * float(over @ (trial - price))
            if found.bound <= asked.bound - gains + 1e-13 * abs(asked.bound):
                taken = found
                break
            length *= FACTOR
        if taken is None:
            return Settled(price, asked) if off <= ENOUGH else None
        price, asked = trial, taken
    return Settled(price, asked) if off <= ENOUGH else None


def _step(
    columns: FloatArray, give: FloatArray, over: FloatArray, price: FloatArray
) -> FloatArray | None:
    """The change of prices that makes limits just full, or, where it would go below 0, free.

    Of limits that bind for the same nodes only the tighter keeps a price: the other's change is
    fixed first, and what it leaves to do falls to the rest. None where nothing gives way.
    """
    gives = give > 0.0
    part = columns[:, gives]
    bend = (part * give[gives]) @ part.T
    bent = np.diag(bend).copy()
    if not bent.max(initial=0.0) > 0.0:
        return None
    bend[np.diag_indices_from(bend)] += RIDGE * (bent + 0.01 * bent.max())
    step = np.zeros(len(price))
    free = np.ones(len(price), dtype=np.bool_)
    for _ in range(FIXINGS):
        rest = over[free] - bend[np.ix_(free, ~free)] @ step[~free]
        try:
            step[free] = np.linalg.solve(bend[np.ix_(free, free)], rest)
        except np.linalg.LinAlgError:
            return None
        below = free & (price + step < 0.0)
        if not below.any():
            break
        step[below] = -price[below]
        free &= ~below
        if not free.any():
            break
    return step
