"""The master program in HiGHS, kept warm: how much of each lump's merged curve to use.

Columns: W drawn by loads that are held up by a metered peak, pieces of each lump's merged curve
(chords, so that the program never promises more than the curves give), chords of units that may be
parked. Rows: one per such load (what it draws covers its pieces), then the limits, which come in
as they turn out to bind.
"""

from __future__ import annotations

from dataclasses import dataclass

import highspy
import numpy as np

from facility.points import FloatArray, IntArray
from facility.topology.graph import BoolArray

#: Bound on simplex iterations; never on time, so that equal problems give equal plans.
ITERATIONS = 200_000
#: Bound on the nodes of a search over who is parked.
SEARCHED = 2_000


class _QuietHighs(highspy.Highs):
    """HiGHS greets on standard output as soon as callbacks are enabled; ours stays for answers."""

    def enableCallbacks(self) -> None:
        self.setOptionValue("output_flag", False)
        super().enableCallbacks()  # type: ignore[no-untyped-call]


@dataclass(frozen=True, eq=False)
class Columns:
    """What may be bought; kW of a lump's amount (see `Lumps`).

    Attributes:
        lump: int64[n], local number of the lump whose amount a column adds to.
        slope: float64[n], worth per kW, λ paid; least, most: float64[n], kW.
    """

    lump: IntArray
    slope: FloatArray
    least: FloatArray
    most: FloatArray


@dataclass(frozen=True, eq=False)
class Held:
    """Loads that a metered peak may hold up: their draw is a column, at least the peak's.

    Attributes:
        slope: float64[m], worth per kW drawn (−λ); least: float64[m], kW above the least caps.
        covers: float64[m, lumps], kW drawn from the load per kW of a lump.
    """

    slope: FloatArray
    least: FloatArray
    covers: FloatArray


@dataclass(frozen=True, eq=False)
class Optimum:
    """What the program found.

    Attributes:
        objective: worth above the least caps, λ paid.
        value: float64[n], kW in each column.
        row_price: float64[rows], worth per kW of room on each limit, at least 0.
        held_price: float64[m], worth per kW drawn by each held load, all that it costs.
    """

    objective: float
    value: FloatArray
    row_price: FloatArray
    held_price: FloatArray


