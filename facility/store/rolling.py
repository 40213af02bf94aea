"""Roll-ups beside compaction: an hour's quarters are written with its chunk, in one transaction.

So they are there once the chunk is, and again whenever late data reopens it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, reduce
from operator import itemgetter
from typing import Final

import numpy as np
import sqlalchemy as sa

from facility.points import IntArray, PointId
from facility.store.chunks import Columns, merged
from facility.store.rollups import PointRules
from facility.store.rows import chunks, rollups
from facility.store.rows.chunks import HOUR_MS, Hour
from facility.store.rows.tables import point

_MANY: Final = 500


class Rolling:
    """Sums up hours; for one round of compaction.

    A point may stand in several layouts of its device, one after the other: in the hour in which
    a profile changed, all of them are looked at.

    Args:
        reader: an engine that only reads.
        rules: of the points.
    """

    def __init__(self, reader: sa.Engine, rules: PointRules) -> None:
        self._reader = reader
        self._rules = rules
        with reader.begin() as connection:
            self._layouts = chunks.layouts(connection)

    @cached_property
    def _shared(self) -> IntArray:
        """Numbers of the points that stand in more than one layout."""
        every = np.concatenate([ids for _, ids in self._layouts] or [np.zeros(0, np.int64)])
        numbers, times = np.unique(every, return_counts=True)
        return numbers[times > 1]

    def _names(self, ids: IntArray) -> list[PointId]:
        found: dict[int, str] = {}
        numbers = ids.tolist()
        with self._reader.begin() as connection:
            for start in range(0, len(numbers), _MANY):
                some = numbers[start : start + _MANY]
                asked = sa.select(point.c.id, point.c.ref).where(point.c.id.in_(some))
                found.update((row.id, row.ref) for row in connection.execute(asked))
        return [PointId(*found[number].split(":", 2)) for number in numbers]

    def __call__(self, hour: Hour, point_ids: IntArray) -> Callable[[sa.Connection], None]:
        """What the writer does with an hour; see `facility.store.compaction.Beside`."""
        alone = np.ones(len(point_ids), dtype=bool)
        parts = []
        for at, columns in self._elsewhere(hour, point_ids):
            alone[at] = False
            parts.append(self._sum_up(point_ids[at], columns))
        at = np.flatnonzero(alone)
        if len(at):
            parts.append(self._sum_up(point_ids[at], _of(hour.columns, at)))

        def write(connection: sa.Connection) -> None:
            for part in parts:
                rollups.write(connection, part, self._rules.site)

        return write

    def _sum_up(self, ids: IntArray, columns: Columns) -> rollups.Summed:
        quality = columns.quality.T if columns.quality.any() else None
        points = self._names(ids)
        return rollups.sum_up(ids, points, columns.times_ms, columns.values.T, quality, self._rules)

    def _elsewhere(self, hour: Hour, point_ids: IntArray) -> Sequence[tuple[IntArray, Columns]]:
        """Positions of points that other layouts hold samples of in this hour; all of these."""
        shared = np.isin(point_ids, self._shared)
        if not shared.any():
            return ()
        found: dict[int, list[tuple[int, Columns]]] = {}
        with self._reader.begin() as connection:
            for number, ids in self._layouts:
                if number == hour.layout_id:
                    continue
                at = np.flatnonzero(shared & np.isin(point_ids, ids))
                if not len(at):
                    continue
                there = [int(np.flatnonzero(ids == point_ids[i])[0]) for i in at]
                begin_ms, end_ms = hour.hour_ms, hour.hour_ms + HOUR_MS
                other = chunks.read(connection, number, len(ids), begin_ms, end_ms, there)
                if not len(other):
                    continue
                for column, i in enumerate(at.tolist()):
                    found.setdefault(i, []).append((number, _of(other, np.array([column]))))
        return [
            (
                np.array([i]),
                _together([*others, (hour.layout_id, _of(hour.columns, np.array([i])))]),
            )
            for i, others in found.items()
        ]


def _together(parts: Sequence[tuple[int, Columns]]) -> Columns:
    """What layouts, given by number, hold of one point; of one time the newest layout's."""
    return reduce(merged, (columns for _, columns in sorted(parts, key=itemgetter(0))))


def _of(columns: Columns, at: IntArray) -> Columns:
    """Those points only."""
    if len(at) == len(columns.values):
        return columns
    return Columns(columns.times_ms, columns.received_ms, columns.values[at], columns.quality[at])
