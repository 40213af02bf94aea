"""The schema's versions: bring a database to ours, compare it with the code, refuse strangers.

The migrations stand in `facility/migrations` in the wheel and in `alembic/` in a checkout; no
alembic.ini is needed.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Final

import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from facility.store.engine import (
    FileLock,
    check_sqlite_file,
    is_outage,
    reading_engine,
    sqlite_file,
    writing_engine,
)
from facility.store.errors import SchemaMismatch, StoreCorrupt, StoreError, StoreUnavailable
from facility.store.rows.partitions import is_partition
from facility.store.rows.tables import metadata

#: Any number, always the same: two processes that upgrade one PostgreSQL take turns.
_UPGRADE_LOCK: Final = 0x57A77C3E
_INCREMENTAL: Final = 2


def scripts() -> Path:
    """The folder of the migrations.

    Raises:
        StoreError: an installation without them.
    """
    package = Path(__file__).resolve().parent.parent
    for folder in (package / "migrations", package.parent / "alembic"):
        if (folder / "env.py").is_file():
            return folder
    raise StoreError("this installation has no migrations")


def _config(connection: sa.Connection | None = None) -> Config:
    config = Config()
    config.set_main_option("script_location", str(scripts()).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    return config


@cache
def head() -> str:
    """The revision that this program expects."""
    found = ScriptDirectory.from_config(_config()).get_current_head()
    if found is None:
        raise StoreError("this installation has no migrations")
    return found


@cache
def _known() -> frozenset[str]:
    return frozenset(r.revision for r in ScriptDirectory.from_config(_config()).walk_revisions())


def revision(connection: sa.Connection) -> str | None:
    """The database's revision, None if it is empty.

    Raises:
        StoreCorrupt: it holds tables, but not ours.
    """
    current = MigrationContext.configure(connection).get_current_revision()
    tables = set(sa.inspect(connection).get_table_names()) - {"alembic_version"}
    # Other programs number their migrations 0001 too, so the number alone proves nothing.
    if tables and (current is None or metadata.tables.keys().isdisjoint(tables)):
        raise StoreCorrupt(
            f"this database holds other tables ({', '.join(sorted(tables)[:3])}) and none of "
            "Wattkeeper's; give the store a database of its own"
        )
    return current


def require_known(current: str | None) -> None:
    """Refuse a revision that this program has never heard of.

    Raises:
        SchemaMismatch: it has not; a newer Wattkeeper was here.
    """
    if current is not None and current not in _known():
        raise SchemaMismatch(
            f"the database has schema {current}, newer than this program's {head()}; "
            "run the newer Wattkeeper, or restore an older backup into a new database"
        )


def upgrade_on(connection: sa.Connection, target: str = "head") -> None:
    """Bring the database of an open transaction to `target`."""
    if connection.dialect.name == "postgresql":
        connection.execute(sa.text("SELECT pg_advisory_xact_lock(:k)"), {"k": _UPGRADE_LOCK})
    require_known(revision(connection))
    command.upgrade(_config(connection), target)


def downgrade_on(connection: sa.Connection, target: str = "base") -> None:
    """Take the database of an open transaction back to `target`; `base` is empty."""
    require_known(revision(connection))
    command.downgrade(_config(connection), target)


def upgrade(url: str) -> str:
    """Bring the database to this program's schema, all or nothing; returns the revision.

    Raises:
        StoreError: locked, damaged, newer than known, or not to be reached.
    """
    file = sqlite_file(url)
    lock = FileLock(file) if file is not None else None
    if lock is not None:
        lock.acquire()
    try:
        if file is not None:
            check_sqlite_file(file)
        engine = writing_engine(url)
        try:
            with engine.begin() as connection:
                upgrade_on(connection)
            if file is not None:
                _shrinkable(engine)
        except sa.exc.DBAPIError as error:
            raise unreachable(error) from error
        finally:
            engine.dispose()
    finally:
        if lock is not None:
            lock.release()
    return head()


def _shrinkable(engine: sa.Engine) -> None:
    """Let a SQLite file made by the first release give back what it no longer needs."""
    # Past SQLAlchemy, which would begin a transaction; VACUUM wants none.
    with closing(engine.raw_connection()) as connection, closing(connection.cursor()) as cursor:
        cursor.execute("PRAGMA auto_vacuum")
        if cursor.fetchone() != (_INCREMENTAL,):
            try:
                cursor.execute("VACUUM")
            except sqlite3.Error as error:
                raise sa.exc.OperationalError("VACUUM", None, error) from error


def check(url: str) -> list[str]:
    """How the database differs from what the code expects; empty when it does not.

    Raises:
        StoreError: damaged, newer than known, or not to be reached.
    """
    file = sqlite_file(url)
    if file is not None:
        if not file.exists():
            return [f"{file} does not exist"]
        check_sqlite_file(file, every_page=True)
    engine = reading_engine(url)
    try:
        with engine.connect() as connection:
            current = revision(connection)
            require_known(current)
            if current != head():
                return [f"schema {current or 'none'} where {head()} is due: wattkeeper db upgrade"]
            context = MigrationContext.configure(connection, opts={"include_name": _ours})
            return [str(difference) for difference in compare_metadata(context, metadata)]
    except sa.exc.DBAPIError as error:
        raise unreachable(error) from error
    finally:
        engine.dispose()


def _ours(name: str | None, kind: str, _parents: object) -> bool:
    return not (kind == "table" and is_partition(name))


def unreachable(error: sa.exc.DBAPIError) -> StoreError:
    """The error for people: the driver's own words, without the statement or the URL."""
    words = " ".join(str(error.orig).split())
    if is_outage(error):
        return StoreUnavailable(f"the database cannot be used now: {words}")
    return StoreError(f"the database refused: {words}")
