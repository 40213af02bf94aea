"""Requests on their way to a receiver, on disk: in order, bounded, checksummed.

A folder of segments, `000000000001.seg` and so on, each a row of records; the oldest go out
first, a segment that was sent is deleted. A record is

    magic `WKs1` | body length u32 | samples u32 | first_ms i64 | CRC-32 of body | of header

little-endian, then the body. `sent` holds how far the oldest segment was sent. It is written
after each answer but not forced to the disk: after a power cut a few requests go out twice, none
is lost. At the bound the oldest segment goes, and is counted. A record that does not add up (a
torn tail, a flipped bit) is counted and left out; the next one begins at the next whole header.
"""

from __future__ import annotations

import os
import struct
import threading
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import structlog

from facility.store.engine import FileLock
from facility.store.errors import StoreError
from facility.store.remote.encode import Request

_log = structlog.get_logger(__name__)

_MAGIC: Final = b"WKs1"
_HEADER: Final = struct.Struct("<4sIIqII")
_PLACE: Final = struct.Struct("<QQI")
_LARGEST_SEGMENT: Final = 8 << 20
#: No request of ours comes near; a length beyond it is damage.
_LARGEST_BODY: Final = 64 << 20
LEAST_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Record:
    """One request that waits.

    Attributes:
        body: as it is sent.
        samples: in it.
        first_ms: of its oldest sample.
        segment, end: where the next record begins.
    """

    body: bytes
    samples: int
    first_ms: int
    segment: int
    end: int


