"""Writing scans in bulk, and the permanent numbers of points and layouts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np
import psycopg
import sqlalchemy as sa

from facility.points import Layout, Scan
from facility.store.records import DroppedRecord
from facility.store.rows.packing import pack
from facility.store.rows.tables import dropped, layout, point

#: A device's clock is believed up to this far ahead of ours, and this far behind (late data).
_AHEAD_MS: Final = 60_000
_BEHIND_MS: Final = 7 * 86_400_000

_INSERT: Final = "INSERT INTO scan (layout_id, source_ms, received_ms, data) VALUES (?, ?, ?, ?)"
_COPY: Final = "COPY scan (layout_id, source_ms, received_ms, data) FROM STDIN (FORMAT BINARY)"


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
    """Append scans; `ids` names every layout. No objects, no statement per row."""
    rows = [
        (ids[s.layout.key], source_ms(s), s.received_ms, pack(s.values, s.quality)) for s in scans
    ]
    if connection.dialect.name != "postgresql":
        connection.exec_driver_sql(_INSERT, rows)
        return
    driver: Any = connection.connection.driver_connection
    try:
        with driver.cursor() as cursor, cursor.copy(_COPY) as copy:
            copy.set_types(["int4", "int8", "int8", "bytea"])
            for row in rows:
                copy.write_row(row)
    except psycopg.Error as error:
        # COPY goes past SQLAlchemy, which would have said it in its own words.
        away = isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
        kind = sa.exc.OperationalError if away else sa.exc.DataError
        raise kind(_COPY, None, error) from error


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
