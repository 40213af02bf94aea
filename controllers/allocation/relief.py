"""What caps must do besides a plan: come down until they fit, end an overload, make room."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from controllers.allocation.prices import place
from controllers.allocation.problem import Problem
from controllers.allocation.rows import Pool, Rows
from controllers.allocation.table import CLASSES
from facility.points import FloatArray

#: A limit with less room than this share of it stops what touches it.
STOPS = 1e-6


@dataclass(frozen=True, eq=False)
class Fitted:
    """Caps that fit, and what holds down those that had to come down.

    Attributes:
        caps_w: float64[N], W per GPU.
        because: node number -> the limit, in words.
    """

    caps_w: FloatArray
    because: Mapping[int, str]


def lower_to_fit(rows: Rows, caps_w: FloatArray, least_w: FloatArray) -> Fitted | None:
    """Caps lowered until every limit holds; None where even the least caps break one.

    All units rise from their least caps by one share of their way back to `caps_w`, the highest
    class first, until a limit is full; what touches none gets back all it had. Every vector on
    the way holds. Caps of a plan earn alike at the margin, so that a small step down costs the
    same whoever takes it; a great one is uneven until the next plan, which is a matter of seconds.

    Args:
        rows: the limits.
        caps_w: float64[U], W per GPU.
        least_w: float64[U].
    """
    problem, pool = rows.problem, Pool(rows)
    if rows.violation(least_w) is not None:
        return None
    caps = np.minimum(least_w, caps_w)
    while pool.grow(caps_w):
        pass
    for rank in reversed(range(len(CLASSES))):
        mine = problem.rank == rank
        if mine.any():
            caps = pool.rise(caps, np.where(mine, caps_w, caps))
    because: dict[int, str] = {}
    full = np.flatnonzero(pool.room_w(caps) <= STOPS * pool.limit_w)
    if len(full):
        stops = pool.columns[full] > 0.0
        first = np.where(stops.any(axis=0), stops.argmax(axis=0), -1)
        row = first[problem.lumps.lump[problem.unit]]
        low = np.flatnonzero((caps < caps_w)[problem.unit] & (row >= 0))
        said = [place(rows.name(pool.numbers[number])) for number in full.tolist()]
        because = {i: said[k] for i, k in zip(low.tolist(), row[low].tolist(), strict=True)}
    return Fitted(caps[problem.unit], because)


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


def make_room(
    rows: Rows, in_force_w: FloatArray, desired_w: FloatArray, least_move_w: FloatArray
) -> FloatArray:
    """Caps to go for when small moves are not made, so that the raises wanted still fit.

    A cap that should fall by less than its least move stays, unless a raise needs its watts: then
    it falls by the least move, those that should fall furthest first. What still does not fit is
    not raised as far.

    Args:
        rows: the limits.
        in_force_w: float64[N], W per GPU.
        desired_w: float64[N], where caps should be; holds every limit.
        least_move_w: float64[N].

    Returns:
        float64[N], holding every limit where `in_force_w` with the lowerings does.
    """
    problem, pool = rows.problem, Pool(rows)
    force, wanted, least = (
        problem.unit_caps(caps) for caps in (in_force_w, desired_w, least_move_w)
    )
    small = (wanted < force) & (wanted > force - least)
    lower = force - least
    caps = np.where(small, force, wanted)
    able = small & (lower >= problem.table.least_w) & (lower >= problem.table.floors_w)
    while pool.grow(caps) or not pool.holds(caps):
        broken = pool.columns[pool.room_w(caps) < 0.0]
        touched = np.asarray((broken > 0.0).any(axis=0))[problem.lumps.lump]
        yielding = np.flatnonzero(able & touched)
        if not len(yielding):
            if not len(broken):
                continue
            base = np.minimum(caps, force)
            caps = pool.rise(base, caps) if pool.holds(base) else base
            break
        yielding = yielding[np.argsort((wanted - force)[yielding], kind="stable")]
        low, high = 0, len(yielding)
        while high - low > 1:
            middle = (low + high) // 2
            trial = caps.copy()
            trial[yielding[:middle]] = lower[yielding[:middle]]
            low, high = (low, middle) if pool.holds(trial) else (middle, high)
        caps[yielding[:high]] = lower[yielding[:high]]
        able[yielding[:high]] = False
    moved = caps != wanted
    return np.where(moved[problem.unit], caps[problem.unit], desired_w)
