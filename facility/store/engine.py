"""Connections to SQLite and PostgreSQL, and what is checked before one is used.

SQLite: WAL with synchronous=FULL, so that what is committed survives kill -9 and power loss;
writers begin with BEGIN IMMEDIATE (no upgrade of a read lock, no deadlock). PostgreSQL: psycopg 3
with short timeouts, because a control cycle must not hang on a database.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy import event, exc
from sqlalchemy.engine import URL, make_url
from sqlalchemy.pool import StaticPool

from facility.store.errors import StoreCorrupt, StoreError, StoreLocked

_BUSY_MS: Final = 2_000
_WRITE_TIMEOUT_MS: Final = 5_000
_READ_TIMEOUT_MS: Final = 20_000
_CONNECT_TIMEOUT_S: Final = 3
_SQLITE_MAGIC: Final = b"SQLite format 3\x00"
#: Reading every page of a larger file at each start would delay control for too long.
_FULL_CHECK_BYTES: Final = 64 * 1024 * 1024


def parse_url(url: str | URL) -> URL:
    """The URL with its driver stated.

    Raises:
        StoreError: not a URL, or of a database that is not supported.
    """
    try:
        parsed = make_url(url)
    except exc.ArgumentError:
        raise StoreError(
            "the store's URL cannot be read; write sqlite:///FILE or postgresql://HOST/NAME"
        ) from None
    name = parsed.get_backend_name()
    if name == "postgresql":
        return parsed.set(drivername="postgresql+psycopg")
    if name == "sqlite":
        return parsed.set(drivername="sqlite+pysqlite")
    raise StoreError(f"no store on {name}; use sqlite or postgresql")


def sqlite_file(url: str | URL) -> Path | None:
    """The file of a SQLite URL; None for memory and for other databases."""
    parsed = parse_url(url)
    if parsed.get_backend_name() != "sqlite" or parsed.database in (None, "", ":memory:"):
        return None
    return Path(str(parsed.database))


def in_memory(url: str | URL) -> bool:
    """Whether the URL is of a SQLite database that dies with its connection."""
    return parse_url(url).get_backend_name() == "sqlite" and sqlite_file(url) is None


def writing_engine(url: str | URL) -> sa.Engine:
    """An engine for the one writer."""
    return _engine(url, reading=False)


def reading_engine(url: str | URL) -> sa.Engine:
    """An engine whose connections refuse to write."""
    return _engine(url, reading=True)


def _engine(url: str | URL, *, reading: bool) -> sa.Engine:
    parsed = parse_url(url)
    if parsed.get_backend_name() == "postgresql":
        timeout_ms = _READ_TIMEOUT_MS if reading else _WRITE_TIMEOUT_MS
        read_only = " -c default_transaction_read_only=on" if reading else ""
        return sa.create_engine(
            parsed,
            pool_size=2,
            max_overflow=2,
            pool_pre_ping=True,
            # A reader sees one moment: an hour is either raw or a chunk, never neither nor both.
            isolation_level="REPEATABLE READ" if reading else "READ COMMITTED",
            connect_args={
                "connect_timeout": _CONNECT_TIMEOUT_S,
                "tcp_user_timeout": timeout_ms,
                "application_name": "wattkeeper",
                "options": f"-c statement_timeout={timeout_ms} -c lock_timeout={_BUSY_MS} "
                f"-c idle_in_transaction_session_timeout={4 * _READ_TIMEOUT_MS}{read_only}",
            },
        )
    options: dict[str, Any] = {
        "connect_args": {"check_same_thread": False, "timeout": _BUSY_MS / 1e3}
    }
    if in_memory(url):
        options["poolclass"] = StaticPool
    engine = sa.create_engine(parsed, **options)
    # BEGIN is ours: pysqlite's own would start late and with a read lock.
    begin = "BEGIN" if reading else "BEGIN IMMEDIATE"
    place = None if reading else _Place(sqlite_file(url))

    @event.listens_for(engine, "connect")
    def prepare(dbapi_connection: Any, _record: Any) -> None:
        dbapi_connection.isolation_level = None
        cursor = dbapi_connection.cursor()
        if reading:
            cursor.execute("PRAGMA query_only=ON")
        else:
            # Of a new file; an older one is turned to it by `migrate.upgrade`.
            cursor.execute("PRAGMA auto_vacuum=INCREMENTAL")
            cursor.execute("PRAGMA journal_mode=WAL")
            cursor.execute("PRAGMA synchronous=FULL")
            # The log is written back after this many pages (16 MiB): a page that many
            # transactions change is then written to the file once.
            cursor.execute("PRAGMA wal_autocheckpoint=4000")
            cursor.execute("PRAGMA cache_size=-65536")
            cursor.execute("PRAGMA journal_size_limit=67108864")
        if place is not None:
            place.remember()
        cursor.execute("PRAGMA foreign_keys=ON")
        cursor.close()

    @event.listens_for(engine, "begin")
    def start(connection: sa.Connection) -> None:
        if place is not None:
            place.check()
        connection.exec_driver_sql(begin)

    return engine


class _Place:
    """Whether the file that is written to is still the one at its path.

    SQLite writes happily to a file that somebody deleted or moved; all of it would be gone at the
    next start.
    """

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._first: tuple[int, int] | None = None

    def _now(self) -> tuple[int, int] | None:
        if self._file is None:
            return None
        try:
            found = self._file.stat()
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def remember(self) -> None:
        """The file at the first connection is the one."""
        if self._first is None:
            self._first = self._now()

    def check(self) -> None:
        """Refuse to write elsewhere.

        Raises:
            OperationalError: the file is gone or another; an outage until it is back.
        """
        if self._first is not None and self._now() != self._first:
            words = f"{self._file} was moved, deleted or replaced; put it back, or restart"
            raise exc.OperationalError("BEGIN", None, sqlite3.OperationalError(words))


def is_outage(error: BaseException) -> bool:
    """Whether an error says that the database is away, and not that the statement is wrong."""
    if isinstance(error, exc.TimeoutError):
        return True
    if not isinstance(error, exc.DBAPIError):
        return False
    if getattr(error.orig, "sqlite_errorcode", None) == sqlite3.SQLITE_ERROR:
        return False  # a wrong statement, which sqlite3 also calls "operational"
    wrong = (exc.IntegrityError, exc.ProgrammingError, exc.DataError, exc.NotSupportedError)
    return error.connection_invalidated or not isinstance(error, wrong)


class FileLock:
    """The right to write to one SQLite file, held through `FILE.lock` until released.

    The kernel gives it back when the process dies, however it dies.
    """

    def __init__(self, file: Path) -> None:
        self._path = file.with_name(file.name + ".lock")
        self._fd: int | None = None

    def acquire(self) -> None:
        """Take it.

        Raises:
            StoreLocked: somebody else has it.
            StoreError: the folder cannot be written.
        """
        try:
            fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StoreError(f"cannot lock {self._path}: {error.strerror}") from error
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            owner = os.read(fd, 32).decode(errors="replace").strip() or "unknown"
            os.close(fd)
            raise StoreLocked(
                f"{self._path.with_suffix('')} is written by another process (pid {owner}); "
                "stop it first, or give this one a store of its own"
            ) from None
        os.ftruncate(fd, 0)
        os.write(fd, f"{os.getpid()}\n".encode())
        self._fd = fd

    def release(self) -> None:
        """Give it back; the file stays, so that nobody can lock a file just deleted."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


