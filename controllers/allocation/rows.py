"""The limits of a problem, of which only those that can bind are ever written out as rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from controllers.allocation.problem import Problem
from facility.points import FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class Violation:
    """The limit that a vector of caps breaks most.

    Attributes:
        element: element or loop; case: name; over_w: how much is missing, W.
    """

    element: str
    case: str
    over_w: float


class Rows:
    """Every limit of a problem; row numbers are cells first, then heat rows."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        structure = problem.shares.structure
        keep = np.isfinite(structure.limit_w[structure.cell_check])
        if problem.present_only:
            keep &= structure.cell_case == 0
        self.cells: IntArray = np.flatnonzero(keep)
        heat = [row for row in problem.heat if not problem.present_only or row.case == "normal"]
        self.heat = tuple(heat)
        self.heat_share = np.array([row.share for row in heat], dtype=np.float64).reshape(
            len(heat), len(problem.base_w)
        )
        heat_limit = [row.capacity_w for row in heat]
        cell_limit = structure.limit_w[structure.cell_check[self.cells]]
        self.limit_w: FloatArray = np.concatenate([cell_limit, np.array(heat_limit)])

    def slack_w(self, load_w: FloatArray) -> FloatArray:
        """float64[rows], W left; within 1e-9 of the limit counts as exactly at it."""
        cells = self.problem.shares.slack_w(load_w)[self.cells]
        heat = self.limit_w[len(self.cells) :] - self.heat_share @ load_w
        heat = np.where(np.abs(heat) <= 1e-9 * self.limit_w[len(self.cells) :], 0.0, heat)
        return np.concatenate([cells, heat])

    def weights(self, row: int) -> FloatArray:
        """float64[L]: W on the row per W of each load."""
        if row >= len(self.cells):
            return np.asarray(self.heat_share[row - len(self.cells)])
        return self.problem.shares.row(int(self.cells[row]))

    def name(self, row: int) -> tuple[str, str]:
        """Element (or loop) and case."""
        if row >= len(self.cells):
            heat = self.heat[row - len(self.cells)]
            return heat.loop, heat.case
        return self.problem.shares.name(int(self.cells[row]))

    def element(self, row: int) -> int:
        """A number that rows of one element (or loop) share."""
        if row >= len(self.cells):
            names = [heat.loop for heat in self.heat]
            return -1 - names.index(self.heat[row - len(self.cells)].loop)
        structure = self.problem.shares.structure
        return int(structure.check_element[structure.cell_check[self.cells[row]]])

    def room_share(self, row: int) -> float:
        """Room that a row gains per watt of its element's limit: a third on one phase."""
        if row >= len(self.cells):
            return 1.0
        structure = self.problem.shares.structure
        return 1.0 if structure.check_phase[structure.cell_check[self.cells[row]]] < 0 else 1 / 3

    def lacking(self, unit_caps_w: FloatArray) -> tuple[int, float] | None:
        """The row that lacks most at these caps and W missing on its element; None: all hold.

        A phase that is over lacks three times as much on its element, as its headroom says.
        """
        slack = self.slack_w(self.problem.load_w(unit_caps_w))
        structure = self.problem.shares.structure
        on_phase = structure.check_phase[structure.cell_check[self.cells]] >= 0
        slack[: len(self.cells)][on_phase] *= 3.0
        if not len(slack) or float(slack.min()) >= 0.0:
            return None
        row = int(np.argmin(slack))
        return row, -float(slack[row])

    def violation(self, unit_caps_w: FloatArray) -> Violation | None:
        """The limit broken most at these caps, or None when all hold."""
        worst = self.lacking(unit_caps_w)
        if worst is None:
            return None
        return Violation(*self.name(worst[0]), worst[1])


class Pool:
    """The rows written out so far; grows by what turns out to be broken.

    All rows have weights of at least zero, so caps that break no row of the pool and, looked at
    once more, none at all are feasible.
    """

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self.numbers: list[int] = []
        self.matrix: FloatArray = np.zeros((0, len(rows.problem.base_w)))
        self.limit_w: FloatArray = np.zeros(0)

    def grow(self, unit_caps_w: FloatArray, most: int = 64) -> int:
        """Write out the worst broken row of each element; how many were new."""
        slack = self.rows.slack_w(self.rows.problem.load_w(unit_caps_w))
        broken = np.flatnonzero(slack < 0.0)
        if not len(broken):
            return 0
        broken = broken[
            np.argsort(slack[broken] / np.maximum(self.rows.limit_w[broken], 1.0), kind="stable")
        ]
        known, seen, added = set(self.numbers), set(), []
        for row in broken.tolist():
            element = self.rows.element(row)
            if row not in known and element not in seen:
                seen.add(element)
                added.append(row)
            if len(added) >= most:
                break
        if added:
            self.numbers += added
            more = [self.rows.weights(row) for row in added]
            self.matrix = np.vstack([self.matrix, *more])
            self.limit_w = np.concatenate([self.limit_w, self.rows.limit_w[added]])
        return len(added)

    def room_w(self, unit_caps_w: FloatArray) -> FloatArray:
        """float64[pool]: W left on the rows written out."""
        load = self.rows.problem.load_w(unit_caps_w)
        return np.asarray(self.limit_w - self.matrix @ load)

    def holds(self, unit_caps_w: FloatArray) -> bool:
        """Whether the rows written out hold, within 1e-10 of their limits."""
        return bool(np.all(self.room_w(unit_caps_w) >= -1e-10 * self.limit_w))

    def toward(self, caps_w: FloatArray, wanted_w: FloatArray) -> FloatArray:
        """From caps that hold straight towards others, as far as every limit lets them.

        Where a curve is straight to the last bit, one price belongs to many caps; this finds the
        ones that use what is left.
        """
        step = wanted_w - caps_w
        reach = 1.0
        while True:
            if self.holds(caps_w + reach * step):
                if self.grow(caps_w + reach * step) == 0:
                    return np.asarray(caps_w + reach * step)
                continue
            low, high = 0.0, reach
            for _ in range(50):
                middle = 0.5 * (low + high)
                low, high = (middle, high) if self.holds(caps_w + middle * step) else (low, middle)
            if low == 0.0:
                return caps_w
            reach = low
