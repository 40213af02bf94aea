"""A reader of remote-write requests, written from the protocol's description alone."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import cramjam

Series = dict[tuple[tuple[str, str], ...], list[tuple[int, bytes]]]
STALE = struct.pack("<Q", 0x7FF0000000000002)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return number, at


def _fields(data: bytes) -> Iterator[tuple[int, int, bytes | int]]:
    """(field number, wire type, value)."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        kind = tag & 7
        if kind == 0:
            value, at = _varint(data, at)
            yield tag >> 3, kind, value
        elif kind == 1:
            yield tag >> 3, kind, data[at : at + 8]
            at += 8
        elif kind == 2:
            length, at = _varint(data, at)
            assert at + length <= len(data)
            yield tag >> 3, kind, data[at : at + length]
            at += length
        else:
            raise AssertionError(f"wire type {kind}")


def _inner(value: bytes | int) -> bytes:
    assert isinstance(value, bytes)
    return value


def read(body: bytes) -> Series:
    """Sorted labels -> [(ms, the eight bytes of the value)]; checks what the protocol demands."""
    found: Series = {}
    for number, _, message in _fields(bytes(cramjam.snappy.decompress_raw(body))):
        assert number == 1
        labels: list[tuple[str, str]] = []
        samples: list[tuple[int, bytes]] = []
        for part, _, inner in _fields(_inner(message)):
            fields = {n: v for n, _, v in _fields(_inner(inner))}
            if part == 1:
                labels.append((_inner(fields[1]).decode(), _inner(fields[2]).decode()))
            else:
                ms = fields[2]
                assert isinstance(ms, int)
                samples.append((ms, _inner(fields[1])))
        assert labels == sorted(labels)
        assert len(dict(labels)) == len(labels)
        assert all(name and value for name, value in labels)
        assert [ms for ms, _ in samples] == sorted({ms for ms, _ in samples})
        assert tuple(labels) not in found, "one series stands once in a request"
        found[tuple(labels)] = samples
    return found


def number(raw: bytes) -> float:
    value: float = struct.unpack("<d", raw)[0]
    return value
