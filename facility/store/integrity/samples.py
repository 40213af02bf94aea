"""Is every stored sample readable? Reads everything, a page at a time; for `db check`."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

import sqlalchemy as sa

from facility.store.chunks import Head
from facility.store.rows.chunks import HOUR_MS
from facility.store.rows.packing import unpack_all
from facility.store.rows.tables import chunk, layout, scan

#: Rows read at once: chunks may have megabytes.
_CHUNKS: Final = 8
_SCANS: Final = 2_000


def faults(connection: sa.Connection) -> Iterator[str]:
    """Hours and scans that cannot be read as they were written, in words."""
    rows = connection.execute(
        sa.select(layout.c.id, layout.c.device, layout.c.poll_class, layout.c.point_ids)
    ).all()
    known = {row.id: (f"{row.device}/{row.poll_class}", len(row.point_ids) // 8) for row in rows}
    for number in sorted(known):
        who, points = known[number]
        yield from _of_chunks(connection, number, who, points)
        yield from _of_scans(connection, number, who, points)
    for table in (chunk, scan):
        held = sa.select(table.c.layout_id).distinct()
        for number in sorted(set(connection.execute(held).scalars()) - known.keys()):
            yield f"{table.name}: rows of layout {number}, which is not there"


def _of_chunks(connection: sa.Connection, number: int, who: str, points: int) -> Iterator[str]:
    last = -1
    while True:
        page = connection.execute(
            sa.select(chunk)
            .where(chunk.c.layout_id == number, chunk.c.hour_ms > last)
            .order_by(chunk.c.hour_ms)
            .limit(_CHUNKS)
        ).all()
        for row in page:
            try:
                _decode(row, points)
            except ValueError as error:
                yield f"{who}, hour of {_moment(row.hour_ms)}: {error}"
        if len(page) < _CHUNKS:
            return
        last = page[-1].hour_ms


def _decode(row: sa.Row[tuple[int, int, int, int, int, int, bytes, bytes]], points: int) -> None:
    head = Head(row.head)
    if (head.points, head.scans) != (points, row.scans):
        raise ValueError(
            f"{head.scans} scans of {head.points} points where {row.scans} of {points} are due"
        )
    times = head.columns(row.body).times_ms
    inside = row.hour_ms <= times[0] and times[-1] < row.hour_ms + HOUR_MS
    if not inside or (int(times[0]), int(times[-1])) != (row.first_ms, row.last_ms):
        raise ValueError("its times are not those of its row")


def _of_scans(connection: sa.Connection, number: int, who: str, points: int) -> Iterator[str]:
    last = -1
    while True:
        page = connection.execute(
            sa.select(scan.c.source_ms, scan.c.data)
            .where(scan.c.layout_id == number, scan.c.source_ms > last)
            .order_by(scan.c.source_ms)
            .limit(_SCANS)
        ).all()
        try:
            if page:
                unpack_all([row.data for row in page], points)
        except ValueError:
            for row in page:
                try:
                    unpack_all([row.data], points)
                except ValueError as error:
                    yield f"{who}, scan of {_moment(row.source_ms)}: {error}"
        if len(page) < _SCANS:
            return
        last = page[-1].source_ms


def _moment(ms: int) -> str:
    return f"{datetime.fromtimestamp(ms / 1000.0, UTC):%Y-%m-%d %H:%M:%S} UTC"
