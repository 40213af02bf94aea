"""PostgreSQL's partitions of `scan` and `chunk`: one per UTC day, made ahead, dropped whole.

A row that belongs to no day's partition (late data, a clock out of the world, a maintenance that
did not run) goes to the default one, so that no write ever waits for a partition; when its day
is made later, such rows move there. Everything here gives up after a short wait for a lock, since
the writer must not stand behind a reader; the next round tries again.

On SQLite there is nothing to do: every function returns at once.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

import psycopg
import sqlalchemy as sa

from facility.store.errors import StoreError

DAY_MS: Final = 86_400_000
#: Days beyond today that stand ready.
AHEAD_DAYS: Final = 3
#: The partitioned tables and the column each is split by.
SPLIT_BY: Final = {"scan": "source_ms", "chunk": "hour_ms"}
_LOCK_WAIT_MS: Final = 200
_NAME: Final = re.compile(r"(scan|chunk)_(d\d{8}|default)")


class Busy(StoreError):
    """A lock was not free in time. The database is well, and nothing of it was done."""


def is_partition(table_name: str | None) -> bool:
    """Whether a table is a partition of one of ours, and so no part of the schema proper."""
    return table_name is not None and _NAME.fullmatch(table_name) is not None


def day_of(at_ms: int) -> int:
    """Start of the UTC day, ms."""
    return at_ms - at_ms % DAY_MS


def name_of(table: str, day_ms: int) -> str:
    """The partition of a day."""
    return f"{table}_d{datetime.fromtimestamp(day_ms / 1000, UTC):%Y%m%d}"


def days(connection: sa.Connection, table: str) -> dict[int, str]:
    """The partitions that stand, by the start of their day (ms), oldest first."""
    if connection.dialect.name != "postgresql":
        return {}
    names = connection.execute(
        sa.text(
            "SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid "
            "WHERE i.inhparent = CAST(:table AS regclass) ORDER BY c.relname"
        ),
        {"table": table},
    ).scalars()
    found: dict[int, str] = {}
    for name in names:
        _, _, day = name.rpartition("_d")
        if len(day) == 8 and day.isdigit():
            start = datetime.strptime(day, "%Y%m%d").replace(tzinfo=UTC)
            found[round(start.timestamp() * 1000)] = name
    return found


def make_ahead(connection: sa.Connection, now_ms: int) -> list[str]:
    """Make the partitions from yesterday to `AHEAD_DAYS` ahead that are missing; their names.

    Raises:
        Busy: a lock was not free in time; try later.
    """
    today_ms = day_of(now_ms)
    wanted = [today_ms + n * DAY_MS for n in range(-1, AHEAD_DAYS + 1)]
    return [made for table in SPLIT_BY for made in make(connection, table, wanted)]


def make(connection: sa.Connection, table: str, wanted: list[int]) -> list[str]:
    """Make the partitions of those days (ms of their starts) that are missing; their names.

    Raises:
        Busy: a lock was not free in time; try later.
    """
    if connection.dialect.name != "postgresql":
        return []
    missing = sorted(set(wanted) - days(connection, table).keys())
    column = SPLIT_BY[table]
    for day_ms in missing:
        name, end_ms = name_of(table, day_ms), day_ms + DAY_MS
        _hurried(
            connection,
            # Filled before it is attached: a default partition that holds rows of a day bars it.
            f"CREATE TABLE {name} (LIKE {table} INCLUDING ALL)",
            f"WITH moved AS (DELETE FROM {table}_default WHERE {column} >= {day_ms} "
            f"AND {column} < {end_ms} RETURNING *) INSERT INTO {name} SELECT * FROM moved",
            f"ALTER TABLE {table} ATTACH PARTITION {name} FOR VALUES FROM ({day_ms}) TO ({end_ms})",
        )
    return [name_of(table, day_ms) for day_ms in missing]


def ended(connection: sa.Connection, table: str, before_ms: int) -> list[str]:
    """The partitions of whole days that ended at or before `before_ms`, oldest first."""
    return [n for start, n in days(connection, table).items() if start + DAY_MS <= before_ms]


def drop(connection: sa.Connection, name: str) -> None:
    """Drop one partition.

    Raises:
        Busy: a lock was not free in time; try later.
    """
    _hurried(connection, f"DROP TABLE {name}")


def drop_emptied(connection: sa.Connection, now_ms: int) -> list[str]:
    """Drop the partitions of `scan` before yesterday whose scans are all compacted; their names.

    Raises:
        Busy: a lock was not free in time; try later.
    """
    dropped: list[str] = []
    for start, name in days(connection, "scan").items():
        if start >= day_of(now_ms) - DAY_MS:
            continue
        # Locked first: whoever writes a late scan now waits, and finds the default partition.
        _hurried(connection, f"LOCK TABLE {name} IN ACCESS EXCLUSIVE MODE")
        held = connection.exec_driver_sql(f"SELECT EXISTS (SELECT 1 FROM {name})").scalar_one()
        if not held:
            _hurried(connection, f"DROP TABLE {name}")
            dropped.append(name)
    return dropped


def vacuum(engine: sa.Engine) -> None:
    """Give back the space of scans that were compacted, beside whatever else goes on.

    The server's own vacuum waits until a fifth of a partition is dead, and one left to itself on a
    default setting may be an hour behind: the raw scans would take twice their room.
    """
    if engine.dialect.name != "postgresql":
        return
    asked = sa.text(
        "SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid "
        "JOIN pg_stat_user_tables s ON s.relid = c.oid "
        "WHERE i.inhparent = CAST('scan' AS regclass) AND s.n_dead_tup > 0"
    )
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.exec_driver_sql("SET statement_timeout = 0")
        try:
            for name in connection.execute(asked).scalars().all():
                connection.exec_driver_sql(f"VACUUM (ANALYZE) {name}")
        finally:
            connection.exec_driver_sql("RESET statement_timeout")


def _hurried(connection: sa.Connection, *statements: str) -> None:
    """Run statements that want locks, all or none, without waiting long for any."""
    if not statements:
        return
    try:
        with connection.begin_nested():
            connection.exec_driver_sql(f"SET LOCAL lock_timeout = {_LOCK_WAIT_MS}")
            for statement in statements:
                connection.exec_driver_sql(statement)
    except sa.exc.OperationalError as error:
        if isinstance(error.orig, psycopg.errors.LockNotAvailable):
            raise Busy("somebody reads or writes a day's partition just now") from error
        raise
