"""Between which caps each unit may be set, and what sets its greatest one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from controllers.allocation.curves import Curves
from controllers.allocation.table import Table
from facility.points import FloatArray, IntArray

#: Watts that buy less than this share of a node's tokens are not wanted.
NOTHING = 1e-6
#: Caps that save less than this share of the greatest one are not worth telling apart.
SAVES = 0.001
BOARD, COOLING, NO_RAISES, DEMAND, NO_TOKENS, OVERRIDE = range(6)
_SAYS = (
    "its greatest cap, {:.0f} W",
    "cooling allows {:.0f} W",
    "no raises now, {:.0f} W in force",
    "demand is met at {:.0f} W",
    "more than {:.0f} W buys no tokens",
    "override to {:.0f} W",
)


@dataclass(frozen=True, eq=False)
class Bounds:
    """Per unit, W per GPU.

    Attributes:
        low_w, high_w: float64[U].
        why: int64[U]; what sets the greatest cap, one of the codes of this module.
    """

    low_w: FloatArray
    high_w: FloatArray
    why: IntArray


def say_high(why: IntArray, high_w: FloatArray) -> list[str]:
    """What sets greatest caps, for people; the codes of this module and W per GPU, alike long."""
    level, of = np.unique(high_w, return_inverse=True)
    key, back = np.unique(why * len(level) + of, return_inverse=True)
    texts = [_SAYS[k // len(level)].format(level[k % len(level)]) for k in key.tolist()]
    return [texts[i] for i in back.tolist()]


def bounds_of(
    table: Table,
    curves: Curves,
    thermal_w: Mapping[str, float],
    ceiling_w: Mapping[str, float],
    fixed_w: Mapping[str, float],
) -> Bounds:
    """Least and greatest cap of each unit.

    A thermal cap goes below a floor, never below what the board accepts: floors bind the
    contingency limits only. Among equal bounds the board's is named first, then cooling's.
    """
    unit, count = table.unit, table.units
    top, why = table.max_cap_w.copy(), np.full(len(unit), BOARD)
    for limits, code in ((thermal_w, COOLING), (ceiling_w, NO_RAISES)):
        if limits:
            limit = np.maximum(_laid_out(table, limits), table.min_cap_w)
            less = limit < top
            top, why = np.where(less, limit, top), np.where(less, code, why)
    low, high = np.zeros(count), np.full(count, np.inf)
    np.maximum.at(low, unit, table.floor_w)
    np.minimum.at(high, unit, top)
    # The first member with the least bound says why.
    first = np.full(count, len(unit), dtype=np.int64)
    at = np.flatnonzero(top == high[unit])
    np.minimum.at(first, unit[at], at)
    code_of = why[first] if count else np.zeros(0, dtype=np.int64)
    low = np.minimum(low, high)
    served, useful = np.zeros(count), np.zeros(count)
    np.maximum.at(served, unit, curves.cap_for(curves.demand))
    np.maximum.at(useful, unit, curves.cap_for(curves.tokens(high[unit]) * (1.0 - NOTHING)))
    met = served < high
    high = np.where(met, np.maximum(low, served), high)
    code_of = np.where(met, DEMAND, code_of)
    idle = useful < (1.0 - SAVES) * high
    high = np.where(idle, np.maximum(low, useful), high)
    code_of = np.where(idle, NO_TOKENS, code_of)
    for name, watts in fixed_w.items():
        i = table.index.get(name)
        if i is not None:
            low[unit[i]] = high[unit[i]] = watts
            code_of[unit[i]] = OVERRIDE
    return Bounds(low, high, code_of)


def _laid_out(table: Table, limits: Mapping[str, float]) -> FloatArray:
    out = np.full(len(table.names), np.inf)
    for name, watts in limits.items():
        i = table.index.get(name)
        if i is not None:
            out[i] = watts
    return out
