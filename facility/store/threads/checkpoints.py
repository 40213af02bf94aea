"""Writing SQLite's log back into the file, beside the writer.

A checkpoint of 16 MiB takes a disk tens of milliseconds. Inside a commit, which is where SQLite
does it by itself, somebody's write waits for that; a passive checkpoint of another connection
keeps nobody waiting. Whatever happens to this thread, the log stays bounded: the writer does it
itself where four times as much stands in it.
"""

from __future__ import annotations

import os
import sqlite3
import struct
import threading
from contextlib import suppress
from pathlib import Path
from typing import Final

import sqlalchemy as sa
import structlog

_log = structlog.get_logger(__name__)

#: The log is written back once so many of its pages are not (16 MiB): a page that many
#: transactions change is then written to the file once.
PAGES: Final = 4_000
#: The writer's own bound.
WRITERS_PAGES: Final = 4 * PAGES

#: The index of the log (sqlite.org/walformat.html, 2.1): how many pages stand in the log, and how
#: many of them are in the file already, in the machine's own byte order.
_INDEX: Final = struct.Struct("=16xI76xI")


def waiting_pages(file: Path) -> int:
    """Pages of a file's log that are not in the file yet; 0 without a log."""
    try:
        fd = os.open(file.with_name(file.name + "-shm"), os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return 0
    try:
        data = os.pread(fd, _INDEX.size, 0)
    finally:
        os.close(fd)
    if len(data) < _INDEX.size:
        return 0
    logged: int
    written_back: int
    logged, written_back = _INDEX.unpack(data)
    return max(logged - written_back, 0)


class Checkpoints:
    """A thread that writes the log back when it is long.

    Args:
        file: of the database, which is open already.
        engine: of the writer; its connections take to their own, wider bound.
    """

    def __init__(self, file: Path, engine: sa.Engine) -> None:
        self._file = file
        self._wake = threading.Condition()
        self._asked = False
        self._closing = False
        sa.event.listen(engine, "connect", _leave_it_to_us)
        engine.dispose()
        self._thread = threading.Thread(target=self._run, name="store-checkpoints", daemon=True)
        self._thread.start()

    def committed(self) -> None:
        """Something was written: look whether the log is long. Never waits."""
        with self._wake:
            self._asked = True
            self._wake.notify()

    def close(self) -> None:
        """Stop, after the checkpoint that is under way."""
        with self._wake:
            self._closing = True
            self._wake.notify()
        self._thread.join()

    def _run(self) -> None:
        while True:
            with self._wake:
                while not (self._asked or self._closing):
                    self._wake.wait()
                if self._closing:
                    return
                self._asked = False
            try:
                if waiting_pages(self._file) >= PAGES:
                    self._write_back()
            except (OSError, sqlite3.Error) as error:
                # The writer meets the same disk, and says what has to be said.
                _log.warning("checkpoint_failed", error=str(error))

    def _write_back(self) -> None:
        connection = sqlite3.connect(self._file.absolute().as_uri() + "?mode=rw", uri=True)
        try:
            connection.execute("PRAGMA synchronous=FULL")
            connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
            # What came meanwhile is little; with it the log may begin again at its start.
            connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        finally:
            with suppress(sqlite3.Error):
                connection.close()


def _leave_it_to_us(dbapi_connection: sqlite3.Connection, _record: object) -> None:
    dbapi_connection.execute(f"PRAGMA wal_autocheckpoint={WRITERS_PAGES}")