class Spool:
    """The segments of one folder; one process at a time, any thread.

    Args:
        folder: made if it is not there.
        most_bytes: bound of all segments together.

    Attributes:
        dropped_samples: lost to the bound since opening.
        damaged: records left out since opening because they did not add up.

    Raises:
        StoreLocked: another process has this folder.
        StoreError: the folder cannot be made or read.
    """

    def __init__(self, folder: Path, most_bytes: int) -> None:
        self._folder = folder
        self._most_bytes = max(most_bytes, LEAST_BYTES)
        self._segment_bytes = min(_LARGEST_SEGMENT, self._most_bytes // 8)
        self._turn = threading.RLock()
        self.dropped_samples = 0
        self.damaged = 0
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise StoreError(f"no spool in {folder}: {error.strerror}") from error
        self._reading, self._offset = 0, 0
        self._lock = FileLock(folder / "spool")
        self._lock.acquire()
        try:
            self._sizes = {int(f.stem): f.stat().st_size for f in folder.glob("*.seg")}
        except (OSError, ValueError) as error:
            self._lock.release()
            raise StoreError(f"the spool in {folder} cannot be read: {error}") from error
        self._fd: int | None = None
        placed = self._read_place()
        self._reading, self._offset = self._start(*placed)
        # Never append behind a tail that a crash may have torn, nor under a number that `sent`
        # may tell of.
        self._writing = max([*self._sizes, placed[0]]) + 1

    @property
    def waiting_bytes(self) -> int:
        """On disk and not sent."""
        with self._turn:
            return max(sum(self._sizes.values()) - self._offset, 0)

    def append(self, requests: Iterable[Request]) -> None:
        """Write requests durably; all of them or none.

        Raises:
            OSError: the disk is full or gone; nothing of them will be sent.
        """
        rows = b"".join(_row(request) for request in requests)
        if not rows:
            return
        with self._turn:
            size = self._sizes.get(self._writing, 0)
            if size and size + len(rows) > self._segment_bytes:
                self._turn_page()
                size = 0
            self._make_room(len(rows))
            fd = self._open()
            try:
                rest = memoryview(rows)
                while rest:
                    rest = rest[os.write(fd, rest) :]
                os.fdatasync(fd)
            except OSError:
                os.ftruncate(fd, size)
                raise
            self._sizes[self._writing] = size + len(rows)

    def first(self) -> Record | None:
        """The oldest request that waits; None when all are sent.

        Raises:
            OSError: the disk is gone.
        """
        with self._turn:
            while self._sizes:
                oldest = min(self._sizes)
                if oldest != self._reading:
                    self._reading, self._offset = oldest, 0
                found = self._read(oldest)
                if found is not None:
                    return found
                if oldest == self._writing:
                    return None
                self._forget(oldest)
            return None

    def done(self, record: Record) -> None:
        """It was sent, or refused for good: go on behind it.

        Raises:
            OSError: the disk is gone; it will be sent again after a restart.
        """
        with self._turn:
            if record.segment != self._reading or record.end <= self._offset:
                return  # dropped meanwhile
            self._offset = record.end
            if record.segment != self._writing and record.end >= self._sizes[record.segment]:
                self._forget(record.segment)
            self._write_place(record.segment, record.end)

    def close(self) -> None:
        """Let go of the folder; what waits stays there."""
        with self._turn:
            self._turn_page()
            self._lock.release()

    # ---- segments ------------------------------------------------------------------------------

    def _path(self, segment: int) -> Path:
        return self._folder / f"{segment:012d}.seg"

    def _open(self) -> int:
        if self._fd is None:
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            self._fd = os.open(self._path(self._writing), flags, 0o600)
            self._sizes.setdefault(self._writing, 0)
            folder = os.open(self._folder, os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        return self._fd

    def _turn_page(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
            self._writing += 1

    def _make_room(self, wanted: int) -> None:
        """Drop the oldest segments until the bound holds; at most all of them."""
        while self._sizes and sum(self._sizes.values()) + wanted > self._most_bytes:
            oldest = min(self._sizes)
            if oldest == self._writing:
                self._turn_page()
            if oldest != self._reading:
                self._reading, self._offset = oldest, 0
            lost = 0
            while (record := self._read(oldest)) is not None:
                lost += record.samples
                self._offset = record.end
            self.dropped_samples += lost
            _log.warning("remote_spool_full", dropped_samples=lost)
            self._forget(oldest)

    def _forget(self, segment: int) -> None:
        self._path(segment).unlink(missing_ok=True)
        self._sizes.pop(segment, None)
        if segment == self._reading:
            self._reading, self._offset = 0, 0

    def _read(self, segment: int) -> Record | None:
        """The next whole record from the present offset on; None at the end."""
        size = self._sizes[segment]
        try:
            fd = os.open(self._path(segment), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            self.damaged += 1
            self._offset = size
            return None
        try:
            found = _record_at(fd, segment, self._offset, size)
            if found is not None or self._offset >= size:
                return found
            self.damaged += 1
            data = os.pread(fd, size - self._offset, self._offset)
            at = data.find(_MAGIC, 1)
            while at >= 0:
                found = _record_at(fd, segment, self._offset + at, size)
                if found is not None:
                    self._offset += at
                    return found
                at = data.find(_MAGIC, at + 1)
            self._offset = size
            return None
        finally:
            os.close(fd)

    # ---- how far it was sent -------------------------------------------------------------------

    def _read_place(self) -> tuple[int, int]:
        """(segment, offset) as last written; (0, 0) without."""
        try:
            data = (self._folder / "sent").read_bytes()
            segment, offset, crc = _PLACE.unpack(data)
        except (OSError, struct.error):
            return 0, 0
        return (segment, offset) if crc == zlib.crc32(data[:-4]) else (0, 0)

    def _start(self, segment: int, offset: int) -> tuple[int, int]:
        """Where to go on; in doubt at the oldest there is: twice is better than never."""
        for old in [number for number in self._sizes if number < segment]:
            self._forget(old)
        return (segment, offset) if offset <= self._sizes.get(segment, -1) else (0, 0)

    def _write_place(self, segment: int, offset: int) -> None:
        place = struct.pack("<QQ", segment, offset)
        part = self._folder / "sent.part"
        part.write_bytes(place + struct.pack("<I", zlib.crc32(place)))
        part.rename(self._folder / "sent")


def _row(request: Request) -> bytes:
    start = struct.pack(
        "<4sIIqI",
        _MAGIC,
        len(request.body),
        request.samples,
        request.first_ms,
        zlib.crc32(request.body),
    )
    return start + struct.pack("<I", zlib.crc32(start)) + request.body


def _record_at(fd: int, segment: int, offset: int, size: int) -> Record | None:
    """The record that begins here, if it is whole."""
    head = os.pread(fd, _HEADER.size, offset)
    if len(head) < _HEADER.size:
        return None
    magic, length, samples, first_ms, crc, own = _HEADER.unpack(head)
    end = offset + _HEADER.size + length
    if magic != _MAGIC or own != zlib.crc32(head[:-4]) or length > _LARGEST_BODY or end > size:
        return None
    body = os.pread(fd, length, offset + _HEADER.size)
    if len(body) != length or zlib.crc32(body) != crc:
        return None
    return Record(body, samples, first_ms, segment, end)
