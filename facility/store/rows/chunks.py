"""Reading and writing the past of a layout: chunks, and the raw scans not yet in them.

An hour may stand in a chunk and have raw scans as well: late ones, until they are compacted too.
What is raw was told later than what is in the chunk, so of two at one time the raw one counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import sqlalchemy as sa

from facility.points import IntArray
from facility.store.chunks import Columns, Head, Packed, merged
from facility.store.rows.packing import unpack_all
from facility.store.rows.tables import chunk, layout

HOUR_MS: Final = 3_600_000
_WHERE: Final = "FROM scan WHERE layout_id = :layout AND source_ms >= :from AND source_ms < :to"
_RAW: Final = sa.text(f"SELECT source_ms, received_ms, data {_WHERE} ORDER BY source_ms")
# Text, since composing a statement costs more than SQLite needs to answer it.
_OLDEST_RAW: Final = sa.text(
    "SELECT source_ms FROM scan WHERE layout_id = :layout AND source_ms >= :from "
    "ORDER BY source_ms LIMIT 1"
)
_NEWEST_RAW: Final = sa.text(
    "SELECT source_ms FROM scan WHERE layout_id = :layout ORDER BY source_ms DESC LIMIT 1"
)
_CHUNKS: Final = sa.text(
    "SELECT head, body FROM chunk WHERE layout_id = :layout AND hour_ms >= :from "
    "AND hour_ms < :to ORDER BY hour_ms"
)
_HEADS_TO_OPEN: Final = sa.text(
    "SELECT rowid, head FROM chunk WHERE layout_id = :layout AND hour_ms >= :from "
    "AND hour_ms < :to ORDER BY hour_ms"
)
#: Where at most one of so many points is asked for, the rest of a body stays on the disk.
ONE_OF: Final = 4
_NEXT_CHUNK: Final = sa.text(
    "SELECT hour_ms FROM chunk WHERE layout_id = :layout AND hour_ms >= :from "
    "ORDER BY hour_ms LIMIT 1"
)
_NEWEST_CHUNK: Final = sa.text(
    "SELECT last_ms FROM chunk WHERE layout_id = :layout ORDER BY hour_ms DESC LIMIT 1"
)
_COUNTED: Final = sa.text(f"SELECT count(*), sum(received_ms) {_WHERE}")
_DELETED: Final = sa.text(f"DELETE {_WHERE}")
_TAKEN: Final = sa.text(
    f"WITH gone AS (DELETE {_WHERE} RETURNING received_ms) "
    "SELECT count(*), sum(received_ms) FROM gone"
)


class Changed(Exception):
    """An hour is no longer what it was when it was read; nothing was written."""


@dataclass(frozen=True)
class Hour:
    """One layout and hour as read for compaction.

    Attributes:
        raw: its raw scans; at least one.
        revision: of its chunk, None where it has none yet.
        columns: chunk and raw together.
    """

    layout_id: int
    hour_ms: int
    raw: Columns
    revision: int | None
    columns: Columns


def hour_of(at_ms: int) -> int:
    """Start of the UTC hour, ms."""
    return at_ms - at_ms % HOUR_MS


def layouts(connection: sa.Connection) -> list[tuple[int, IntArray]]:
    """Number of every layout and the permanent numbers of its points, in order."""
    rows = connection.execute(sa.select(layout.c.id, layout.c.point_ids).order_by(layout.c.id))
    return [(row.id, np.frombuffer(row.point_ids, "<i8")) for row in rows]


def oldest_raw(connection: sa.Connection, layout_id: int, from_ms: int = 0) -> int | None:
    """Time of a layout's oldest raw scan at or after a moment; None if there is none."""
    found: int | None = connection.execute(
        _OLDEST_RAW, {"layout": layout_id, "from": from_ms}
    ).scalar_one_or_none()
    return found


