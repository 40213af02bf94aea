"""A local append-only file for what must not be lost while the database is away.

One line per entry: eight hex digits of CRC-32, a space, compact JSON `{"kind": …, "body": …}`.
Each append is on the disk (fsync) before it returns. A line that kill -9 or a full disk cut off
is recognised by its checksum and left out; entries after it still count.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from facility.store.rows.as_json import dumps, loads


class Spill:
    """The entries of one file; the file exists only while there are any.

    Attributes:
        damaged: lines that were there but could not be read, at the last `entries`.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.damaged = 0
        self._count = len(self.entries())

    def __len__(self) -> int:
        return self._count

    def append(self, kind: str, body: Mapping[str, Any]) -> None:
        """Write one entry durably.

        Raises:
            OSError: the disk is full or gone.
        """
        text = dumps({"kind": kind, "body": body}).encode()
        new = not self.path.exists()
        fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            line = b"%08x %s\n" % (zlib.crc32(text), text)
            size = os.fstat(fd).st_size
            if size and os.pread(fd, 1, size - 1) != b"\n":
                line = b"\n" + line
            rest = memoryview(line)
            while rest:
                rest = rest[os.write(fd, rest) :]
            os.fsync(fd)
        finally:
            os.close(fd)
        if new:
            self._sync_folder()
        self._count += 1

    def entries(self) -> list[tuple[str, dict[str, Any]]]:
        """(kind, body) in the order written; damaged lines are counted and left out."""
        try:
            lines = self.path.read_bytes().splitlines()
        except FileNotFoundError:
            lines = []
        found = []
        self.damaged = 0
        for line in filter(None, lines):
            entry = _parse(line)
            if entry is None:
                self.damaged += 1
            else:
                found.append(entry)
        return found

    def clear(self) -> None:
        """Forget all entries, once they stand in the database."""
        self.path.unlink(missing_ok=True)
        self._sync_folder()
        self._count = 0

    def set_aside(self) -> Path:
        """Keep the file under another name, for people to look at; returns that name."""
        kept = self.path.with_name(self.path.name + ".refused")
        with kept.open("ab") as stream:
            stream.write(self.path.read_bytes())
            stream.flush()
            os.fsync(stream.fileno())
        self.clear()
        return kept

    def _sync_folder(self) -> None:
        fd = os.open(self.path.parent, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def _parse(line: bytes) -> tuple[str, dict[str, Any]] | None:
    digits, _, text = line.partition(b" ")
    try:
        if len(digits) != 8 or int(digits, 16) != zlib.crc32(text):
            return None
        entry = loads(text)
        return str(entry["kind"]), dict(entry["body"])
    except (ValueError, KeyError, TypeError):
        return None
