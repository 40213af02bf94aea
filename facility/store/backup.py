"""Copies of a whole store, made while it is in use.

Two forms: a SQLite file, made by SQLite's own backup (SQLite only), and a portable zip (both):
`manifest.json` with the schema's revision and the rows per table, then one member per table with
a JSON line per row. Bytes are written as `{"$b": base64}`.

A restored store comes up in observe: what was in auto when the copy was made must be put there
again by a person who has looked.
"""

from __future__ import annotations

import base64
import json
import os
import sqlite3
import zipfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa

from facility.store import migrate
from facility.store.engine import (
    FileLock,
    check_sqlite_file,
    in_memory,
    reading_engine,
    sqlite_file,
    writing_engine,
)
from facility.store.errors import StoreCorrupt, StoreError
from facility.store.rows.tables import metadata

_FORM: Final = "wattkeeper-backup-1"
_PAGE: Final = 2_000


def backup(url: str, file: Path) -> dict[str, int]:
    """Copy the store to a new file; `.zip` gives the portable form.

    Returns:
        Rows per table (portable form), or the pages copied (`{"pages": n}`).

    Raises:
        StoreError: the file exists already, or the store cannot be read.
    """
    if file.exists():
        raise StoreError(f"{file} exists already; a backup never overwrites")
    source = sqlite_file(url)
    if in_memory(url):
        raise StoreError("a store in memory cannot be copied from outside")
    if source is not None:
        if not source.exists():
            raise StoreError(f"{source} does not exist")
        check_sqlite_file(source)
    elif file.suffix != ".zip":
        raise StoreError("a backup of PostgreSQL is portable: give it a name ending in .zip")
    part = file.with_name(file.name + ".part")
    try:
        if source is not None and file.suffix != ".zip":
            done = _copy_pages(source, part)
        else:
            done = _write_zip(url, part)
        with part.open("rb") as stream:
            os.fsync(stream.fileno())
        part.rename(file)
    except sa.exc.DBAPIError as error:
        raise migrate.unreachable(error) from error
    except (OSError, sqlite3.Error) as error:
        raise StoreError(f"the backup failed: {error}") from error
    finally:
        part.unlink(missing_ok=True)
    return done


