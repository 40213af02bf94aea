"""Turning hours that are over into chunks, one layout and hour at a time.

Reading and encoding happen beside the writer; what the writer does is one short transaction that
puts the chunk in the place of its raw scans. If anything came to that hour meanwhile, nothing is
written and the next round does it again, so doing it twice, or dying at any moment, is harmless.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Final

import sqlalchemy as sa
import structlog

from facility.points import IntArray
from facility.store.chunks import encode
from facility.store.rows import chunks as rows
from facility.store.rows import partitions
from facility.store.rows.chunks import HOUR_MS, Changed, Hour

_log = structlog.get_logger(__name__)

#: An hour is compacted once nothing came to it for this long: late data would reopen its chunk.
SETTLE_MS: Final = 300_000

Write = Callable[[sa.Connection], None]
#: Called beside the writer with each hour and its layout's point numbers; what it returns is run
#: in the transaction that writes the chunk.
Beside = Callable[[Hour, IntArray], Write]


@dataclass(frozen=True, slots=True)
class Compacted:
    """What one round did.

    Attributes:
        hours, scans, samples: turned into chunks; of reopened ones only what was raw.
        chunk_bytes: of the chunks written.
        waiting: hours that are over, but to which something came just now.
        damaged: hours left as they are, since their chunk or a scan cannot be read.
    """

    hours: int = 0
    scans: int = 0
    samples: int = 0
    chunk_bytes: int = 0
    waiting: int = 0
    damaged: int = 0


class Compaction:
    """One round over every layout.

    Args:
        reader: an engine that only reads.
        submit: hands a job to the writer.
        now_ms: hours that end by then are over.
        beside: what else belongs to an hour, e.g. its roll-ups.
        settle_ms: see SETTLE_MS.
    """

    def __init__(
        self,
        reader: sa.Engine,
        submit: Callable[[Write], Future[Any]],
        now_ms: int,
        beside: Beside | None = None,
        settle_ms: int = SETTLE_MS,
    ) -> None:
        self._reader = reader
        self._submit = submit
        self._now_ms = now_ms
        self._beside = beside
        self._settle_ms = settle_ms
        self._days: set[int] = set()
        self._done = Compacted()

    def run(self) -> Compacted:
        """Compact what is due.

        Raises:
            StoreUnavailable: the database is away; what was done stays done.
        """
        with self._reader.begin() as connection:
            layouts = rows.layouts(connection)
        for layout_id, point_ids in layouts:
            for hour in self._due(layout_id, len(point_ids)):
                self._compact(hour, point_ids)
        return self._done

    def _due(self, layout_id: int, points: int) -> Iterator[Hour]:
        """The hours of a layout that are over and settled, each read when it is its turn."""
        from_ms = 0
        while True:
            with self._reader.begin() as connection:
                oldest_ms = rows.oldest_raw(connection, layout_id, from_ms)
                if oldest_ms is None:
                    return
                hour_ms = rows.hour_of(oldest_ms)
                if hour_ms + HOUR_MS > self._now_ms:
                    return
                from_ms = hour_ms + HOUR_MS
                try:
                    hour = rows.read_hour(connection, layout_id, points, hour_ms)
                except ValueError as error:
                    _log.error("hour_unreadable", layout=layout_id, hour=hour_ms, error=str(error))
                    self._count(damaged=1)
                    continue
            if hour is None:
                continue
            # A receive time beyond now was told by a clock that was set back since: long ago.
            age_ms = self._now_ms - int(hour.raw.received_ms.max())
            if 0 <= age_ms < self._settle_ms:
                self._count(waiting=1)
                continue
            yield hour

    def _compact(self, hour: Hour, point_ids: IntArray) -> None:
        packed = encode(hour.columns)
        also = self._beside(hour, point_ids) if self._beside is not None else None
        day_ms = partitions.day_of(hour.hour_ms)

        def write(connection: sa.Connection) -> None:
            if day_ms not in self._days:
                partitions.make(connection, "chunk", [day_ms])
            rows.write_hour(connection, hour, packed)
            if also is not None:
                also(connection)

        try:
            self._submit(write).result()
        except (Changed, partitions.Busy):
            self._count(waiting=1)
            return
        self._days.add(day_ms)
        self._count(
            hours=1,
            scans=len(hour.raw),
            samples=len(hour.raw) * len(point_ids),
            chunk_bytes=len(packed.head) + len(packed.body),
        )

    def _count(self, **more: int) -> None:
        done = self._done
        self._done = Compacted(
            **{name: getattr(done, name) + more.get(name, 0) for name in Compacted.__slots__}
        )
