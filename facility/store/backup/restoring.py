"""A copy back into a database: looked through first, in one transaction, never by accident."""

from __future__ import annotations

import base64
import hashlib
import json
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa

from facility.clock import SystemClock
from facility.store import migrate
from facility.store.backup.form import FORM, FORMS, PAGE
from facility.store.backup.making import copy_pages
from facility.store.engine import (
    FileLock,
    check_sqlite_file,
    in_memory,
    sqlite_file,
    writing_engine,
)
from facility.store.errors import StoreCorrupt, StoreError, StoreLocked
from facility.store.rows import audit, partitions
from facility.store.rows.tables import lease, metadata, mode

#: of rows in memory at once
_MOST_BYTES: Final = 32 << 20
_ASIDE: Final = ".before-restore"
#: More days than that are a clock out of the world; their rows stay in the default partition.
_MOST_DAYS: Final = 4_000


def restore(url: str, file: Path, *, overwrite: bool = False) -> dict[str, int]:
    """Bring a backup into a database: a new one, or with `overwrite` in the place of an old one.

    The copy is looked through before anything is touched, and the chain of its audit before it
    counts. A SQLite file that gives way is kept beside, as `FILE.before-restore`; a PostgreSQL
    database is emptied in the same transaction, which a failure takes back.

    Returns:
        Rows per table.

    Raises:
        StoreCorrupt: the file is no whole backup; the database is as it was.
        StoreError: the database is not empty and `overwrite` was not asked for, or is in use.
    """
    if in_memory(url):
        raise StoreError("a backup restored into memory would be lost at once")
    try:
        with file.open("rb") as stream:
            portable = stream.read(2) == b"PK"
    except OSError as error:
        raise StoreError(f"{file} cannot be read: {error.strerror}") from error
    target = sqlite_file(url)
    if target is None and not portable:
        raise StoreError(f"{file} is a SQLite file; PostgreSQL takes the portable form (.zip)")
    if portable:
        _look_through(file)
    else:
        check_sqlite_file(file, every_page=True)
    if target is None:
        return _fill(url, file, overwrite=overwrite)
    if target.exists() and not overwrite:
        raise StoreError(f"{target} exists already; restore into a new database, or overwrite it")
    with _in_place_of(target):
        if not portable:
            copy_pages(file, target)
        return _fill(url, file if portable else None, overwrite=False)


@contextmanager
def _in_place_of(target: Path) -> Iterator[None]:
    """The file's place, free; what was there is put aside, and back if it comes to nothing."""
    lock = FileLock(target)
    lock.acquire()
    names = [target, *(target.with_name(target.name + end) for end in ("-wal", "-shm"))]
    aside = [name.with_name(name.name + _ASIDE) for name in names]
    try:
        if any(kept.exists() for kept in aside):
            raise StoreError(f"{aside[0]} is still there; look at it and move it away first")
        for name, kept in zip(names, aside, strict=True):
            if name.exists():
                name.rename(kept)
        try:
            yield
        except BaseException:
            # What was begun would pass for a store.
            for name, kept in zip(names, aside, strict=True):
                name.unlink(missing_ok=True)
                if kept.exists():
                    kept.rename(name)
            raise
    finally:
        lock.release()


def _look_through(file: Path) -> None:
    """Refuse a damaged zip before anything else happens."""
    try:
        with zipfile.ZipFile(file) as archive:
            manifest = json.loads(archive.read("manifest.json"))
            if manifest["form"] not in FORMS:
                raise StoreError(f"{file} is a backup of another form: {manifest['form']}")
            migrate.require_known(manifest["schema"])
            for name in manifest["rows"]:
                digest = hashlib.sha256()
                with archive.open(f"{name}.jsonl") as member:
                    while block := member.read(1 << 20):
                        digest.update(block)
                if manifest["form"] == FORM and digest.hexdigest() != manifest["sha256"][name]:
                    raise StoreCorrupt(f"{file} is no whole backup: {name} was changed")
    except (zipfile.BadZipFile, KeyError, ValueError, TypeError, EOFError, OSError) as error:
        raise StoreCorrupt(f"{file} is no whole backup: {error}") from error