def restore(url: str, file: Path) -> dict[str, int]:
    """Bring a backup into a new database; nothing is ever overwritten.

    Returns:
        Rows per table.

    Raises:
        StoreError: the file is no backup, or the database is not empty.
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
    if target is not None and target.exists():
        raise StoreError(f"{target} exists already; restore into a new database")
    lock = FileLock(target) if target is not None else None
    if lock is not None:
        lock.acquire()
    try:
        if target is not None and not portable:
            check_sqlite_file(file)
            _copy_pages(file, target)
        return _fill(url, file if portable else None)
    except BaseException:
        # What was begun would pass for a store; the target did not exist before.
        if target is not None:
            for name in (target.name, f"{target.name}-wal", f"{target.name}-shm"):
                target.with_name(name).unlink(missing_ok=True)
        raise
    finally:
        if lock is not None:
            lock.release()


def _copy_pages(source: Path, target: Path) -> dict[str, int]:
    with (
        closing(sqlite3.connect(f"{source.absolute().as_uri()}?mode=ro", uri=True)) as old,
        closing(sqlite3.connect(target)) as new,
    ):
        old.backup(new)
        pages: int = new.execute("PRAGMA page_count").fetchone()[0]
    return {"pages": pages}


def _write_zip(url: str, part: Path) -> dict[str, int]:
    engine = reading_engine(url)
    rows: dict[str, int] = {}
    try:
        # One transaction: all tables as of one moment.
        with (
            engine.connect().execution_options(
                **({"isolation_level": "REPEATABLE READ"} if engine.name == "postgresql" else {})
            ) as connection,
            zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        ):
            if engine.name == "postgresql":
                connection.execute(sa.text("SET LOCAL statement_timeout = 0"))
            revision = migrate.revision(connection)
            if revision != migrate.head():
                raise StoreError(
                    f"the database has schema {revision or 'none'} where {migrate.head()} is due"
                )
            for table in metadata.sorted_tables:
                with archive.open(f"{table.name}.jsonl", "w", force_zip64=True) as member:
                    rows[table.name] = 0
                    for line in _lines(connection, table):
                        member.write(line)
                        rows[table.name] += 1
            manifest = {"form": _FORM, "schema": revision, "rows": rows}
            archive.writestr("manifest.json", json.dumps(manifest, indent=1))
    finally:
        engine.dispose()
    return rows


def _lines(connection: sa.Connection, table: sa.Table) -> Iterator[bytes]:
    """The rows by primary key, a page at a time."""
    keys = tuple(table.primary_key.columns)
    last: tuple[Any, ...] | None = None
    while True:
        asked = sa.select(table).order_by(*keys).limit(_PAGE)
        if last is not None:
            asked = asked.where(sa.tuple_(*keys) > sa.tuple_(*map(sa.literal, last)))
        page = connection.execute(asked).mappings().all()
        for row in page:
            body = {name: _plain(value) for name, value in row.items()}
            yield json.dumps(body, separators=(",", ":")).encode() + b"\n"
        if len(page) < _PAGE:
            return
        last = tuple(page[-1][key.name] for key in keys)


def _plain(value: Any) -> Any:
    return {"$b": base64.b64encode(value).decode()} if isinstance(value, bytes) else value


def _back(value: Any) -> Any:
    return base64.b64decode(value["$b"]) if isinstance(value, dict) else value


def _fill(url: str, archive: Path | None) -> dict[str, int]:
    engine = writing_engine(url)
    try:
        with engine.begin() as connection:
            if archive is not None:
                _read_zip(connection, archive)
            migrate.upgrade_on(connection)
            connection.execute(
                sa.text("UPDATE mode SET mode = 'observe' WHERE mode IN ('auto', 'advise')")
            )
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


def _read_zip(connection: sa.Connection, file: Path) -> None:
    """Make the schema that the copy has, and fill it."""
    try:
        with zipfile.ZipFile(file) as archive:
            manifest = json.loads(archive.read("manifest.json"))
            if manifest["form"] != _FORM:
                raise StoreError(f"{file} is a backup of another form: {manifest['form']}")
            if sa.inspect(connection).get_table_names():
                raise StoreError("the database is not empty; restore into a new one")
            migrate.require_known(manifest["schema"])
            migrate.upgrade_on(connection, manifest["schema"])
            found = sa.MetaData()
            found.reflect(connection)
            for name, expected in manifest["rows"].items():
                _read_table(connection, archive, found.tables[name], int(expected))
    except (zipfile.BadZipFile, KeyError, ValueError, TypeError, EOFError) as error:
        raise StoreCorrupt(f"{file} is no whole backup: {error}") from error


def _read_table(
    connection: sa.Connection, archive: zipfile.ZipFile, table: sa.Table, expected: int
) -> None:
    rows: list[dict[str, Any]] = []
    seen = 0
    with archive.open(f"{table.name}.jsonl") as member:
        for line in member:
            rows.append({name: _back(value) for name, value in json.loads(line).items()})
            seen += 1
            if len(rows) == _PAGE:
                connection.execute(sa.insert(table), rows)
                rows = []
    if rows:
        connection.execute(sa.insert(table), rows)
    if seen != expected:
        raise StoreCorrupt(f"{table.name}: {seen} rows where {expected} are due")
    if connection.dialect.name == "postgresql" and "id" in table.c and seen:
        owned = sa.select(sa.func.pg_get_serial_sequence(table.name, "id")).scalar_subquery()
        if connection.execute(sa.select(owned)).scalar_one() is not None:
            highest = sa.select(sa.func.max(table.c.id)).scalar_subquery()
            connection.execute(sa.select(sa.func.setval(owned, highest)))
