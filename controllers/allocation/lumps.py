"""Units that pull on the limits alike, lumped together: all of a rack, and each job across racks.

Every limit looks at the power of whole loads, so nodes of one rack have one column, scaled by what
each draws per watt of its cap. A unit across racks (a job with one shared cap) has its own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from facility.points import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Lumps:
    """L loads, U units, G lumps: first one per load, then one per unit that draws on several.

    Attributes:
        lump: int64[U]; part: float64[U], amount of its lump per W of a unit's cap: W drawn from
            the load, or 1 for a unit of its own.
        wide: int64[W], units of their own; draw_lump, draw_load: int64[D]; draw_w: float64[D],
            W drawn from a load per amount of such a lump.
    """

    loads: int
    lump: IntArray
    part: FloatArray
    wide: IntArray
    draw_lump: IntArray
    draw_load: IntArray
    draw_w: FloatArray

    @classmethod
    def of(cls, loads: int, unit: IntArray, rack: IntArray, per_w: FloatArray, units: int) -> Lumps:
        """From nodes: unit, load and W drawn per W of cap of each.

        Args:
            loads: how many.
            unit: int64[N].
            rack: int64[N].
            per_w: float64[N].
            units: how many.
        """
        part = np.bincount(unit, per_w, units).astype(np.float64)
        first, last = np.full(units, loads), np.full(units, -1)
        np.minimum.at(first, unit, rack)
        np.maximum.at(last, unit, rack)
        lump = last.astype(np.int64)
        wide = np.flatnonzero(first != last)
        lump[wide] = loads + np.arange(len(wide))
        part[wide] = 1.0
        mine = np.flatnonzero(lump[unit] >= loads)
        key = lump[unit[mine]] * loads + rack[mine]
        pairs, where = np.unique(key, return_inverse=True)
        draw = np.bincount(where, per_w[mine], len(pairs)).astype(np.float64)
        return cls(loads, lump, part, wide, pairs // max(loads, 1), pairs % max(loads, 1), draw)

    @property
    def count(self) -> int:
        """G."""
        return self.loads + len(self.wide)

    def amounts(self, caps_w: FloatArray) -> FloatArray:
        """float64[G] of caps float64[U]: W drawn from a load by its own units, W of a wide cap."""
        return np.bincount(self.lump, self.part * caps_w, self.count).astype(np.float64)

    def loads_w(self, amount: FloatArray) -> FloatArray:
        """float64[L]: W drawn from each load."""
        own = amount[: self.loads]
        if not len(self.wide):
            return own
        more = np.bincount(self.draw_load, self.draw_w * amount[self.draw_lump], self.loads)
        return np.asarray(own + more)

    def prices(self, load_price: FloatArray) -> FloatArray:
        """float64[G]: price of an amount, from float64[L], prices of watts of loads."""
        if not len(self.wide):
            return load_price
        cost = self.draw_w * load_price[self.draw_load]
        own = np.bincount(self.draw_lump - self.loads, cost, len(self.wide))
        return np.concatenate([load_price, own])

    def unit_prices(self, load_price: FloatArray) -> FloatArray:
        """float64[U]: price of a watt of a unit's cap."""
        return np.asarray(self.part * self.prices(load_price)[self.lump])

    def columns(self, weights: FloatArray) -> FloatArray:
        """float64[m, G]: amounts' weights on rows, from float64[m, L], weights of loads."""
        if not len(self.wide):
            return weights
        own = np.zeros((len(weights), len(self.wide)))
        np.add.at(own.T, self.draw_lump - self.loads, (weights[:, self.draw_load] * self.draw_w).T)
        return np.hstack([weights, own])
