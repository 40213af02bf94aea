"""The whole linear program of a hall, written out plainly: every node, every limit.

It shares nothing with the controllers. Each curve is replaced by the lower hull of its tangents, so
that what the program earns is at least what any caps can earn: a plan's gap to it is no flattery.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import highspy
import numpy as np
import numpy.typing as npt

from facility.config import Node
from facility.topology import Shares, Topology

Floats = npt.NDArray[np.float64]

#: Board accuracy over the supplies' efficiency: the file's defaults.
FACTOR = 1.05 / 0.96
#: Tangents of each curve.
TANGENTS = 24


class _QuietHighs(highspy.Highs):
    """HiGHS greets on standard output as soon as callbacks are enabled; ours stays for answers."""

    def enableCallbacks(self) -> None:
        self.setOptionValue("output_flag", False)
        super().enableCallbacks()  # type: ignore[no-untyped-call]


@dataclass(frozen=True)
class Full:
    """What the program found: the most that any caps can earn, and how large it was."""

    worth: float
    columns: int
    rows: int


def tokens_share(nodes: list[Node], caps_w: Floats) -> Floats:
    """T/Tm of a GPU of each node; caps float64[N] or float64[K, N]."""
    c0, k, n = (np.array([getattr(x.curve, a) for x in nodes]) for a in ("c0", "k", "n"))
    x = np.maximum(caps_w - c0, 0.0) / k
    return np.asarray(x / (1.0 + x**n) ** (1.0 / n))


def full_optimum(topology: Topology, nodes: Mapping[str, Node]) -> Full:
    """Most Σ g·T/Tm over the caps of nodes without demand, groups or classes, floors above C0."""
    every = list(nodes.values())
    low = np.array([max(x.floor or 0.0, x.min_cap) for x in every])
    top = np.array([x.max_cap for x in every])
    gpus = np.array([float(x.gpus) for x in every])
    rack = np.array([topology.load_index[x.rack] for x in every])
    base = topology.nameplate_w.copy()
    for i in np.unique(rack):
        base[i] = topology.power.racks[topology.loads[i]].overhead
    np.add.at(base, rack, [x.overhead for x in every])
    np.add.at(base, rack, FACTOR * gpus * low)
    span = (np.arange(TANGENTS) / (TANGENTS - 1))[:, None]
    at = low + (top - low) * span
    value = gpus * tokens_share(every, at)
    slope = gpus * (tokens_share(every, at + 1e-3) - tokens_share(every, at - 1e-3)) / 2e-3
    # Where neighbouring tangents meet, the hull turns from one to the next.
    turn = slope[:-1] - slope[1:]
    meet = (value[1:] - value[:-1] - slope[1:] * at[1:] + slope[:-1] * at[:-1]) / np.where(
        turn > 1e-12, turn, 1.0
    )
    meet = np.where(turn > 1e-12, np.clip(meet, at[:-1], at[1:]), at[1:])
    edges = np.vstack([low, meet, top])
    width = np.maximum(np.diff(edges, axis=0), 0.0)
    managed = np.unique(rack)
    shares = Shares.of(topology)
    cells = shares.structure
    limit = cells.limit_w[cells.cell_check]
    most = base.copy()
    np.add.at(most, rack, FACTOR * gpus * (top - low))
    rows = np.flatnonzero(shares.loads_w(most) > limit)
    weights = np.array([shares.row(int(r)) for r in rows])
    room = limit[rows] - weights @ base
    assert np.all(room >= 0.0)
    columns, racks = width.size, len(managed)
    place = np.full(len(base), -1)
    place[managed] = np.arange(racks)
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = racks + columns, racks + len(rows)
    lp.sense_ = highspy.ObjSense.kMaximize
    lp.col_cost_ = np.concatenate([np.zeros(racks), slope.T.ravel()])
    lp.col_lower_ = np.zeros(racks + columns)
    lp.col_upper_ = np.concatenate([np.full(racks, highspy.kHighsInf), width.T.ravel()])
    # A rack draws, in kW, what its pieces do; limits look at racks.
    lp.row_lower_ = np.concatenate([np.zeros(racks), np.full(len(rows), -highspy.kHighsInf)])
    lp.row_upper_ = np.concatenate([np.full(racks, highspy.kHighsInf), room / 1000.0])
    of_rack = [
        np.append(i, racks + np.arange(columns)[np.repeat(place[rack] == i, TANGENTS)])
        for i in range(racks)
    ]
    draw = np.repeat(FACTOR * gpus / 1000.0, TANGENTS)
    index = [*of_rack, *(np.flatnonzero(w[managed] > 0.0) for w in weights)]
    values = [np.append(1.0, -draw[on[1:] - racks]) for on in of_rack]
    values += [w[managed][w[managed] > 0.0] for w in weights]
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.start_ = np.cumsum([0, *(len(x) for x in index)]).astype(np.int32)
    lp.a_matrix_.index_ = np.concatenate(index).astype(np.int32)
    lp.a_matrix_.value_ = np.concatenate(values)
    solver = _QuietHighs()  # type: ignore[no-untyped-call]
    solver.setOptionValue("output_flag", False)
    solver.passModel(lp)
    solver.run()
    assert solver.getModelStatus() == highspy.HighsModelStatus.kOptimal
    first = float(value[0].sum())
    return Full(first + float(solver.getInfo().objective_function_value), columns, len(rows))
