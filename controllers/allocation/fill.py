"""Water-filling: all units of a class rise at one common price, and stop where a limit stops them.

Every intermediate vector is feasible. It needs no solver: it stands in for the linear program
where that reaches its limit, and says what a drill would demand.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from controllers.allocation.problem import Problem
from controllers.allocation.rows import Pool
from controllers.allocation.stage import Market, StageResult
from facility.points import FloatArray, IntArray

#: The common price goes down in steps, as shares of the most that any watt earns.
LEVELS: Final = (
    *np.linspace(1.0, 0.1, 31).tolist(),
    *(0.08, 0.06, 0.045, 0.03, 0.02, 0.013, 0.008, 0.004, 0.001, 0.0),
)
#: So many units that must run whole or not at all may fail to fit before the rest stays parked.
FAILURES: Final = 32
#: Waves in which many such units rise, the most worth per watt first.
WAVES: Final = 16
#: A limit with less room than this share of it stops what touches it.
STOPS: Final = 1e-6


def fill(problem: Problem, pool: Pool, caps_w: FloatArray, units: IntArray) -> StageResult:
    """Raise the caps of a class from a feasible vector until nothing can rise.

    A unit that must run above its tangent point or not at all is first tried there, the most
    worth per watt first, earlier in the file on a tie.
    """
    market = Market(problem, caps_w, units)
    response, lumps = market.response, problem.lumps
    own = market.part * lumps.prices(problem.price_w)[market.lump]
    per_w = market.part * lumps.prices(np.ones(lumps.loads))[market.lump]
    per_w = np.maximum(per_w, 1e-300)
    width = response.start - response.low
    chord = (response.worth_start - response.worth_low) / np.where(width > 0.0, width, 1.0)
    pays = np.flatnonzero((market.choice == 0) & (chord > own))
    market.choice = np.where(market.choice == 0, -1, market.choice)
    order = pays[np.lexsort((pays, -np.round(chord[pays] / per_w[pays], 12)))]
    _run_what_fits(market, pool, order)
    caps = market.with_caps(market.least())
    slope = problem.units.slope(market.with_caps(response.start))[units]
    top = float(np.max((slope - own) / per_w, initial=0.0))
    wanted = market.with_caps(market.caps_at(problem.price_w))
    if pool.grow(wanted) == 0 and pool.holds(wanted):
        caps = wanted
    for level in LEVELS if caps is not wanted else ():
        risen = market.with_caps(market.caps_at(problem.price_w + level * max(top, 0.0)))
        caps = pool.rise(caps, np.maximum(risen, caps))
    short = (wanted > caps + 1e-6)[units]
    at_cap = problem.units.slope(caps)[units]
    price = np.where(short, np.maximum(at_cap - own, 0.0) / per_w, 0.0)
    by_lump = np.zeros(lumps.count)
    np.maximum.at(by_lump, market.lump, price)
    row_price = np.zeros(len(pool.numbers))
    full = pool.room_w(caps) <= STOPS * pool.limit_w
    if full.any():
        touching = np.where(pool.columns[full] > 0.0, by_lump[None, :], 0.0)
        row_price[full] = touching.max(axis=1)
    load_price = by_lump[: lumps.loads].copy()
    np.maximum.at(load_price, lumps.draw_load, by_lump[lumps.draw_lump])
    parked = np.zeros(len(caps), dtype=np.bool_)
    parked[units] = market.choice < 0
    return StageResult(caps, row_price * 1000.0, parked, load_price)


def _run_what_fits(market: Market, pool: Pool, order: IntArray) -> None:
    """Choose to run units, in this order, as long as all that run fit at their tangent points."""
    if len(order) > FAILURES:
        _run_by_lump(market, pool, order)
        order = order[market.choice[order] < 0]
    failures = 0

    def fits(count: int) -> bool:
        before = market.choice[order[:count]].copy()
        market.choice[order[:count]] = 1
        caps = market.with_caps(market.least())
        market.choice[order[:count]] = before
        return pool.grow(caps) == 0 and pool.holds(caps)

    while len(order) and failures < FAILURES:
        low, high = 0, len(order)
        if fits(high):
            low = high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if fits(middle) else (low, middle)
        market.choice[order[:low]] = 1
        order = order[low + 1 :]
        failures += 1


def _run_by_lump(market: Market, pool: Pool, order: IntArray) -> None:
    """Of many units, run what a fluid that rises in this order could run whole in each lump."""
    response = market.response
    caps, wanted = market.with_caps(response.low), response.low.copy()
    for part in np.array_split(order, WAVES):
        wanted[part] = response.start[part]
        caps = pool.rise(caps, np.maximum(market.with_caps(wanted), caps))
    risen = market.part * (caps[market.mine] - response.low)
    room = np.bincount(market.lump[order], risen[order], market.problem.lumps.count)
    width = market.part * (response.start - response.low)
    by_lump = order[np.argsort(market.lump[order], kind="stable")]
    lump, size = market.lump[by_lump], width[by_lump]
    first = np.flatnonzero(np.diff(lump, prepend=-1))
    before = np.cumsum(size)
    before = before - np.repeat((before - size)[first], np.diff(np.append(first, len(lump))))
    market.choice[by_lump[before <= room[lump] * (1.0 + 1e-12)]] = 1