class Program:
    """One model in HiGHS; a new question of the same shape starts from the last basis."""

    def __init__(self) -> None:
        self.rows = 0
        self._held = 0
        self._scale = 1.0
        self._lump: IntArray = np.zeros(0, dtype=np.int64)
        self._before: highspy.HighsBasis | None = None
        self._solver = _QuietHighs()  # type: ignore[no-untyped-call]
        for option, value in (
            ("output_flag", False),
            ("threads", 1),
            ("solver", "simplex"),
            ("presolve", "off"),
            ("simplex_iteration_limit", ITERATIONS),
            ("mip_max_nodes", SEARCHED),
            ("mip_rel_gap", 1e-9),
            ("random_seed", 0),
            ("primal_feasibility_tolerance", 1e-9),
            ("dual_feasibility_tolerance", 1e-9),
        ):
            self._solver.setOptionValue(option, value)

    def pose(self, columns: Columns, held: Held) -> None:
        """Start over with these columns and no limits."""
        m, n = len(held.slope), len(columns.lump)
        before = self._solver.getBasis() if self._solver.getNumCol() == m + n else None
        self._solver.clearModel()
        self._held, self._lump, self.rows = m, columns.lump, 0
        self._scale = _scale(columns.slope)
        lp = highspy.HighsLp()
        lp.num_col_, lp.num_row_ = m + n, m
        lp.sense_ = highspy.ObjSense.kMaximize
        lp.col_cost_ = np.concatenate([held.slope, columns.slope]) * self._scale
        lp.col_lower_ = np.concatenate([held.least, columns.least])
        lp.col_upper_ = np.concatenate([np.full(m, highspy.kHighsInf), columns.most])
        lp.row_lower_, lp.row_upper_ = np.zeros(m), np.full(m, highspy.kHighsInf)
        covers = np.hstack([np.eye(m), -held.covers[:, columns.lump]]) if m else np.zeros((0, n))
        row, column = np.nonzero(covers)
        lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        lp.a_matrix_.start_ = np.searchsorted(row, np.arange(m + 1)).astype(np.int32)
        lp.a_matrix_.index_ = column.astype(np.int32)
        lp.a_matrix_.value_ = covers[row, column]
        self._solver.passModel(lp)
        self._before = before

    def limit(self, own: FloatArray, drawn: FloatArray, room_kw: FloatArray) -> None:
        """Add limits.

        Args:
            own: float64[k, lumps], W on each row per W of a lump's amount.
            drawn: float64[k, m], W on each row per W drawn by a held load.
            room_kw: float64[k].
        """
        k = len(room_kw)
        if not k:
            return
        row, column, value = self._spread(own)
        if drawn.size:
            more = np.nonzero(drawn)
            row, column = np.append(row, more[0]), np.append(column, more[1])
            value = np.append(value, drawn[more])
            order = np.argsort(row, kind="stable")
            row, column, value = row[order], column[order], value[order]
        self._solver.addRows(
            k,
            np.full(k, -highspy.kHighsInf),
            room_kw,
            len(row),
            np.searchsorted(row, np.arange(k)).astype(np.int32),
            column.astype(np.int32),
            value,
        )
        self.rows += k

    def _spread(self, own: FloatArray) -> tuple[IntArray, IntArray, FloatArray]:
        """Row, column and value of what is not zero, from weights of lumps."""
        order = np.argsort(self._lump, kind="stable")
        each = np.bincount(self._lump, minlength=own.shape[1])
        row, lump = np.nonzero(own)
        count = each[lump]
        ends = np.cumsum(count)
        within = np.arange(int(ends[-1]) if len(ends) else 0) - np.repeat(ends - count, count)
        column = order[np.repeat((np.cumsum(each) - each)[lump], count) + within]
        value = np.repeat(own[row, lump], count)
        return np.repeat(row, count), self._held + column, value

    def reshape(self, columns: Columns) -> None:
        """The same lumps with other pieces."""
        self._scale = _scale(columns.slope)
        n = len(columns.lump)
        which = np.arange(self._held, self._held + n, dtype=np.int32)
        self._solver.changeColsCost(n, which, columns.slope * self._scale)
        self._solver.changeColsBounds(n, which, columns.least, columns.most)

    def whole(self, which: BoolArray, linked: list[tuple[int, IntArray]]) -> None:
        """Make columns all or nothing; others may be used only with theirs.

        Args:
            which: bool[n], columns that are 0 or their most.
            linked: column that is all or nothing -> columns that need it.
        """
        most = np.array(self._solver.getLp().col_upper_, dtype=np.float64)
        for column in np.flatnonzero(which).tolist():
            self._solver.changeColIntegrality(
                self._held + column, highspy.HighsVarType.kSemiContinuous
            )
            self._solver.changeColBounds(
                self._held + column, most[self._held + column], most[self._held + column]
            )
        for column, needing in linked:
            on = self._held + np.append(needing, column)
            size = most[self._held + column]
            value = np.append(np.ones(len(needing)), -most[on[:-1]].sum() / size)
            self._solver.addRow(-highspy.kHighsInf, 0.0, len(on), on.astype(np.int32), value)

    def solve(self) -> Optimum | None:
        """The optimum, or None where there is none within the iteration limit."""
        before, self._before = self._before, None
        if before is not None and len(before.row_status) == self._held + self.rows:
            self._solver.setBasis(before)
        self._solver.run()
        if self._solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            return None
        solution = self._solver.getSolution()
        values = np.array(solution.col_value, dtype=np.float64)
        duals = np.array(solution.row_dual, dtype=np.float64) / self._scale
        limits = duals[self._held : self._held + self.rows]
        return Optimum(
            float(self._solver.getInfo().objective_function_value) / self._scale,
            values[self._held :],
            np.maximum(limits, 0.0),
            np.maximum(-duals[: self._held], 0.0),
        )


def _scale(slope: FloatArray) -> float:
    top = float(np.max(np.abs(slope), initial=0.0))
    return 100.0 / top if top > 0.0 else 1.0
