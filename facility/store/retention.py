"""Letting go of what is older than its class is kept: whole chunks, in steps that stall nobody.

On PostgreSQL the partitions of days that no class keeps go whole; what else is too old is deleted
a few rows at a time. On SQLite the pages that become free are used again by what comes; only where
many more are free than that needs does the file shrink, a megabyte at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Protocol, TypeVar

import sqlalchemy as sa

from facility.points import PointId
from facility.store.rollups import PointRules
from facility.store.rows import chunks, partitions
from facility.store.rows.chunks import HOUR_MS
from facility.store.rows.tables import chunk, point, rollup_1d, rollup_15m, scan

T = TypeVar("T")


class Submit(Protocol):
    """Hands a job to the writer."""

    def __call__(self, run: Callable[[sa.Connection], T]) -> Future[T]:
        """Its answer once it is committed."""


#: What one transaction takes away at most: of chunks, scans, roll-ups, and pages given back.
CHUNKS: Final = 4
SCANS: Final = 2_000
ROLLUPS: Final = 500
PAGES: Final = 256
#: A file shrinks while more than this many pages, and more than this share, are free.
FREE_PAGES: Final = 4_096
FREE_SHARE: Final = 0.1
_MANY: Final = 500


@dataclass(frozen=True, slots=True)
class Retired:
    """What one round let go: rows, whole partitions, and pages of the file.

    Attributes:
        waiting: partitions that are due, but that somebody read just now; for the next round.
    """

    chunks: int = 0
    scans: int = 0
    rollups: int = 0
    partitions: tuple[str, ...] = ()
    pages: int = 0
    waiting: int = 0


class Retention:
    """One round over everything.

    Args:
        reader: an engine that only reads.
        submit: hands a job to the writer.
        now_ms: ages are counted from here.
        rules: how long each point is kept.
    """

    def __init__(self, reader: sa.Engine, submit: Submit, now_ms: int, rules: PointRules) -> None:
        self._reader = reader
        self._submit = submit
        self._now_ms = now_ms
        self._rules = rules
        with reader.begin() as connection:
            self._layouts = chunks.layouts(connection)
            rows = connection.execute(sa.select(point.c.id, point.c.ref)).all()
        self._names = {row.id: PointId(*row.ref.split(":", 2)) for row in rows}

    def run(self) -> Retired:
        """Let go of what is due.

        Raises:
            StoreUnavailable: the database is away; what went stays gone.
        """
        before = self._raw_before()
        dropped, waiting = self._drop_partitions(before)
        done = Retired(partitions=dropped, waiting=waiting)
        # A day that waits goes whole in the next round: row by row it would take a thousand times
        # as long, and leave its room dead until then.
        from_ms = partitions.day_of(min(before.values())) if waiting else 0
        for number, before_ms in before.items():
            some = (number, from_ms, before_ms)
            done = replace(
                done,
                chunks=done.chunks + self._drop_rows(chunk, "hour_ms", *some, CHUNKS),
                scans=done.scans + self._drop_rows(scan, "source_ms", *some, SCANS),
            )
        return replace(done, rollups=self._drop_rollups(), pages=self._shrink())

    def _raw_before(self) -> dict[int, int]:
        """Layout -> whole hours before this moment may go: no point of it keeps them."""
        found = {}
        for number, ids in self._layouts:
            keeps = [self._rules.keep(self._names[i]).raw_ms for i in ids.tolist()]
            if keeps:
                found[number] = chunks.hour_of(self._now_ms - max(keeps))
        return found

    def _drop_partitions(self, before: Mapping[int, int]) -> tuple[tuple[str, ...], int]:
        """Days that nobody keeps, each by itself: names of those that went, and how many wait."""
        if not before:
            return (), 0
        oldest_ms = min(before.values())
        dropped: list[str] = []
        waiting = 0
        for table in partitions.SPLIT_BY:
            with self._reader.begin() as connection:
                ended = partitions.ended(connection, table, oldest_ms)
            for name in ended:
                try:
                    self._submit(partial(partitions.drop, name=name)).result()
                except partitions.Busy:
                    waiting += 1
                else:
                    dropped.append(name)
        return tuple(dropped), waiting

    def _drop_rows(
        self, table: sa.Table, column: str, layout: int, from_ms: int, before_ms: int, most: int
    ) -> int:
        """Delete the oldest rows of a layout in [from_ms, before_ms), a few at a time."""
        at = table.c[column]
        mine = sa.and_(table.c.layout_id == layout, at >= from_ms, at < before_ms)
        dropped = 0
        while True:
            with self._reader.begin() as connection:
                oldest = connection.execute(sa.select(at).where(mine).order_by(at).limit(most))
                times = list(oldest.scalars())
            if not times:
                return dropped
            # As a range: hours that late data added meanwhile go along.
            gone = sa.delete(table).where(mine, at <= times[-1])
            dropped += self._delete(gone)
            if len(times) < most:
                return dropped

    def _delete(self, gone: sa.Delete) -> int:
        def delete(connection: sa.Connection) -> int:
            return int(connection.execute(gone).rowcount)

        return self._submit(delete).result()

    def _drop_rollups(self) -> int:
        quarters: dict[int, list[int]] = {}
        days: dict[int, list[int]] = {}
        for number, name in self._names.items():
            keep = self._rules.keep(name)
            quarters.setdefault(self._hours_ago(keep.quarters), []).append(number)
            days.setdefault(self._hours_ago(keep.days), []).append(number)
        return sum(
            self._drop_old(table, some, before_ms)
            for table, alike in ((rollup_15m, quarters), (rollup_1d, days))
            for before_ms, ids in alike.items()
            for some in _batches(ids)
        )

    def _hours_ago(self, days: float) -> int:
        return chunks.hour_of(self._now_ms - round(days * 24 * HOUR_MS))

    def _drop_old(self, table: sa.Table, ids: Sequence[int], before_ms: int) -> int:
        """Delete roll-ups of points, a few at a time."""
        key = sa.tuple_(table.c.point_id, table.c.start_ms)
        old = (
            sa.select(table.c.point_id, table.c.start_ms)
            .where(table.c.point_id.in_(ids), table.c.start_ms < before_ms)
            .limit(ROLLUPS)
        )
        gone = sa.delete(table).where(key.in_(old))
        dropped = 0
        while True:
            with self._reader.begin() as connection:
                due = connection.execute(old.limit(1)).one_or_none()
            if due is None:
                return dropped
            dropped += self._delete(gone)

    def _shrink(self) -> int:
        """Give free pages of a SQLite file back while there are too many; how many."""
        given = 0
        while True:
            pages: int = self._submit(_give_back).result()
            if not pages:
                return given
            given += pages


def _give_back(connection: sa.Connection) -> int:
    """Up to `PAGES` free pages of the file; 0 where few are free, or on PostgreSQL."""
    if connection.dialect.name != "sqlite":
        return 0

    def count(of: str) -> int:
        return int(connection.exec_driver_sql(f"PRAGMA {of}").scalar_one())

    free = count("freelist_count")
    if free <= max(FREE_PAGES, FREE_SHARE * count("page_count")):
        return 0
    driver: Any = connection.connection.driver_connection
    cursor = driver.cursor()
    cursor.execute(f"PRAGMA incremental_vacuum({PAGES})")
    cursor.fetchall()  # it gives back one page for each row that is asked of it
    cursor.close()
    return free - count("freelist_count")


def _batches(ids: Sequence[int]) -> Iterator[Sequence[int]]:
    for start in range(0, len(ids), _MANY):
        yield ids[start : start + _MANY]
