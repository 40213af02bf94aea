"""Who runs and who is parked, among units that earn nothing just above their least cap.

Such a unit runs at or above its tangent point or stays at its least cap. The program may want to
run a part of a few of them, at most one per limit: those are settled here.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from controllers.allocation.rows import Pool
from controllers.allocation.stage.pieces import Cut, Pieces
from controllers.allocation.stage.program import Columns, Optimum, Program
from facility.points import FloatArray

#: So many undecided units are settled together, by branch and bound.
TOGETHER = 24
#: So many of the rest are settled by trying both; what then is left runs where it fits.
TRIED = 16

Inside = Callable[[Program, Pieces, Cut], Optimum | None]


class Parking:
    """Makes the choices of a class final."""

    def __init__(self, pieces: Pieces, pool: Pool) -> None:
        self.pieces, self.pool = pieces, pool
        self.market = pieces.market

    def decide(self, program: Program, prices: FloatArray, inside: Inside) -> bool:
        """Settle every undecided unit; False where the program gave up.

        Args:
            program: posed for the class.
            prices: float64[lumps, cuts], around good prices.
            inside: solves a program with every limit that would break.
        """
        market, pieces = self.market, self.pieces
        if len(pieces.undecided) <= TOGETHER and self._together(inside):
            return True
        tries = 0
        while True:
            cut = pieces.cut(prices)
            program.reshape(self._settled(cut))
            optimum = inside(program, pieces, cut)
            if optimum is None:
                return False
            open_ = market.choice[pieces.undecided] == 0
            share = self._share(cut, optimum)
            caught = np.flatnonzero(open_ & (share > 1e-6) & (share < 1.0 - 1e-6))
            if not len(caught):
                runs = np.where(share >= 0.5, 1, -1)
                market.choice[pieces.undecided[open_]] = runs[open_]
                return True
            first = caught[np.argmax(np.round(self._value()[caught], 12))]
            fits = self._fits(share, int(first))
            if not fits:
                choice = -1
            elif tries >= TRIED:
                choice = 1
            else:
                tries += 1
                earned = [self._earned(program, cut, int(first), c, inside) for c in (1, -1)]
                if earned[0] is None or earned[1] is None:
                    return False
                choice = 1 if earned[0] >= earned[1] - 1e-9 * abs(earned[1]) else -1
            market.choice[pieces.undecided[first]] = choice

    def _share(self, cut: Cut, optimum: Optimum) -> FloatArray:
        """float64[k]: how far each undecided unit is run."""
        k = len(self.pieces.undecided)
        n = len(cut.columns.lump) - k
        return np.asarray(optimum.value[n:] / np.maximum(cut.columns.most[n:], 1e-300))

    def _value(self) -> FloatArray:
        """float64[k]: worth per W drawn between parked and running."""
        market, i = self.market, self.pieces.undecided
        r, lumps = market.response, market.problem.lumps
        per_w = lumps.prices(np.ones(lumps.loads))[market.lump[i]] * market.part[i]
        rise = r.worth_start[i] - r.worth_low[i]
        return np.asarray(rise / np.maximum((r.start[i] - r.low[i]) * per_w, 1e-300))

    def _settled(self, cut: Cut) -> Columns:
        """The columns with the choices made so far."""
        c, k = cut.columns, len(self.pieces.undecided)
        choice = self.market.choice[self.pieces.undecided]
        n = len(c.lump) - k
        least, most = c.least.copy(), c.most.copy()
        least[n:] = np.where(choice > 0, most[n:], 0.0)
        most[n:] = np.where(choice < 0, 0.0, most[n:])
        return Columns(c.lump, c.slope, least, most)

    def _fits(self, share: FloatArray, first: int) -> bool:
        """Whether all that run now, and this one, can run at their tangent points."""
        market, i = self.market, self.pieces.undecided
        caps = market.least()
        runs = i[(share >= 1.0 - 1e-6) | (market.choice[i] > 0)]
        for u in (*runs.tolist(), int(i[first])):
            caps[u] = market.response.start[u]
        whole = market.with_caps(caps)
        return self.pool.grow(whole) == 0 and self.pool.holds(whole)

    def _earned(
        self, program: Program, cut: Cut, first: int, choice: int, inside: Inside
    ) -> float | None:
        unit = self.pieces.undecided[first]
        self.market.choice[unit] = choice
        program.reshape(self._settled(cut))
        optimum = inside(program, self.pieces, cut)
        self.market.choice[unit] = 0
        return None if optimum is None else optimum.objective

    def _together(self, inside: Inside) -> bool:
        """Settle a few by branch and bound; False where the search ended without an answer."""
        market, pieces = self.market, self.pieces
        undecided = pieces.undecided
        market.choice[undecided] = -1
        whole = pieces.cut(pieces.coarse())
        market.choice[undecided] = 0
        c, n = whole.columns, len(pieces.lumps) * (whole.edge_kw.shape[1] - 1)
        parts = [self._own_pieces(int(u)) for u in undecided]
        chords = slice(n, n + len(undecided))
        lump = [c.lump, *(p.lump for p in parts)]
        slope = [c.slope, *(p.slope for p in parts)]
        least = [c.least, *(p.least for p in parts)]
        most = [c.most, *(p.most for p in parts)]
        columns = Columns(*(np.concatenate(x) for x in (lump, slope, least, most)))
        program = Program()
        program.pose(columns, pieces.held_loads())
        which = np.zeros(len(columns.lump), dtype=np.bool_)
        which[chords] = True
        first, linked = len(c.lump), []
        for i, part in enumerate(parts):
            linked.append((n + i, np.arange(first, first + len(part.lump))))
            first += len(part.lump)
        program.whole(which, linked)
        cut = Cut(columns, whole.edge_cap_w, whole.edge_kw)
        optimum = inside(program, pieces, cut)
        if optimum is None:
            return False
        runs = optimum.value[chords] >= 0.5 * columns.most[chords]
        market.choice[undecided] = np.where(runs, 1, -1)
        return True

    def _own_pieces(self, unit: int) -> Columns:
        """The pieces of one unit above its tangent point."""
        market, lump = self.market, int(self.pieces.of_unit[unit])
        prices = self.pieces.coarse()[lump]
        kw, worth = [], []
        for price in prices:
            asked = market.response.at(
                np.full(len(market.mine), market.part[unit] * price), market.choice >= 0
            )
            kw.append(market.part[unit] * asked.cap_w[unit] / 1000.0)
            worth.append(asked.worth[unit])
        width = np.maximum(np.diff(kw), 0.0)
        slope = np.where(width > 0.0, np.diff(worth) / np.where(width > 0.0, width, 1.0), 0.0)
        own = self.pieces.own_kw()[lump]
        return Columns(np.full(len(width), lump), slope - own, np.zeros(len(width)), width)
