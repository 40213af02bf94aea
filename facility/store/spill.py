"""A local append-only file for what must not be lost while the database is away.

One line per entry: eight hex digits of CRC-32, a space, compact JSON `{"kind": …, "body": …}`.
Each append is on the disk (fsync) before it returns. A line that kill -9 or a full disk cut off
is recognised by its checksum and left out; entries after it still count.
"""

from __future__ import annotations

import os
import threading
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from facility.store.rows.as_json import dumps, loads


class Spill:
    """The entries of one file; the file exists only while there are any.

    Several threads may append while another reads and clears: `clear` and `set_aside` take away
    what the last `entries` saw, and keep what came after.

    Attributes:
        damaged: lines that were there but could not be read, at the last `entries`.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.damaged = 0
        self._seen_bytes = 0
        self._turn = threading.RLock()
        self._count = len(self.entries())

    def __len__(self) -> int:
        return self._count

    def append(self, kind: str, body: Mapping[str, Any]) -> None:
        """Write one entry durably.

        Raises:
            OSError: the disk is full or gone.
        """
        text = dumps({"kind": kind, "body": body}).encode()
        with self._turn:
            new = not self.path.exists()
            fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            try:
                line = b"%08x %s\n" % (zlib.crc32(text), text)
                size = os.fstat(fd).st_size
                if size and os.pread(fd, 1, size - 1) != b"\n":
                    line = b"\n" + line
                _write_all(fd, line)
            finally:
                os.close(fd)
            if new:
                self._sync_folder()
            self._count += 1

    def entries(self) -> list[tuple[str, dict[str, Any]]]:
        """(kind, body) in the order written; damaged lines are counted and left out."""
        with self._turn:
            data = self._bytes()
            self._seen_bytes = len(data)
        found, self.damaged = _parse_all(data)
        return found

    def clear(self) -> None:
        """Forget what `entries` saw, once it stands in the database."""
        with self._turn:
            rest = self._bytes()[self._seen_bytes :]
            if rest:
                part = self.path.with_name(self.path.name + ".part")
                fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
                try:
                    _write_all(fd, rest)
                finally:
                    os.close(fd)
                part.rename(self.path)
            else:
                self.path.unlink(missing_ok=True)
            self._sync_folder()
            self._seen_bytes = 0
            self._count = len(_parse_all(rest)[0])

    def set_aside(self) -> Path:
        """Keep what `entries` saw in another file, for people to look at; returns its name."""
        kept = self.path.with_name(self.path.name + ".refused")
        with self._turn:
            seen = self._bytes()[: self._seen_bytes]
            fd = os.open(kept, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            try:
                _write_all(fd, seen)
            finally:
                os.close(fd)
            self.clear()
        return kept

    def _bytes(self) -> bytes:
        try:
            return self.path.read_bytes()
        except FileNotFoundError:
            return b""

    def _sync_folder(self) -> None:
        fd = os.open(self.path.parent, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def _write_all(fd: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]
    os.fsync(fd)


def _parse_all(data: bytes) -> tuple[list[tuple[str, dict[str, Any]]], int]:
    """The entries, and the number of lines that are none."""
    lines = [line for line in data.split(b"\n") if line]
    parsed = [_parse(line) for line in lines]
    found = [entry for entry in parsed if entry is not None]
    return found, len(lines) - len(found)


def _parse(line: bytes) -> tuple[str, dict[str, Any]] | None:
    digits, _, text = line.partition(b" ")
    try:
        if len(digits) != 8 or int(digits, 16) != zlib.crc32(text):
            return None
        entry = loads(text)
        return str(entry["kind"]), dict(entry["body"])
    except (ValueError, KeyError, TypeError):
        return None
