"""The part of BER (X.690) that SNMP uses, read strictly and written shortly.

Reading is done on untrusted datagrams: every length is checked against the bytes that are there,
and nothing is ever padded, guessed or read as 0. `drivers.sim.ber` is written apart from this on
purpose: it answers us in the tests, and two halves of one mistake would agree with each other.
"""

from __future__ import annotations

from typing import Final

Oid = tuple[int, ...]

INTEGER: Final = 0x02
OCTETS: Final = 0x04
NULL: Final = 0x05
OID: Final = 0x06
SEQUENCE: Final = 0x30

#: arcs of a name (RFC 2578 section 3.5) and the largest of them
MAX_ARCS: Final = 128
MAX_ARC: Final = 2**32 - 1


class BerError(ValueError):
    """Bytes that are not what was expected at their place."""


def element(data: bytes, at: int, end: int) -> tuple[int, int, int]:
    """Tag, and first and past-the-end position of the contents, of the element at `at`.

    Raises:
        BerError: it does not fit before `end`, or has a form of length that SNMP never has.
    """
    start = at + 2
    if start > end:
        raise BerError("truncated")
    length = data[at + 1]
    if length & 0x80:
        octets = length & 0x7F
        start += octets
        if not 1 <= octets <= 4 or start > end:
            raise BerError("bad length")
        length = int.from_bytes(data[at + 2 : start], "big")
    stop = start + length
    if stop > end:
        raise BerError("truncated")
    return data[at], start, stop


def expect(data: bytes, at: int, end: int, tag: int) -> tuple[int, int]:
    """First and past-the-end position of the contents of an element that has to have this tag.

    Raises:
        BerError: it has not, or does not fit.
    """
    found, start, stop = element(data, at, end)
    if found != tag:
        raise BerError(f"tag {found:#04x} where {tag:#04x} belongs")
    return start, stop


def integer(data: bytes, at: int, end: int) -> tuple[int, int]:
    """The INTEGER at `at`, and where the next element begins.

    Raises:
        BerError: no INTEGER, without contents, or longer than any that a message head has.
    """
    start, stop = expect(data, at, end, INTEGER)
    if not 1 <= stop - start <= 5:
        raise BerError("bad integer")
    return int.from_bytes(data[start:stop], "big", signed=True), stop


def octets(data: bytes, at: int, end: int) -> tuple[bytes, int]:
    """The OCTET STRING at `at`, and where the next element begins.

    Raises:
        BerError: none there.
    """
    start, stop = expect(data, at, end, OCTETS)
    return data[start:stop], stop


def arcs(body: bytes) -> Oid:
    """An object identifier from its contents.

    Raises:
        BerError: empty, cut off, or with more or larger arcs than SNMP allows.
    """
    if not body or body[-1] & 0x80 or len(body) > 5 * MAX_ARCS:
        raise BerError("bad object identifier")
    found: list[int] = []
    arc = 0
    for octet in body:
        arc = arc << 7 | octet & 0x7F
        if not octet & 0x80:
            found.append(arc)
            arc = 0
    first = min(found[0] // 40, 2)
    oid = (first, found[0] - 40 * first, *found[1:])
    if len(oid) > MAX_ARCS or max(oid) > MAX_ARC:
        raise BerError("bad object identifier")
    return oid


def encode(tag: int, body: bytes) -> bytes:
    """Tag, length and contents."""
    size = len(body)
    if size < 0x80:
        return bytes((tag, size)) + body
    length = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes((tag, 0x80 | len(length))) + length + body


def encode_integer(number: int, tag: int = INTEGER) -> bytes:
    """A number in the fewest octets; unsigned types get their leading zero where it is due."""
    # Of a negative number the complement needs the bits: -128 fits in one octet.
    size = (number if number >= 0 else ~number).bit_length() // 8 + 1
    return encode(tag, number.to_bytes(size, "big", signed=True))


def encode_oid(oid: Oid) -> bytes:
    """An object identifier.

    Raises:
        BerError: not one that BER can carry.
    """
    if len(oid) < 2 or not 0 <= oid[0] <= 2 or (oid[0] < 2 and oid[1] >= 40) or min(oid) < 0:
        raise BerError(f"{'.'.join(map(str, oid))} is no object identifier")
    body = bytearray()
    for arc in (40 * oid[0] + oid[1], *oid[2:]):
        octets_ = [arc & 0x7F]
        while arc := arc >> 7:
            octets_.append(0x80 | arc & 0x7F)
        body += bytes(reversed(octets_))
    return encode(OID, bytes(body))