def _fill(url: str, archive: Path | None, *, overwrite: bool) -> dict[str, int]:
    engine = writing_engine(url)
    try:
        with engine.begin() as connection:
            if engine.name == "postgresql":
                connection.execute(sa.text("SET LOCAL statement_timeout = 0"))
                connection.execute(sa.text("SET LOCAL idle_in_transaction_session_timeout = 0"))
            if overwrite and sa.inspect(connection).get_table_names():
                _empty(connection)
            if archive is not None:
                _read_zip(connection, archive)
            migrate.upgrade_on(connection)
            _split_days(connection)
            for fault in audit.faults(connection):
                raise StoreCorrupt(f"the copy was tampered with: {fault}")
            _observe(connection)
            return {
                table.name: int(
                    connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one()
                )
                for table in metadata.sorted_tables
            }
    except sa.exc.DBAPIError as error:
        raise migrate.unreachable(error) from error
    finally:
        engine.dispose()


def _observe(connection: sa.Connection) -> None:
    """Nobody acts; the hall says so itself, since the file may say auto where nothing is set."""
    now_ms = SystemClock().utc_ms()
    connection.execute(
        sa.update(mode).where(mode.c.mode.in_(("auto", "advise"))).values(mode="observe")
    )
    stated = sa.select(mode.c.scope).where(mode.c.scope == "hall")
    if connection.execute(stated).one_or_none() is None:
        said = {"by_whom": "db restore", "reason": "restored from a backup", "since_ms": now_ms}
        connection.execute(sa.insert(mode), {"scope": "hall", "mode": "observe", **said})


def _empty(connection: sa.Connection) -> None:
    """Take what is ours out of a PostgreSQL database that nobody controls a hall with."""
    found = migrate.revision(connection)
    migrate.require_known(found)
    held = connection.execute(
        sa.select(lease.c.hall, lease.c.owner).where(lease.c.expires_ms > SystemClock().utc_ms())
    ).first()
    if held is not None:
        raise StoreLocked(f"{held.owner} controls {held.hall} with this database; stop it first")
    names = ", ".join(f'"{name}"' for name in sa.inspect(connection).get_table_names())
    connection.exec_driver_sql(f"DROP TABLE {names} CASCADE")
    connection.exec_driver_sql("DROP FUNCTION IF EXISTS audit_append_only()")


def _split_days(connection: sa.Connection) -> None:
    """PostgreSQL: what was read back goes to the partitions of its days."""
    if connection.dialect.name != "postgresql":
        return
    for table, column in partitions.SPLIT_BY.items():
        start = sa.text(f"SELECT DISTINCT {column} - {column} % :day FROM {table}_default")
        days = connection.execute(start, {"day": partitions.DAY_MS}).scalars()
        partitions.make(connection, table, sorted(days)[-_MOST_DAYS:])


def _read_zip(connection: sa.Connection, file: Path) -> None:
    """Make the schema that the copy has, and fill it."""
    try:
        with zipfile.ZipFile(file) as archive:
            manifest = json.loads(archive.read("manifest.json"))
            if sa.inspect(connection).get_table_names():
                raise StoreError("the database is not empty; restore into a new one, or overwrite")
            migrate.upgrade_on(connection, manifest["schema"])
            found = sa.MetaData()
            found.reflect(connection, only=list(manifest["rows"]))
            for name, expected in manifest["rows"].items():
                _read_table(connection, archive, found.tables[name], int(expected))
    except (zipfile.BadZipFile, KeyError, ValueError, TypeError, EOFError) as error:
        raise StoreCorrupt(f"{file} is no whole backup: {error}") from error


def _back(value: Any) -> Any:
    return base64.b64decode(value["$b"]) if isinstance(value, dict) else value


def _read_table(
    connection: sa.Connection, archive: zipfile.ZipFile, table: sa.Table, expected: int
) -> None:
    rows: list[dict[str, Any]] = []
    seen = held = 0
    with archive.open(f"{table.name}.jsonl") as member:
        for line in member:
            rows.append({name: _back(value) for name, value in json.loads(line).items()})
            seen += 1
            held += len(line)
            if len(rows) == PAGE or held > _MOST_BYTES:
                connection.execute(sa.insert(table), rows)
                rows, held = [], 0
    if rows:
        connection.execute(sa.insert(table), rows)
    if seen != expected:
        raise StoreCorrupt(f"{table.name}: {seen} rows where {expected} are due")
    if connection.dialect.name == "postgresql" and "id" in table.c and seen:
        owned = sa.select(sa.func.pg_get_serial_sequence(table.name, "id")).scalar_subquery()
        if connection.execute(sa.select(owned)).scalar_one() is not None:
            highest = sa.select(sa.func.max(table.c.id)).scalar_subquery()
            connection.execute(sa.select(sa.func.setval(owned, highest)))