def check_sqlite_file(file: Path, *, every_page: bool = False) -> None:
    """Refuse a damaged file before anything is written to it.

    The inside of a file above 64 MiB is looked at only where `every_page` asks for it.

    Raises:
        StoreCorrupt: empty, cut short, of another format, or damaged inside.
    """
    if not file.exists():
        return
    size = file.stat().st_size
    advice = "restore a backup, or move it away to start a new one"
    with file.open("rb") as stream:
        head = stream.read(100)
    if not head:
        raise StoreCorrupt(
            f"{file} exists but is empty: it was cut off, or is no database; {advice}"
        )
    if len(head) < 100 or not head.startswith(_SQLITE_MAGIC):
        raise StoreCorrupt(f"{file} is no SQLite database; {advice}")
    page = int.from_bytes(head[16:18], "big")
    page = 65536 if page == 1 else page
    pages = int.from_bytes(head[28:32], "big")
    wal = file.with_name(file.name + "-wal")
    # With a WAL a crash may have come between the header and the last page; SQLite mends that.
    if size < page * pages and not (wal.exists() and wal.stat().st_size > 0):
        raise StoreCorrupt(
            f"{file} has {size} bytes where {page * pages} are due: cut off; {advice}"
        )
    if every_page or size <= _FULL_CHECK_BYTES:
        _check_pages(file, advice)


def _check_pages(file: Path, advice: str) -> None:
    engine = reading_engine(URL.create("sqlite", database=str(file)))
    try:
        with engine.connect() as connection:
            answer = connection.exec_driver_sql("PRAGMA quick_check(1)").scalar_one()
    except exc.DatabaseError as error:
        raise StoreCorrupt(f"{file} cannot be read ({error.orig}); {advice}") from error
    finally:
        engine.dispose()
    if answer != "ok":
        raise StoreCorrupt(f"{file} is damaged ({answer}); {advice}")
