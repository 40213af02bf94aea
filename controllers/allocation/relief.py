"""Present overload: down to what the boards accept, lowest class first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from controllers.allocation.problem import CLASSES, Problem
from controllers.allocation.rows import Pool, Rows
from facility.points import FloatArray


def relieve(problem: Problem, caps_w: Mapping[str, float]) -> dict[str, float]:
    """Caps that end a present overload; equal to `caps_w` where there is none.

    Floors bind the contingency limits only, so a class is taken down to `min_cap`, and only then
    the next higher one. Only units that touch a limit now broken move; those of one class move by
    one share of what they can give; a unit with a fixed cap cannot move. Where even `min_cap`
    everywhere is too much, that is returned.
    """
    now = replace(problem, present_only=True)
    pool = Pool(Rows(now))
    caps = problem.unit_caps(caps_w)
    least = np.minimum(problem.table.least_w, caps)
    for i, name in enumerate(problem.nodes):
        if name in problem.fixed:
            least[problem.unit[i]] = caps[problem.unit[i]]
    for rank in range(len(CLASSES)):
        while pool.grow(caps):
            pass
        if pool.holds(caps):
            break
        broken = pool.matrix[pool.room_w(caps) < 0.0].sum(axis=0)
        moves = (problem.rank == rank) & (problem.unit_price(broken) > 0.0)
        caps = _lower(pool, caps, np.where(moves, least, caps))
    return {name: float(caps[problem.unit[i]]) for i, name in enumerate(problem.nodes)}


def _lower(pool: Pool, caps: FloatArray, least: FloatArray) -> FloatArray:
    """The smallest common step from `caps` towards `least` that ends the overload, or `least`."""
    low, high = 0.0, 1.0
    for _ in range(50):
        middle = 0.5 * (low + high)
        if pool.holds(caps + middle * (least - caps)):
            high = middle
        else:
            low = middle
    return np.asarray(caps + high * (least - caps))
