"""The linear program of one priority class, kept warm in HiGHS from round to round.

Columns: W drawn by each rack above its least, then pieces of each unit's cap (chords of its
concave envelope, so that the program never promises more than the curve gives). Rows: one per
rack (its draw covers its pieces), then the limits, which come in as they turn out to bind.
"""

from __future__ import annotations

from dataclasses import dataclass

import highspy
import numpy as np

from facility.points import FloatArray, IntArray

#: Pieces of each unit's cap: the parking chord, and ten above the tangent point.
PIECES = 11
#: Bound on simplex iterations; never on time, so that equal problems give equal plans.
ITERATIONS = 200_000


class _QuietHighs(highspy.Highs):
    """HiGHS greets on standard output as soon as callbacks are enabled; ours stays for answers."""

    def enableCallbacks(self) -> None:
        self.setOptionValue("output_flag", False)
        super().enableCallbacks()  # type: ignore[no-untyped-call]


@dataclass(frozen=True)
class Optimum:
    """What the program found.

    Attributes:
        objective: worth above the least caps, λ paid.
        piece_w: float64[U, PIECES], W of cap in each piece.
        row_price: float64[rows], worth per kW of room on each limit, at least 0.
        rack_price: float64[R], worth per kW drawn by each rack through all limits, at least 0.
    """

    objective: float
    piece_w: FloatArray
    row_price: FloatArray
    rack_price: FloatArray


class Program:
    """One class of one problem.

    Args:
        units: how many.
        draw_unit, draw_rack, draw_kw: kW that a rack draws per W of a unit's cap, flat; each
            (unit, rack) once.
        least_kw: float64[R]; what each rack draws at least above its least (a metered peak).
    """

    def __init__(
        self,
        units: int,
        draw_unit: IntArray,
        draw_rack: IntArray,
        draw_kw: FloatArray,
        least_kw: FloatArray,
    ) -> None:
        self._units, self._racks = units, len(least_kw)
        self.rows = 0
        self._scale = 1.0
        self._solver = _QuietHighs()  # type: ignore[no-untyped-call]
        for option, value in (
            ("output_flag", False),
            ("threads", 1),
            ("solver", "simplex"),
            ("presolve", "off"),
            ("simplex_iteration_limit", ITERATIONS),
            ("random_seed", 0),
            ("primal_feasibility_tolerance", 1e-9),
            ("dual_feasibility_tolerance", 1e-9),
        ):
            self._solver.setOptionValue(option, value)
        columns = self._racks + units * PIECES
        lp = highspy.HighsLp()
        lp.num_col_, lp.num_row_ = columns, self._racks
        lp.sense_ = highspy.ObjSense.kMaximize
        lp.col_cost_ = np.zeros(columns)
        lp.col_lower_ = np.concatenate([least_kw, np.zeros(units * PIECES)])
        lp.col_upper_ = np.concatenate([np.full(self._racks, np.inf), np.zeros(units * PIECES)])
        lp.row_lower_, lp.row_upper_ = np.zeros(self._racks), np.full(self._racks, np.inf)
        order = np.argsort(draw_unit, kind="stable")
        count = np.bincount(draw_unit, minlength=units)
        sizes = np.concatenate([np.ones(self._racks), np.repeat(count, PIECES)]).astype(np.int32)
        per_unit = np.split(np.arange(len(order)), np.cumsum(count)[:-1]) if units else []
        wide = [np.tile(part, PIECES) for part in per_unit]
        picked = order[np.concatenate(wide)] if wide else np.zeros(0, dtype=np.int64)
        index = np.concatenate([np.arange(self._racks), draw_rack[picked]]).astype(np.int32)
        draws = np.concatenate([np.ones(self._racks), -draw_kw[picked]])
        lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
        lp.a_matrix_.start_ = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
        lp.a_matrix_.index_ = index
        lp.a_matrix_.value_ = draws
        self._solver.passModel(lp)

    def shape(self, slope: FloatArray, least: FloatArray, width: FloatArray) -> None:
        """Set the pieces: worth per W, and least and greatest W of each, float64[U, PIECES]."""
        top = float(np.max(np.abs(slope), initial=0.0))
        self._scale = 100.0 / top if top > 0.0 else 1.0
        which = np.arange(self._racks, self._racks + slope.size, dtype=np.int32)
        self._solver.changeColsCost(slope.size, which, (slope * self._scale).ravel())
        self._solver.changeColsBounds(slope.size, which, least.ravel(), width.ravel())

    def limit(self, matrix: FloatArray, room_kw: FloatArray) -> None:
        """Add limits: W on each row per W of each rack (float64[n, R]) and kW of room."""
        for weights, room in zip(matrix, room_kw, strict=True):
            on = np.flatnonzero(weights > 0.0).astype(np.int32)
            self._solver.addRow(-highspy.kHighsInf, float(room), len(on), on, weights[on])
        self.rows += len(room_kw)

    def solve(self) -> Optimum | None:
        """The optimum, or None where there is none within the iteration limit."""
        self._solver.run()
        if self._solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            return None
        solution = self._solver.getSolution()
        values = np.array(solution.col_value, dtype=np.float64)
        duals = np.array(solution.row_dual, dtype=np.float64) / self._scale
        return Optimum(
            float(self._solver.getInfo().objective_function_value) / self._scale,
            values[self._racks :].reshape(self._units, PIECES),
            np.maximum(duals[self._racks :], 0.0),
            np.maximum(-duals[: self._racks], 0.0),
        )