def read_raw(
    connection: sa.Connection,
    layout_id: int,
    points: int,
    from_ms: int,
    to_ms: int,
    wanted: Sequence[int] | None = None,
) -> Columns:
    """A layout's raw scans in [from_ms, to_ms), of the positions wanted (None: of all)."""
    found = connection.execute(_RAW, {"layout": layout_id, "from": from_ms, "to": to_ms})
    # As the driver gives them: a row object for each would double the time.
    rows = found.cursor.fetchall()
    if not rows:
        return Columns.none(points if wanted is None else len(wanted))
    times, received, packed = zip(*rows, strict=True)
    values, quality = unpack_all(packed, points)
    if wanted is not None:
        values, quality = values[:, wanted], quality[:, wanted]
    return Columns(
        np.array(times, dtype=np.int64),
        np.array(received, dtype=np.int64),
        np.ascontiguousarray(values.T),
        np.ascontiguousarray(quality.T),
    )


def read(
    connection: sa.Connection,
    layout_id: int,
    points: int,
    from_ms: int,
    to_ms: int,
    wanted: Sequence[int] | None = None,
) -> Columns:
    """All that is known of a layout in [from_ms, to_ms), chunks and raw, by time.

    The caller chooses ranges that fit a page: everything is read in one go. Raw comes first, so
    that without a snapshot an hour compacted meanwhile is seen twice, which is once, and not never.

    `points` is how many the layout has, `wanted` are positions in it, None for all.

    Raises:
        ValueError: a damaged chunk or scan.
    """
    raw = read_raw(connection, layout_id, points, from_ms, to_ms, wanted)
    asked = {"layout": layout_id, "from": hour_of(from_ms), "to": to_ms}
    few = wanted is not None and len(wanted) * ONE_OF <= points
    bodies = _opened if few and connection.dialect.name == "sqlite" else _whole
    parts = [
        head.columns(body, wanted).between(from_ms, to_ms)
        for head, body in bodies(connection, asked, wanted or ())
    ]
    if not parts:
        return raw
    return merged(end_to_end(parts), raw)


def _whole(
    connection: sa.Connection, asked: Mapping[str, int], _wanted: Sequence[int]
) -> list[tuple[Head, bytes]]:
    """Heads and bodies of some hours.

    All rows before the first is decoded: a statement that an error leaves open keeps SQLite's
    connection at this moment, and whoever gets it next is told the past of then.
    """
    rows = connection.execute(_CHUNKS, asked).all()
    return [(Head(row.head), row.body) for row in rows]


def _opened(
    connection: sa.Connection, asked: Mapping[str, int], wanted: Sequence[int]
) -> list[tuple[Head, bytes]]:
    """The same from SQLite, with nothing in the bodies but the columns that are wanted.

    SQLite finds a place in a long value by its pointer map, so the pages before it are not read:
    of a cold file a day of one point in sixty costs a tenth of the reads.
    """
    rows = connection.execute(_HEADS_TO_OPEN, asked).all()
    driver = connection.connection.driver_connection
    assert driver is not None
    found = []
    for row in rows:
        head = Head(row.head)
        try:
            with driver.blobopen("chunk", "body", row.rowid, readonly=True) as blob:
                body = bytearray(len(blob))
                for point in wanted:
                    begin, end = head.place(point)
                    blob.seek(begin)
                    body[begin:end] = blob.read(end - begin)
        except connection.dialect.loaded_dbapi.Error as error:
            raise sa.exc.OperationalError("read of a chunk", asked, error) from error
        found.append((head, bytes(body)))
    return found


def heads(
    connection: sa.Connection, layout_id: int, from_ms: int, to_ms: int
) -> Iterator[tuple[int, Head]]:
    """The hours of [from_ms, to_ms) that have a chunk, without their bodies, by time."""
    rows = connection.execute(
        sa.select(chunk.c.hour_ms, chunk.c.head)
        .where(
            chunk.c.layout_id == layout_id,
            chunk.c.hour_ms >= hour_of(from_ms),
            chunk.c.hour_ms < to_ms,
        )
        .order_by(chunk.c.hour_ms)
    ).all()
    for hour_ms, head in rows:
        yield hour_ms, Head(head)


def next_hour(connection: sa.Connection, layout_id: int, from_ms: int) -> int | None:
    """Where a layout's past goes on at or after a moment (ms, not before it); None: nowhere."""
    raw_ms = oldest_raw(connection, layout_id, from_ms)
    chunk_ms = connection.execute(
        _NEXT_CHUNK, {"layout": layout_id, "from": hour_of(from_ms)}
    ).scalar_one_or_none()
    found = [max(ms, from_ms) for ms in (raw_ms, chunk_ms) if ms is not None]
    return min(found, default=None)


