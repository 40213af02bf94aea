"""The limits of a problem, of which only those that can bind are ever written out as rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from controllers.allocation.problem import Problem
from facility.points import FloatArray, IntArray
from facility.topology.graph import BoolArray
from facility.topology.shares import Structure

#: A limit with less room than this share of it is full.
FULL = 1e-9
#: A limit that is over by less than this share of it holds: half of what counts as exactly at it.
OVER = 5e-10
#: A rise that moves no cap by more than this is over, W.
STILL_W = 1e-9
#: Bound on the steps of one rise: what is left then is small, and the caps hold.
RISES = 64


@dataclass(frozen=True, slots=True)
class Violation:
    """The limit that a vector of caps breaks most.

    Attributes:
        element: element or loop; case: name; over_w: how much is missing, W.
    """

    element: str
    case: str
    over_w: float


class _Identity:
    """Makes a structure a cache key by identity."""

    def __init__(self, structure: Structure) -> None:
        self.structure = structure

    def __hash__(self) -> int:
        return id(self.structure)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Identity) and other.structure is self.structure


def _runs(low: IntArray, high: IntArray) -> tuple[IntArray, IntArray]:
    """Which run and which place, for all places of the runs low..high, one after another."""
    size = high - low
    ends = np.cumsum(size)
    total = int(ends[-1]) if len(ends) else 0
    return np.repeat(np.arange(len(size)), size), np.arange(total) + np.repeat(
        low - (ends - size), size
    )


@lru_cache(maxsize=32)
def _by_check(key: _Identity) -> tuple[IntArray, IntArray]:
    """Entries of the normal case sorted by check, and where each check's begin."""
    of = key.structure.base_check
    order = np.argsort(of, kind="stable")
    first = np.searchsorted(of[order], np.arange(len(key.structure.limit_w) + 1))
    return order, first.astype(np.int64)


