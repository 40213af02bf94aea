"""Water-filling: all units of a class rise at one common price, and stop where a limit stops them.

Every intermediate vector is feasible. It needs no solver, so it is what the cycle uses until a
plan of the linear program has arrived.
"""

from __future__ import annotations

import numpy as np

from controllers.allocation.problem import Problem
from controllers.allocation.rows import Pool
from controllers.allocation.stage import StageResult
from facility.points import FloatArray, IntArray
from facility.topology.graph import BoolArray


def fill(problem: Problem, pool: Pool, caps_w: FloatArray, units: IntArray) -> StageResult:
    """Raise the caps of a class from a feasible vector until nothing can rise.

    A unit that must run above its tangent point or not at all is first tried there, the most
    worth per watt first, earlier in the file on a tie.
    """
    shape = problem.units
    mine = np.zeros(len(caps_w), dtype=np.bool_)
    mine[units] = True
    own = problem.unit_price(problem.price_w)
    wanted = shape.best(own)
    per_w = np.maximum(problem.unit_price(np.ones(len(problem.base_w))), 1e-300)
    caps = caps_w.copy()
    parked = mine & (shape.start > shape.low)
    chord = shape.chord() / per_w
    for u in sorted(np.flatnonzero(parked & (wanted > shape.low)), key=lambda u: (-chord[u], u)):
        trial = caps.copy()
        trial[u] = shape.start[u]
        if _fits(pool, trial):
            caps, parked[u] = trial, False
    free = mine & ~parked & (wanted > caps)
    # Above every slope, so that nothing rises at it.
    top = 2.0 * float(np.max(shape.slope(np.maximum(shape.start, shape.low)) / per_w, initial=0.0))
    price = np.zeros(len(caps_w))
    stopping: list[int] = []
    for _ in range(len(units) + 1):
        if not free.any():
            break
        level = _level(problem, pool, caps, free, own, per_w, top)
        lower = max(level - 4e-12 * top, 0.0)
        wanted = _at(problem, caps, free, own, per_w, lower)
        caps = pool.toward(_at(problem, caps, free, own, per_w, level), wanted)
        price[free] = level
        stuck, rows = _stuck(problem, pool, caps, free)
        stopping += rows
        if level <= 0.0 or not stuck.any():
            break
        free &= ~stuck
    row_price = np.zeros(len(pool.numbers))
    row_price[stopping] = 1.0
    worth = np.where(mine & (price > 0.0), price, 0.0)
    load_price = np.zeros(len(problem.base_w))
    np.maximum.at(load_price, problem.rack, worth[problem.unit])
    return StageResult(caps, row_price * float(worth.max(initial=0.0)) * 1000.0, parked, load_price)


def _fits(pool: Pool, caps_w: FloatArray) -> bool:
    return pool.grow(caps_w) == 0 and pool.holds(caps_w)


def _at(
    problem: Problem,
    caps_w: FloatArray,
    free: BoolArray,
    own: FloatArray,
    per_w: FloatArray,
    level: float,
) -> FloatArray:
    risen = problem.units.respond(own + level * per_w)
    return np.where(free, np.maximum(risen, caps_w), caps_w)


def _level(
    problem: Problem,
    pool: Pool,
    caps_w: FloatArray,
    free: BoolArray,
    own: FloatArray,
    per_w: FloatArray,
    top: float,
) -> float:
    """The lowest common price per watt drawn at which the free units fit."""
    low, high = 0.0, top
    while True:
        while high - low > 1e-12 * top:
            middle = 0.5 * (low + high)
            if pool.holds(_at(problem, caps_w, free, own, per_w, middle)):
                high = middle
            else:
                low = middle
        if pool.holds(_at(problem, caps_w, free, own, per_w, 0.0)):
            high = 0.0
        if pool.grow(_at(problem, caps_w, free, own, per_w, high)) == 0:
            return high
        low, high = high, top


def _stuck(
    problem: Problem, pool: Pool, caps_w: FloatArray, free: BoolArray
) -> tuple[BoolArray, list[int]]:
    """Free units that touch a row without room, and those rows of the pool."""
    if not len(pool.limit_w):
        return np.zeros(len(free), dtype=np.bool_), []
    tight = np.flatnonzero(pool.room_w(caps_w) <= 1e-6 * pool.limit_w)
    stuck = np.zeros(len(free), dtype=np.bool_)
    rows = []
    for row in tight.tolist():
        touches = free & (problem.unit_price(pool.matrix[row]) > 0.0)
        if touches.any():
            stuck |= touches
            rows.append(row)
    return stuck, rows
