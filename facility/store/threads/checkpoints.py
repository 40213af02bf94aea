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


#: Indices that were looked into, by device and inode. Closing any descriptor of a file takes away
#: every lock that this process has on it (fcntl(2)), SQLite's own too; the next program to open
#: the database then takes it for abandoned and cuts the index off under us. So a descriptor is
#: closed only once its file is gone.
_held: Final[dict[tuple[int, int], int]] = {}
_holding: Final = threading.Lock()


def waiting_pages(file: Path) -> int:
    """Pages of a file's log that are not in the file yet; 0 without a log."""
    with _holding:
        try:
            data = os.pread(_index_of(file), _INDEX.size, 0)
        except OSError:
            return 0
    if len(data) < _INDEX.size:
        return 0
    logged: int
    written_back: int
    logged, written_back = _INDEX.unpack(data)
    return max(logged - written_back, 0)


def _index_of(file: Path) -> int:
    """A descriptor of the log's index, which stays open.

    Raises:
        OSError: there is no log.
    """
    for key, fd in list(_held.items()):
        if os.fstat(fd).st_nlink == 0:
            os.close(_held.pop(key))
    path = file.with_name(file.name + "-shm")
    there = path.stat()
    held = _held.get((there.st_dev, there.st_ino))
    if held is not None:
        return held
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    opened = os.fstat(fd)
    # Where the file was made anew just now, the key is that of what was opened.
    return _held.setdefault((opened.st_dev, opened.st_ino), fd)


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
