"""One priority class: its best caps in the room that higher classes leave.

The envelope of a unit is strictly concave above its tangent point, so the objective that a class
reaches has one vector of caps: holding those caps holds the objective. The program finds which
limits bind, who is parked, and good prices; Newton's method makes the prices exact; the caps come
from the prices in closed form, so equal curves at equal prices get equal caps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from controllers.allocation.curves import Units
from controllers.allocation.problem import Problem
from controllers.allocation.rows import Pool
from controllers.allocation.stage.descent import settle
from controllers.allocation.stage.market import Market
from controllers.allocation.stage.parking import Parking
from controllers.allocation.stage.pieces import Cut, Pieces
from controllers.allocation.stage.program import Optimum, Program
from controllers.allocation.stage.response import Response
from facility.points import FloatArray, IntArray

#: Half widths of the cuts around the prices found, as shares of them, finer and finer.
WIDTHS: Final = (0.03, 0.006, 1.2e-3, 2.4e-4, 4.8e-5)
#: Ever lower prices, as shares of those found: what one limit leaves, others may still use.
LOWER: Final = (0.999, 0.99, 0.9, 0.5, 0.0)
#: A limit with less room than this share of it is likely to bind next time.
NEAR: Final = 0.01
#: Caps from prices that earn less than the program by this share are not worth their symmetry.
LOSES: Final = 1e-5


@dataclass(frozen=True)
class StageResult:
    """What one class gets.

    Attributes:
        caps_w: float64[U]; this class's caps, the others as given.
        row_price: worth per kW of room on each row of the pool; shorter than the pool where rows
            came later.
        parked: bool[U]; units of this class held at their least cap.
        load_price: float64[L]; worth per W drawn, through the limits alone.
    """

    caps_w: FloatArray
    row_price: FloatArray
    parked: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]
    load_price: FloatArray


@dataclass
class Remembered:
    """What a class left for the next question: the program, and rows with their prices.

    Attributes:
        numbers: of rows that had a price or hardly any room.
        units, response: the answers of these very units.
    """

    program: Program
    numbers: list[int]
    row_price: FloatArray
    units: Units | None = None
    response: Response | None = None

    @classmethod
    def nothing(cls) -> Remembered:
        """Of a class that was never solved."""
        return cls(Program(), [], np.zeros(0))


class Stage:
    """Solves one class; `units` are its unit numbers."""

    def __init__(
        self,
        problem: Problem,
        pool: Pool,
        caps_w: FloatArray,
        units: IntArray,
        remembered: Remembered | None = None,
    ) -> None:
        self.problem, self.pool = problem, pool
        self.memory = Remembered.nothing() if remembered is None else remembered
        if self.memory.response is None or self.memory.units is not problem.units:
            self.memory.units = problem.units
            self.memory.response = Response(problem.units, units)
        self.market = Market(problem, caps_w, units, self.memory.response)

    def solve(self) -> StageResult | None:
        """The class's caps; None where the program gave up within its iteration limit."""
        market, pool = self.market, self.pool
        wanted = self._unlimited()
        if pool.grow(market.with_caps(wanted)) == 0 and pool.holds(market.with_caps(wanted)):
            low, start = market.response.low, market.response.start
            return self._result(wanted, np.zeros(0), None, (wanted < start) & (start > low))
        if (market.choice != 0).all():
            self.pool.add(self.memory.numbers)
            place = {row: i for i, row in enumerate(self.pool.numbers)}
            price = np.zeros(len(self.pool.numbers))
            price[[place[row] for row in self.memory.numbers]] = self.memory.row_price
            if price.any():
                found = self._settle(price)
                if found is not None:
                    return found
        return self._through_program()

    def _unlimited(self) -> FloatArray:
        """float64[u]: caps without limits; parked where that pays better."""
        market, response = self.market, self.market.response
        asked = market.ask(np.zeros(0), np.zeros((0, len(market.base_w))), np.zeros(0))
        if (market.choice > 0).all():
            return asked.cap_w
        price = market.part * self.problem.lumps.prices(asked.load_price)[market.lump]
        worth = response.at(price, np.ones(len(price), dtype=np.bool_)).worth
        runs = worth - price * asked.cap_w >= response.worth_low - price * response.low
        return np.where(runs | (market.choice > 0), asked.cap_w, response.low)

    def _through_program(self) -> StageResult | None:
        market, program = self.market, self.memory.program
        pieces = Pieces(market)
        cut = pieces.cut(pieces.coarse())
        program.pose(cut.columns, pieces.held_loads())
        optimum = self._inside(program, pieces, cut)
        if optimum is None:
            return None
        if len(pieces.undecided):
            parking = Parking(pieces, self.pool)
            load_price = self._load_price(pieces, optimum)
            decided = parking.decide(program, pieces.around(load_price, WIDTHS[0]), self._inside)
            if not decided:
                return None
            market.forget_levels()
            pieces = Pieces(market)
            cut = pieces.cut(pieces.coarse())
            program.pose(cut.columns, pieces.held_loads())
            optimum = self._inside(program, pieces, cut)
            if optimum is None:
                return None
        for width in WIDTHS:
            if not pieces.held.any():
                found = self._settle(optimum.row_price / 1000.0)
                if found is not None:
                    return found
            cut = pieces.cut(pieces.around(self._load_price(pieces, optimum), width))
            program.reshape(cut.columns)
            optimum = self._inside(program, pieces, cut)
            if optimum is None:
                return None
        return self._from_program(pieces, cut, optimum)

    def _inside(self, program: Program, pieces: Pieces, cut: Cut) -> Optimum | None:
        """The optimum with every limit that it would break written out."""
        while True:
            pieces.limit(program, self.pool)
            optimum = program.solve()
            if optimum is None:
                return None
            if self.pool.grow_at(pieces.load_w(cut.columns, optimum.value)) == 0:
                return optimum

    def _load_price(self, pieces: Pieces, optimum: Optimum) -> FloatArray:
        """float64[L]: what a watt drawn costs at the program's prices, λ and limits."""
        rows = len(optimum.row_price)
        price = self.problem.price_w + optimum.row_price @ self.pool.matrix[:rows] / 1000.0
        price[pieces.held] = optimum.held_price / 1000.0
        return price

    def _settle(self, row_price: FloatArray) -> StageResult | None:
        settled = settle(self.market, self.pool, row_price)
        if settled is None:
            return None
        room = self.pool.limit_w - self.pool.matrix @ settled.asked.load_w
        keep = (settled.row_price > 0.0) | (room <= NEAR * self.pool.limit_w)
        self.memory.numbers = np.array(self.pool.numbers, dtype=np.int64)[keep].tolist()
        self.memory.row_price = settled.row_price[keep]
        caps = self._inward(settled.asked.cap_w)
        return self._result(caps, settled.row_price, settled.asked.load_price)

    def _inward(self, class_caps: FloatArray) -> FloatArray:
        market = self.market
        whole = self.pool.inside(market.with_caps(class_caps), market.with_caps(market.least()))
        return np.asarray(whole[market.mine])

    def _from_program(self, pieces: Pieces, cut: Cut, optimum: Optimum) -> StageResult:
        """Caps from the program's own prices, or, if they earn less, from what it bought.

        Where curves are straight one price belongs to many caps: first all that a slightly higher
        price asks for, then all rise alike towards what a slightly lower one does.
        """
        market, rows = self.market, len(optimum.row_price)
        matrix, limit = self.pool.matrix[:rows], self.pool.limit_w[:rows]
        row_price, load_price = optimum.row_price / 1000.0, self._load_price(pieces, optimum)

        def at(factor: float) -> FloatArray:
            if pieces.held.any():
                own = self.problem.price_w
                price = np.where(load_price > own, own + factor * (load_price - own), load_price)
                lumps = self.problem.lumps.prices(price)[market.lump]
                return market.response.at(market.part * lumps, market.choice >= 0).cap_w
            return market.ask(factor * row_price, matrix, limit).cap_w

        low, high = 0.0, 1.0
        while not self._holds(at(high)) and high < 1e12:
            low, high = high, high * 2.0
        while high - low > 1e-12 * high:
            middle = 0.5 * (low + high)
            low, high = (low, middle) if self._holds(at(middle)) else (middle, high)
        whole = self.pool.inside(
            market.with_caps(np.maximum(at(high), market.least())),
            market.with_caps(market.least()),
        )
        for factor in (low, *(share * high for share in LOWER)):
            whole = self.pool.rise(whole, np.maximum(market.with_caps(at(factor)), whole))
        bought = self._inward(pieces.caps_w(cut, optimum.value))
        caps = whole[market.mine]
        if self._earns(bought) > self._earns(caps) + LOSES * abs(self._earns(bought)):
            caps = bought
        return self._result(caps, row_price, load_price)

    def _holds(self, class_caps: FloatArray) -> bool:
        whole = self.market.with_caps(class_caps)
        return self.pool.holds(whole) and self.pool.grow(whole) == 0

    def _earns(self, class_caps: FloatArray) -> float:
        return self.problem.objective(self.market.with_caps(class_caps))

    def _result(
        self,
        class_caps: FloatArray,
        row_price: FloatArray,
        load_price: FloatArray | None,
        parks: np.ndarray[tuple[int, ...], np.dtype[np.bool_]] | None = None,
    ) -> StageResult:
        market = self.market
        caps = market.with_caps(class_caps)
        parked = np.zeros(len(caps), dtype=np.bool_)
        parked[market.mine] = (market.choice < 0) if parks is None else parks
        limits = np.zeros(len(market.base_w))
        if load_price is not None:
            limits = np.maximum(load_price - self.problem.price_w, 0.0)
        return StageResult(caps, row_price * 1000.0, parked, limits)
