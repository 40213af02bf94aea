"""Writing scans in bulk, and the permanent numbers of points and layouts."""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import numpy as np
import psycopg
import sqlalchemy as sa

from facility.points import Layout, Scan
from facility.store.records import DroppedRecord
from facility.store.rows.packing import pack_all
from facility.store.rows.tables import dropped, layout, point

#: A device's clock is believed up to this far ahead of ours, and this far behind (late data).
_AHEAD_MS: Final = 60_000
_BEHIND_MS: Final = 7 * 86_400_000

#: Of two scans of one layout and time the later written stays. Its receive time always rises, so
#: that whoever read the earlier one can tell that it was replaced.
_REPLACE: Final = (
    "ON CONFLICT (layout_id, source_ms) DO UPDATE SET data = excluded.data, received_ms = "
    "CASE WHEN excluded.received_ms > scan.received_ms "
    "THEN excluded.received_ms ELSE scan.received_ms + 1 END"
)
_INSERT: Final = (
    f"INSERT INTO scan (layout_id, source_ms, received_ms, data) VALUES (?, ?, ?, ?) {_REPLACE}"
)
_COPY: Final = "COPY {} (layout_id, source_ms, received_ms, data) FROM STDIN (FORMAT BINARY)"
_COPY_BEGIN: Final = b"PGCOPY\n\xff\r\n\0" + bytes(8)
#: The number of fields; of each its length and itself.
_COPY_ROW: Final = struct.Struct(">hiiiqiqi").pack
_COPY_END: Final = b"\xff\xff"
_Row = tuple[int, int, int, bytes]


def source_ms(scan: Scan) -> int:
    """The time a scan is filed under: the device's, or ours where its clock is out of the world."""
    ahead = scan.source_ms - scan.received_ms
    return scan.source_ms if -_BEHIND_MS <= ahead <= _AHEAD_MS else scan.received_ms


def layout_ids(
    connection: sa.Connection, layouts: Iterable[Layout], known: dict[str, int]
) -> dict[str, int]:
    """Numbers of those layouts that are not `known` yet, by key; new ones are written."""
    found: dict[str, int] = {}
    for one in layouts:
        if one.key in known or one.key in found:
            continue
        number = connection.execute(
            sa.select(layout.c.id).where(layout.c.key == one.key)
        ).scalar_one_or_none()
        found[one.key] = number if number is not None else _new_layout(connection, one)
    return found


def _new_layout(connection: sa.Connection, one: Layout) -> int:
    refs = [str(spec.id) for spec in one.points]
    if refs:
        connection.execute(
            sa.text("INSERT INTO point (ref) VALUES (:ref) ON CONFLICT (ref) DO NOTHING"),
            [{"ref": ref} for ref in refs],
        )
    numbers: dict[str, int] = {}
    for start in range(0, len(refs), 500):
        rows = connection.execute(
            sa.select(point.c.ref, point.c.id).where(point.c.ref.in_(refs[start : start + 500]))
        )
        numbers.update((row.ref, row.id) for row in rows)
    ids = np.array([numbers[ref] for ref in refs], dtype="<i8").tobytes()
    written: int = connection.execute(
        sa.insert(layout).returning(layout.c.id),
        {
            "key": one.key,
            "device": one.device,
            "poll_class": one.poll_class,
            "point_ids": ids,
        },
    ).scalar_one()
    return written


def write_scans(connection: sa.Connection, scans: Sequence[Scan], ids: dict[str, int]) -> None:
    """Write scans; `ids` names every layout. No objects, no statement per row."""
    # Columns and not a list of rows: the interpreter's collector went through thousands of new
    # tuples again and again, which was a third of the cost of a sample.
    layouts = [ids[s.layout.key] for s in scans]
    sources = [source_ms(s) for s in scans]
    # In the order of the table, so that each of its pages is touched once.
    order = np.lexsort((sources, layouts)).tolist()
    packed = pack_all([scans[i].values for i in order], [scans[i].quality for i in order])
    columns = (
        [layouts[i] for i in order],
        [sources[i] for i in order],
        [scans[i].received_ms for i in order],
        packed,
    )
    if connection.dialect.name != "postgresql":
        _insert(connection, zip(*columns, strict=True))
        return
    rows = list({row[:2]: row for row in zip(*columns, strict=True)}.values())
    try:
        with connection.begin_nested():
            _copy(connection, "scan", rows)
    except sa.exc.IntegrityError:
        # Some stand there already: COPY cannot replace, so it goes beside and then over.
        connection.exec_driver_sql("CREATE TEMPORARY TABLE scan_again (LIKE scan) ON COMMIT DROP")
        _copy(connection, "scan_again", rows)
        connection.exec_driver_sql(
            "INSERT INTO scan (layout_id, source_ms, received_ms, data) "
            f"SELECT layout_id, source_ms, received_ms, data FROM scan_again {_REPLACE}"
        )
        connection.exec_driver_sql("DROP TABLE scan_again")


def _insert(connection: sa.Connection, rows: Iterator[_Row]) -> None:
    driver: Any = connection.connection.driver_connection
    try:
        driver.executemany(_INSERT, rows)
    except sqlite3.Error as error:
        # Past SQLAlchemy, which would have made a list of the rows, and named the error.
        kind = getattr(sa.exc, type(error).__name__, sa.exc.DatabaseError)
        raise kind(_INSERT, None, error) from error


def _copy_bytes(rows: Sequence[_Row]) -> bytes:
    """Rows in the server's binary form of COPY; the driver would take them one by one."""
    parts = [_COPY_BEGIN]
    for layout_id, source, received, data in rows:
        parts.append(_COPY_ROW(4, 4, layout_id, 8, source, 8, received, len(data)))
        parts.append(data)
    parts.append(_COPY_END)
    return b"".join(parts)


def _copy(connection: sa.Connection, table: str, rows: Sequence[_Row]) -> None:
    driver: Any = connection.connection.driver_connection
    statement = _COPY.format(table)
    try:
        with driver.cursor() as cursor, cursor.copy(statement) as copy:
            copy.write(_copy_bytes(rows))
    except psycopg.Error as error:
        # COPY goes past SQLAlchemy, which would have said it in its own words.
        away = isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
        twice = isinstance(error, psycopg.IntegrityError)
        kind = sa.exc.OperationalError if away else sa.exc.DataError
        raise (sa.exc.IntegrityError if twice else kind)(statement, None, error) from error


def write_dropped(connection: sa.Connection, record: DroppedRecord) -> None:
    """Note in the ledger what could not be kept."""
    connection.execute(
        sa.insert(dropped),
        {
            "from_ms": record.from_ms,
            "to_ms": record.to_ms,
            "scans": record.scans,
            "samples": record.samples,
            "reason": record.reason,
        },
    )


def read_dropped(connection: sa.Connection, limit: int) -> list[DroppedRecord]:
    """The newest entries of the ledger."""
    rows = connection.execute(sa.select(dropped).order_by(dropped.c.id.desc()).limit(limit))
    return [DroppedRecord(r.from_ms, r.to_ms, r.scans, r.samples, r.reason) for r in rows]