class Rows:
    """Every limit of a problem; row numbers are cells first, then heat rows.

    Attributes:
        limit_w: float64[rows], W.
        element: int64[rows], a number that rows of one element (or loop) share.
        room_share: float64[rows], room that a row gains per watt of its element's limit: a third
            on one phase.
    """

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
        check = structure.cell_check[self.cells]
        heat_limit = np.array([row.capacity_w for row in heat], dtype=np.float64)
        limit_w = problem.shares.cell_limit_w[self.cells]
        self.limit_w: FloatArray = np.concatenate([limit_w, heat_limit])
        loops = {name: -1 - i for i, name in enumerate(dict.fromkeys(row.loop for row in heat))}
        of_heat = np.array([loops[row.loop] for row in heat], dtype=np.int64)
        self.element: IntArray = np.concatenate([structure.check_element[check], of_heat])
        third = np.where(structure.check_phase[check] < 0, 1.0, 1.0 / 3.0)
        self.room_share: FloatArray = np.concatenate([third, np.ones(len(heat))])

    def slack_w(self, load_w: FloatArray) -> FloatArray:
        """float64[rows], W left; within 1e-9 of the limit counts as exactly at it."""
        cells = self.problem.shares.slack_w(load_w)[self.cells]
        if not self.heat:
            return cells
        limit = self.limit_w[len(self.cells) :]
        heat = limit - self.heat_share @ load_w
        return np.concatenate([cells, np.where(np.abs(heat) <= 1e-9 * limit, 0.0, heat)])

    def weights(self, rows: Sequence[int]) -> FloatArray:
        """float64[len(rows), L]: W on each row per W of each load."""
        shares, structure = self.problem.shares, self.problem.shares.structure
        out = np.zeros((len(rows), len(self.problem.base_w)))
        wanted = np.array(rows, dtype=np.int64)
        heat = wanted >= len(self.cells)
        if heat.any():
            out[heat] = self.heat_share[wanted[heat] - len(self.cells)]
        where = np.flatnonzero(~heat)
        cells = self.cells[wanted[where]]
        order, first = _by_check(_Identity(structure))
        check = structure.cell_check[cells]
        row, at = _runs(first[check], first[check + 1])
        on = order[at]
        out[where[row], structure.base_load[on]] = shares.base_w[on]
        low, high = np.searchsorted(structure.group_cell, (cells, cells + 1))
        row, at = _runs(low, high)
        out[where[row], structure.group_load[at]] = shares.group_w[at]
        return out

    def name(self, row: int) -> tuple[str, str]:
        """Element (or loop) and case."""
        if row >= len(self.cells):
            heat = self.heat[row - len(self.cells)]
            return heat.loop, heat.case
        return self.problem.shares.name(int(self.cells[row]))

    def lacking(self, unit_caps_w: FloatArray) -> tuple[int, float] | None:
        """The row that lacks most at these caps and W missing on its element; None: all hold.

        A phase that is over lacks three times as much on its element, as its headroom says.
        """
        slack = self.slack_w(self.problem.load_w(unit_caps_w))
        slack = np.where(self.room_share < 1.0, 3.0 * slack, slack)
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

    Attributes:
        numbers: rows of `rows` that are written out.
        matrix: float64[pool, L], W on each per W of a load; columns: float64[pool, G], per amount
            of a lump; limit_w: float64[pool].
    """

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self.numbers: list[int] = []
        self.matrix: FloatArray = np.zeros((0, len(rows.problem.base_w)))
        self.columns: FloatArray = np.zeros((0, rows.problem.lumps.count))
        self.limit_w: FloatArray = np.zeros(0)
        self._known = np.zeros(len(rows.limit_w), dtype=np.bool_)
        self._place = np.full(len(rows.limit_w), -1, dtype=np.int64)

    def grow(self, unit_caps_w: FloatArray) -> int:
        """Write out the worst broken row of each element; how many were new."""
        return self.grow_at(self.rows.problem.load_w(unit_caps_w))

    def grow_at(self, load_w: FloatArray) -> int:
        """As `grow`, at loads of float64[L], W."""
        slack = self.rows.slack_w(load_w)
        broken = np.flatnonzero((slack < 0.0) & ~self._known)
        if not len(broken):
            return 0
        share = slack[broken] / np.maximum(self.rows.limit_w[broken], 1.0)
        broken = broken[np.argsort(share, kind="stable")]
        _, first = np.unique(self.rows.element[broken], return_index=True)
        return self.add(broken[np.sort(first)].tolist())

    def add(self, rows: list[int]) -> int:
        """Write out rows that are not yet; how many."""
        fresh = [row for row in dict.fromkeys(rows) if not self._known[row]]
        if fresh:
            self._place[fresh] = len(self.numbers) + np.arange(len(fresh))
            self.numbers += fresh
            self._known[fresh] = True
            more = self.rows.weights(fresh)
            lumps = self.rows.problem.lumps
            self.matrix = np.vstack([self.matrix, more]) if len(self.matrix) else more
            self.columns = self.matrix
            if len(lumps.wide):
                self.columns = lumps.columns(self.matrix)
            self.limit_w = np.concatenate([self.limit_w, self.rows.limit_w[fresh]])
        return len(fresh)

    def weights(self, rows: Sequence[int]) -> FloatArray:
        """float64[len(rows), L]: as `Rows.weights`; what is written out is not looked up again."""
        out = np.zeros((len(rows), self.matrix.shape[1]))
        places = self._place[list(rows)]
        out[places >= 0] = self.matrix[places[places >= 0]]
        other = np.flatnonzero(places < 0)
        out[other] = self.rows.weights([rows[i] for i in other.tolist()])
        return out

    def room_w(self, unit_caps_w: FloatArray) -> FloatArray:
        """float64[pool]: W left on the rows written out."""
        load = self.rows.problem.load_w(unit_caps_w)
        return np.asarray(self.limit_w - self.matrix @ load)

    def holds(self, unit_caps_w: FloatArray) -> bool:
        """Whether the rows written out hold, within 1e-10 of their limits."""
        return bool(np.all(self.room_w(unit_caps_w) >= -1e-10 * self.limit_w))

    def rise(self, caps_w: FloatArray, wanted_w: FloatArray) -> FloatArray:
        """From caps that hold towards greater ones, each unit as far as the limits on it allow.

        All rise by one share of their way until a limit is full; what does not touch it goes on.
        The caps hold at every step.
        """
        lumps = self.rows.problem.lumps
        caps, moves = caps_w, np.ones(len(caps_w), dtype=np.bool_)
        room = np.maximum(self.room_w(caps), 0.0)
        for _ in range(RISES):
            step = np.where(moves, np.maximum(wanted_w - caps, 0.0), 0.0)
            need = room - self.room_w(caps + step)
            over = np.flatnonzero(need > room)
            share = np.ones(lumps.count)
            if len(over):
                part = np.where(
                    self.columns[over] > 0.0, (room[over] / need[over])[:, None], np.inf
                )
                share = np.minimum(1.0, part.min(axis=0))
            trial = caps + share[lumps.lump] * step
            if self.grow(trial):
                room = np.maximum(self.room_w(caps), 0.0)
                continue
            moved, caps = float(np.max(trial - caps, initial=0.0)), trial
            room = np.maximum(self.room_w(caps), 0.0)
            full = over[room[over] <= FULL * self.limit_w[over]]
            if not len(over) or (not len(full) and moved <= STILL_W):
                break
            stops: BoolArray = np.asarray((self.columns[full] > 0.0).any(axis=0))
            moves &= ~stops[lumps.lump]
            if not moves.any():
                break
        return caps

    def inside(self, caps_w: FloatArray, least_w: FloatArray) -> FloatArray:
        """Caps a hair above the rows written out, brought inside straight towards others."""
        over = self.room_w(caps_w)
        bad = np.flatnonzero(over < -OVER * self.limit_w)
        if not len(bad):
            return caps_w
        less = np.maximum(self.room_w(least_w)[bad], 0.0)
        share = float(np.max(over[bad] / np.minimum(over[bad] - less, -1e-300)))
        return np.asarray(caps_w + min(share * (1.0 + 1e-12), 1.0) * (least_w - caps_w))
