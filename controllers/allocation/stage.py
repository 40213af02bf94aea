"""One priority class: its best caps in the room that higher classes leave.

The envelope of a unit is strictly concave above its tangent point, so the objective that a class
reaches has one vector of caps: holding those caps holds the objective. The program finds which
limits bind and at what price; the caps come from the prices in closed form, so equal curves at
equal prices get equal caps, and are then brought inside every limit by one factor on the prices.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from controllers.allocation.problem import Problem
from controllers.allocation.program import PIECES, Optimum, Program
from controllers.allocation.rows import Pool
from facility.points import FloatArray, IntArray
from facility.topology.graph import BoolArray

#: Finest width of the pieces around the optimum, W; what is left comes from the prices.
FINEST_W = 0.02
#: The same as a share of the range of a unit's caps.
FINEST_SHARE = 5e-5
ROUNDS = 80


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
    parked: BoolArray
    load_price: FloatArray


class Stage:
    """Solves one class; `units` are its unit numbers."""

    def __init__(self, problem: Problem, pool: Pool, caps_w: FloatArray, units: IntArray) -> None:
        self.problem, self.pool, self.units = problem, pool, units
        self.given = caps_w
        self.least = problem.units.low[units]
        self.high = problem.units.high[units]
        self.start = problem.units.start[units]
        self.own_price = problem.unit_price(problem.price_w)
        # 1: runs at or above its tangent point; -1: parked; 0: not decided yet.
        self.choice = np.where(self.start <= self.least, 1, 0)
        self.metered_bound = np.zeros(len(problem.base_w), dtype=np.bool_)

    def solve(self) -> StageResult | None:
        """The class's caps; None where the program gave up within its iteration limit."""
        wanted = self.problem.units.best(self.own_price)
        caps = self._with(wanted[self.units])
        if self.pool.grow(caps) == 0 and self.pool.holds(caps):
            parked = np.zeros(len(caps), dtype=np.bool_)
            parked[self.units] = (wanted[self.units] < self.start) & (self.start > self.least)
            return StageResult(caps, np.zeros(0), parked, np.zeros(len(self.problem.base_w)))
        optimum = self._program()
        return None if optimum is None else self._from_prices(optimum)

    def _with(self, class_caps: FloatArray) -> FloatArray:
        caps = self.given.copy()
        caps[self.units] = class_caps
        return caps

    def _draws(self) -> tuple[IntArray, IntArray, FloatArray]:
        problem = self.problem
        place = np.full(len(self.given), -1, dtype=np.int64)
        place[self.units] = np.arange(len(self.units))
        mine = np.flatnonzero(place[problem.unit] >= 0)
        loads = len(problem.base_w)
        key = place[problem.unit[mine]] * loads + problem.rack[mine]
        pairs, where = np.unique(key, return_inverse=True)
        draw = np.bincount(where, problem.per_w[mine] / 1000.0, len(pairs))
        return pairs // loads, pairs % loads, draw.astype(np.float64)

    def _program(self) -> Optimum | None:
        problem = self.problem
        base = np.asarray(
            problem.base_w
            + np.bincount(
                problem.rack,
                problem.per_w * self._with(self.least)[problem.unit],
                len(problem.base_w),
            )
        )
        metered = np.maximum(problem.metered_w - base, 0.0) / 1000.0
        program = Program(len(self.units), *self._draws(), metered)
        self.metered_bound = metered > 0.0
        centre: FloatArray | None = None
        span = np.maximum(self.high - self.start, 1e-3)
        coarse, finest = span / (PIECES - 1), np.minimum(FINEST_W, FINEST_SHARE * span)
        width = coarse
        for _ in range(ROUNDS):
            optimum = self._inside(program, base, centre, width)
            if optimum is None:
                return None
            class_caps = self._caps_of(optimum)
            caught = self._caught(class_caps)
            if caught is not None:
                if not self._decide(program, base, centre, width, class_caps, caught):
                    return None
                continue
            if centre is not None:
                # A unit at the rim of its window has its optimum outside: widen, else narrow.
                still = np.abs(class_caps - centre) <= 0.6 * width
                if still.all() and np.all(width <= finest):
                    parks = (self.choice == 0) & (class_caps < self.start - 1e-6)
                    self.choice = np.where(parks, -1, self.choice)
                    return optimum
                finer = np.maximum(width / 4.0, finest / 2.0)
                width = np.where(still, finer, np.minimum(2.0 * width, coarse))
            centre = class_caps
        return None

    def _inside(
        self, program: Program, base: FloatArray, centre: FloatArray | None, width: FloatArray
    ) -> Optimum | None:
        """The optimum for the choices made, with every limit that it would break written out."""
        pool = self.pool
        while True:
            fresh = pool.matrix[program.rows :]
            room = np.maximum(pool.limit_w[program.rows :] - fresh @ base, 0.0)
            program.limit(fresh, room / 1000.0)
            program.shape(*self._pieces(centre, width))
            optimum = program.solve()
            if optimum is None or pool.grow(self._with(self._caps_of(optimum))) == 0:
                return optimum

    def _caps_of(self, optimum: Optimum) -> FloatArray:
        return np.asarray(self.least + optimum.piece_w.sum(axis=1))

    def _pieces(
        self, centre: FloatArray | None, width: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Slope net of λ, least and greatest W of each piece, float64[units, PIECES]."""
        start, high = self.start[:, None], self.high[:, None]
        if centre is None:
            edges = start + (high - start) * np.linspace(0.0, 1.0, PIECES)[None, :]
        else:
            c, w = np.clip(centre, self.start, self.high)[:, None], width[:, None]
            near = np.clip(c + w * np.array([-1.0, -0.5, -0.25, 0.0, 0.25, 0.5, 1.0]), start, high)
            left, right = near[:, :1], near[:, -1:]
            edges = np.hstack([start, 0.5 * (start + left), near, 0.5 * (right + high), high])
        worth = np.stack([self._worth(edges[:, i]) for i in range(PIECES)], axis=1)
        size = np.diff(edges, axis=1)
        safe = np.where(size > 0.0, size, 1.0)
        slope = np.where(size > 0.0, np.diff(worth, axis=1) / safe, 0.0)
        chord_w = self.start - self.least
        chord = (worth[:, 0] - self._worth(self.least)) / np.where(chord_w > 0.0, chord_w, 1.0)
        # Earlier in the file runs first where two would earn the same.
        order = 1.0 - 1e-8 * np.arange(len(self.units)) / max(len(self.units), 1)
        first = np.where(chord_w > 0.0, chord * order, 0.0)
        slope = np.hstack([first[:, None], slope]) - self.own_price[self.units][:, None]
        most = np.hstack([chord_w[:, None], size])
        least = np.zeros_like(most)
        least[:, 0] = np.where(self.choice > 0, chord_w, 0.0)
        most = np.where(self.choice[:, None] < 0, 0.0, most)
        return slope, least, most

    def _worth(self, class_caps: FloatArray) -> FloatArray:
        return self.problem.units.worth(self._with(class_caps))[self.units]

    def _caught(self, class_caps: FloatArray) -> int | None:
        """The unit to settle next among those between parked and running, or None.

        The most worth per watt runs first, earlier in the file on a tie.
        """
        slack = 1e-6 * np.maximum(self.start - self.least, 1.0)
        between = (class_caps > self.least + slack) & (class_caps < self.start - slack)
        caught = np.flatnonzero((self.choice == 0) & between)
        if not len(caught):
            return None
        load = self.problem.unit_price(np.ones(len(self.problem.base_w)))[self.units]
        value = np.round(self.problem.units.chord()[self.units] / load, 12)
        return int(caught[np.argmax(value[caught])])

    def _decide(
        self,
        program: Program,
        base: FloatArray,
        centre: FloatArray | None,
        width: FloatArray,
        class_caps: FloatArray,
        i: int,
    ) -> bool:
        """Let unit `i` run where that fits and the class earns no less by it, else park it.

        False where the program gave up.
        """
        slack = 1e-6 * np.maximum(self.start - self.least, 1.0)
        runs = (class_caps >= self.start - slack) | (self.choice > 0)
        runs[i] = True
        earned: list[float] = []
        for choice in (1, -1):
            self.choice[i] = choice
            trial = self._with(np.where(runs, self.start, self.least))
            if choice > 0 and (self.pool.grow(trial) or not self.pool.holds(trial)):
                earned.append(-np.inf)
                continue
            optimum = self._inside(program, base, centre, width)
            if optimum is None:
                return False
            earned.append(optimum.objective)
        self.choice[i] = 1 if earned[0] >= earned[1] - 1e-9 * abs(earned[1]) else -1
        return True

    def _from_prices(self, optimum: Optimum) -> StageResult:
        """Caps in closed form at the program's prices, inside every limit."""
        problem, pool = self.problem, self.pool
        through_rows = optimum.row_price @ pool.matrix[: len(optimum.row_price)]
        load_price = np.where(self.metered_bound, optimum.rack_price, through_rows) / 1000.0
        limits = problem.unit_price(load_price)
        parks = self.choice < 0

        def at(factor: float) -> FloatArray:
            caps = problem.units.respond(self.own_price + factor * limits)[self.units]
            return self._with(np.where(parks, self.least, caps))

        low, high = 0.0, 1.0
        while not pool.holds(at(high)) and high < 1e12:
            low, high = high, high * 2.0
        for _ in range(200):
            while high - low > 1e-13 * high:
                middle = 0.5 * (low + high)
                if pool.holds(at(middle)):
                    high = middle
                else:
                    low = middle
                if middle in (low, high) and high - low <= 4e-16 * high:
                    break
            if pool.grow(at(high)) == 0:
                break
            low, high = high, high * 2.0
            while not pool.holds(at(high)) and high < 1e12:
                low, high = high, high * 2.0
        caps = at(high)
        if not pool.holds(caps):
            caps = self._with(np.where(self.choice > 0, self.start, self.least))
        else:
            caps = pool.toward(caps, np.maximum(at(low), caps))
        parked = np.zeros(len(caps), dtype=np.bool_)
        parked[self.units] = parks
        return StageResult(caps, optimum.row_price, parked, load_price)
