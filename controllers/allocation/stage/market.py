"""One class as a market: what its units ask for at prices, and what that puts on every limit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from controllers.allocation.problem import Problem
from controllers.allocation.stage.response import Answer, Response
from facility.points import FloatArray, IntArray
from facility.topology.graph import BoolArray

#: Steps until the price at which a rack draws just its metered peak is known; how exactly.
HALVINGS, EXACT = 80, 1e-12


@dataclass(frozen=True, eq=False)
class Asked:
    """What the class asks for at one vector of prices.

    Attributes:
        cap_w: float64[u]; worth: of all of them.
        load_w: float64[L], W of every load; load_price: float64[L], what a watt drawn by a unit
            there costs it: λ and all limits, less where a metered peak holds the load up.
        give: float64[G], amount of a lump that gives way per unit of its price, where it counts.
        bound: the greatest worth that any caps inside the limits can have, λ paid.
    """

    cap_w: FloatArray
    worth: float
    load_w: FloatArray
    load_price: FloatArray
    give: FloatArray
    bound: float


class Market:
    """Units of one class, the others held at given caps.

    Attributes:
        mine: int64[u], unit numbers; lump: int64[u]; part: float64[u].
        choice: int64[u]; 1 runs at or above its tangent point, -1 is parked, 0 is not decided.
        base_w: float64[L], W of loads with this class at caps of zero.
    """

    def __init__(
        self,
        problem: Problem,
        caps_w: FloatArray,
        units: IntArray,
        response: Response | None = None,
    ) -> None:
        self.problem, self.mine, self.given = problem, units, caps_w
        lumps = problem.lumps
        self.lump, self.part = lumps.lump[units], lumps.part[units]
        self.response = Response(problem.units, units) if response is None else response
        others = caps_w.copy()
        others[units] = 0.0
        self.base_w: FloatArray = problem.base_w + lumps.loads_w(lumps.amounts(others))
        self.choice = np.where(self.response.start <= self.response.low, 1, 0)
        self._level = np.full(len(self.base_w), np.nan)
        own = np.bincount(self.lump, minlength=lumps.count)
        self.has_own: BoolArray = own[: lumps.loads] > 0
        on_wide = own[lumps.loads :] > 0
        self.has_wide = np.zeros(lumps.loads, dtype=np.bool_)
        self.has_wide[lumps.draw_load[on_wide[lumps.draw_lump - lumps.loads]]] = True

    def with_caps(self, class_caps_w: FloatArray) -> FloatArray:
        """float64[U]: all caps, with those of this class."""
        caps = self.given.copy()
        caps[self.mine] = class_caps_w
        return caps

    def amounts(self, class_caps_w: FloatArray) -> FloatArray:
        """float64[G]: amounts of the lumps at caps of this class."""
        count = self.problem.lumps.count
        return np.bincount(self.lump, self.part * class_caps_w, count).astype(np.float64)

    def least(self) -> FloatArray:
        """float64[u]: the least caps that the choices allow; what is undecided is parked."""
        return np.where(self.choice > 0, self.response.start, self.response.low)

    def ask(self, row_price: FloatArray, matrix: FloatArray, limit_w: FloatArray) -> Asked:
        """What all ask for, undecided units as if they ran.

        Args:
            row_price: float64[m], worth per W on each row.
            matrix: of the rows; see `Pool`.
            limit_w: of the rows.
        """
        problem, lumps = self.problem, self.problem.lumps
        full = problem.price_w + row_price @ matrix
        answer, drawn, price, held = self._respond(full)
        load = np.maximum(drawn, problem.metered_w)
        worth = float(answer.worth.sum())
        give = np.bincount(self.lump, self.part**2 * answer.give, lumps.count).astype(np.float64)
        give[: lumps.loads][held] = 0.0
        bound = worth - float(full @ load) + float(row_price @ limit_w)
        return Asked(answer.cap_w, worth, load, price, give, bound)

    def caps_at(self, load_price: FloatArray) -> FloatArray:
        """float64[u]: caps at prices of watts drawn, float64[L], undecided units as if they ran."""
        return self._respond(load_price)[0].cap_w

    def _respond(self, full: FloatArray) -> tuple[Answer, FloatArray, FloatArray, BoolArray]:
        """The answer, W drawn, what a watt drawn costs a unit, and where a peak holds loads up."""
        problem, lumps, runs = self.problem, self.problem.lumps, self.choice >= 0
        answer = self.response.at(self.part * lumps.prices(full)[self.lump], runs)
        drawn = self.base_w + lumps.loads_w(self.amounts(answer.cap_w))
        held = self.has_own & ~self.has_wide & (drawn < problem.metered_w) & (full > 0.0)
        if not held.any():
            return answer, drawn, full, held
        price = np.where(held, np.minimum(full, self._held_level(held, full)), full)
        answer = self.response.at(self.part * lumps.prices(price)[self.lump], runs)
        return answer, self.base_w + lumps.loads_w(self.amounts(answer.cap_w)), price, held

    def _held_level(self, held: BoolArray, above: FloatArray) -> FloatArray:
        """float64[L]: the price at which a load draws just its metered peak; 0: never as much."""
        missing = held & np.isnan(self._level)
        if missing.any():
            which = np.flatnonzero(missing[np.minimum(self.lump, len(missing) - 1)])
            which = which[self.lump[which] < len(missing)]
            response, runs = Response(self.problem.units, self.mine[which]), self.choice[which] >= 0
            lump, part = self.lump[which], self.part[which]
            room = self.problem.metered_w - self.base_w

            def drawn(price: FloatArray) -> tuple[FloatArray, FloatArray]:
                answer = response.at(part * price[lump], runs)
                draws = np.bincount(lump, part * answer.cap_w, len(room))
                gives = np.bincount(lump, part**2 * answer.give, len(room))
                return draws - room, gives.astype(np.float64)

            low, high = np.zeros(len(room)), above.copy()
            never = drawn(low)[0] < 0.0
            price = 0.5 * high
            for _ in range(HALVINGS):
                over, give = drawn(price)
                low, high = np.where(over >= 0.0, price, low), np.where(over < 0.0, price, high)
                if np.all((np.abs(over) <= EXACT * room) | ~missing | never):
                    break
                # Newton's step where it stays between the two, else halfway.
                newton = price + over / np.maximum(give, 1e-300)
                inside = (newton > low) & (newton < high)
                price = np.where(inside, newton, 0.5 * (low + high))
            self._level = np.where(missing, np.where(never, 0.0, price), self._level)
        return self._level

    def forget_levels(self) -> None:
        """After a choice was made: a rack draws its metered peak at another price."""
        self._level = np.full(len(self.base_w), np.nan)