def newest(connection: sa.Connection, layout_id: int, points: int) -> Columns:
    """The newest scan of a layout, or none."""
    raw_ms = connection.execute(_NEWEST_RAW, {"layout": layout_id}).scalar_one_or_none()
    chunk_ms = connection.execute(_NEWEST_CHUNK, {"layout": layout_id}).scalar_one_or_none()
    if raw_ms is None and chunk_ms is None:
        return Columns.none(points)
    at_ms = max(ms for ms in (raw_ms, chunk_ms) if ms is not None)
    return read(connection, layout_id, points, at_ms, at_ms + 1)


def read_hour(connection: sa.Connection, layout_id: int, points: int, hour_ms: int) -> Hour | None:
    """An hour's raw scans and its chunk, for compaction; None if nothing is raw.

    Raises:
        ValueError: a damaged chunk or scan.
    """
    raw = read_raw(connection, layout_id, points, hour_ms, hour_ms + HOUR_MS)
    if not len(raw):
        return None
    row = connection.execute(
        sa.select(chunk.c.revision, chunk.c.head, chunk.c.body).where(
            chunk.c.layout_id == layout_id, chunk.c.hour_ms == hour_ms
        )
    ).one_or_none()
    if row is None:
        return Hour(layout_id, hour_ms, raw, None, raw)
    before = Head(row.head).columns(row.body)
    return Hour(layout_id, hour_ms, raw, row.revision, merged(before, raw))


def write_hour(connection: sa.Connection, hour: Hour, packed: Packed) -> None:
    """Put an hour's chunk in the place of its raw scans.

    Raises:
        Changed: a scan came, or was replaced, or somebody else compacted, since it was read.
    """
    if _take_raw(connection, hour) != (len(hour.raw), int(hour.raw.received_ms.sum())):
        raise Changed(f"layout {hour.layout_id}, hour {hour.hour_ms}: scans came meanwhile")
    row = {
        "scans": packed.scans,
        "first_ms": packed.first_ms,
        "last_ms": packed.last_ms,
        "head": packed.head,
        "body": packed.body,
    }
    key = {"layout_id": hour.layout_id, "hour_ms": hour.hour_ms}
    try:
        if hour.revision is None:
            connection.execute(sa.insert(chunk), {**key, **row, "revision": 1})
            return
        done = connection.execute(
            sa.update(chunk)
            .where(
                chunk.c.layout_id == hour.layout_id,
                chunk.c.hour_ms == hour.hour_ms,
                chunk.c.revision == hour.revision,
            )
            .values(**row, revision=hour.revision + 1)
        )
    except sa.exc.IntegrityError as error:
        raise Changed(f"layout {hour.layout_id}, hour {hour.hour_ms}: compacted twice") from error
    if done.rowcount != 1:
        raise Changed(f"layout {hour.layout_id}, hour {hour.hour_ms}: its chunk changed meanwhile")


def _take_raw(connection: sa.Connection, hour: Hour) -> tuple[int, int]:
    """Delete an hour's raw scans; how many there were, and the sum of their receive times.

    Between reading and this only new scans come, or replace others, which raises their receive
    times (see rows/scans.py); so both numbers are the same only if all scans are.
    """
    where = {"layout": hour.layout_id, "from": hour.hour_ms, "to": hour.hour_ms + HOUR_MS}
    if connection.dialect.name == "postgresql":
        count, total = connection.execute(_TAKEN, where).one()
    else:
        # Nobody else writes inside this transaction, so counting first is the same, and faster.
        count, total = connection.execute(_COUNTED, where).one()
        connection.execute(_DELETED, where)
    return int(count), int(total or 0)


def end_to_end(parts: Sequence[Columns]) -> Columns:
    """Stretches that follow each other as one; at least one."""
    if len(parts) == 1:
        return parts[0]
    return Columns(
        np.concatenate([p.times_ms for p in parts]),
        np.concatenate([p.received_ms for p in parts]),
        np.concatenate([p.values for p in parts], axis=1),
        np.concatenate([p.quality for p in parts], axis=1),
    )
