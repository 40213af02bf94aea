"""Making a copy, while the store is in use."""

from __future__ import annotations

import base64
import hashlib
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
from facility.store.backup import inventory
from facility.store.backup.form import FORM, PAGE
from facility.store.engine import check_sqlite_file, in_memory, reading_engine, sqlite_file
from facility.store.errors import StoreError
from facility.store.rows import audit
from facility.store.rows.meta import SECRET_KEYS
from facility.store.rows.tables import metadata, site_meta

#: Rows of the first page, and about how many bytes the pages after it have: a chunk may be of
#: megabytes, an acknowledgement of a hundred bytes.
_FIRST_PAGE: Final = 16
_PAGE_BYTES: Final = 16 << 20


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
            done = copy_pages(source, part)
            _forget_secrets(part)
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


def _forget_secrets(file: Path) -> None:
    """Overwrite what a copy must not hold."""
    with closing(sqlite3.connect(file)) as copy:
        copy.execute("PRAGMA secure_delete=ON")
        there = copy.execute("SELECT 1 FROM sqlite_master WHERE name = 'site_meta'").fetchone()
        if there:
            copy.executemany("DELETE FROM site_meta WHERE key = ?", [(k,) for k in SECRET_KEYS])
            copy.commit()


def copy_pages(source: Path, target: Path) -> dict[str, int]:
    """Copy a SQLite file as of one moment, whoever writes to it meanwhile."""
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
    hashes: dict[str, str] = {}
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
                    digest = hashlib.sha256()
                    for line in _lines(connection, table):
                        member.write(line)
                        digest.update(line)
                        rows[table.name] += 1
                hashes[table.name] = digest.hexdigest()
            for name, text in inventory.members(connection):
                archive.writestr(name, text)
            head = audit.head(connection)
            manifest = {
                "form": FORM,
                "schema": revision,
                "audit_head": head,
                "rows": rows,
                "sha256": hashes,
            }
            archive.writestr("manifest.json", json.dumps(manifest, indent=1))
    finally:
        engine.dispose()
    return rows


def _lines(connection: sa.Connection, table: sa.Table) -> Iterator[bytes]:
    """The rows by primary key, a page at a time; by their size so far many or few."""
    keys = tuple(table.primary_key.columns)
    last: tuple[Any, ...] | None = None
    size = _FIRST_PAGE
    while True:
        asked = sa.select(table).order_by(*keys).limit(size)
        if table is site_meta:
            asked = asked.where(site_meta.c.key.not_in(SECRET_KEYS))
        if last is not None:
            asked = asked.where(sa.tuple_(*keys) > sa.tuple_(*map(sa.literal, last)))
        page = connection.execute(asked).mappings().all()
        held = 1
        for row in page:
            body = {name: _plain(value) for name, value in row.items()}
            line = json.dumps(body, separators=(",", ":")).encode() + b"\n"
            held += len(line)
            yield line
        if len(page) < size:
            return
        size = max(min(size * _PAGE_BYTES // held, 8 * size, PAGE), 1)
        last = tuple(page[-1][key.name] for key in keys)


def _plain(value: Any) -> Any:
    return {"$b": base64.b64encode(value).decode()} if isinstance(value, bytes) else value
