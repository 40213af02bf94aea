"""The few lines of BER (X.690) and SNMP v2c (RFC 3416) that a small agent needs.

An own responder, because a pysnmp engine per agent costs 67 ms and a socket loop each; and it is
an independent second opinion on the client's library.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

Oid = tuple[int, ...]

INTEGER: Final = 0x02
OCTETS: Final = 0x04
NULL: Final = 0x05
OID: Final = 0x06
SEQUENCE: Final = 0x30
NO_SUCH_INSTANCE: Final = 0x81
END_OF_MIB_VIEW: Final = 0x82
TAGS: Final[dict[str, int]] = {
    "integer": INTEGER,
    "octets": OCTETS,
    "oid": OID,
    "counter32": 0x41,
    "gauge32": 0x42,
    "timeticks": 0x43,
    "counter64": 0x46,
}
GET: Final = 0xA0
GET_NEXT: Final = 0xA1
RESPONSE: Final = 0xA2
SET: Final = 0xA3
GET_BULK: Final = 0xA5
V2C: Final = 1


class BerError(ValueError):
    """Bytes that are no SNMP v2c message."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request: `first` and `second` are non-repeaters and max-repetitions of a GETBULK."""

    community: bytes
    kind: int
    id: int
    first: int
    second: int
    variables: tuple[tuple[Oid, int, bytes], ...]


@dataclass(frozen=True, slots=True)
class Value:
    """A tagged value, encoded."""

    tag: int
    body: bytes = b""


def items(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The tag and body of each element in a row.

    Raises:
        BerError: a length that does not fit.
    """
    at = 0
    while at < len(data):
        if at + 2 > len(data):
            raise BerError("truncated")
        tag, length = data[at], data[at + 1]
        at += 2
        if length & 0x80:
            octets = length & 0x7F
            if not 1 <= octets <= 4 or at + octets > len(data):
                raise BerError("bad length")
            length = int.from_bytes(data[at : at + octets], "big")
            at += octets
        if at + length > len(data):
            raise BerError("truncated")
        yield tag, data[at : at + length]
        at += length


def parse(data: bytes) -> Request:
    """Read a request.

    Raises:
        BerError: anything else.
    """
    ((outer, message),) = _exactly(data, 1)
    (version_tag, version), (community_tag, community), (kind, pdu) = _exactly(message, 3)
    if outer != SEQUENCE or (version_tag, community_tag) != (INTEGER, OCTETS):
        raise BerError("no SNMP message")
    if integer(version) != V2C or kind not in (GET, GET_NEXT, SET, GET_BULK):
        raise BerError("no request of version 2c")
    (_, request_id), (_, first), (_, second), (_, listed) = _exactly(pdu, 4)
    variables = []
    for tag, pair in items(listed):
        (name_tag, name), (value_tag, value) = _exactly(pair, 2)
        if tag != SEQUENCE or name_tag != OID:
            raise BerError("no variable binding")
        variables.append((oid(name), value_tag, value))
    return Request(
        community, kind, integer(request_id), integer(first), integer(second), tuple(variables)
    )


def _exactly(data: bytes, count: int) -> list[tuple[int, bytes]]:
    found = list(items(data))
    if len(found) != count:
        raise BerError(f"{len(found)} elements where {count} belong")
    return found


def integer(body: bytes) -> int:
    """A two's complement integer.

    Raises:
        BerError: empty, or longer than any that SNMP has.
    """
    if not 1 <= len(body) <= 9:
        raise BerError("bad integer")
    return int.from_bytes(body, "big", signed=True)


def oid(body: bytes) -> Oid:
    """An object identifier.

    Raises:
        BerError: empty or cut off.
    """
    if not body or body[-1] & 0x80:
        raise BerError("bad object identifier")
    arcs: list[int] = []
    arc = 0
    for octet in body:
        arc = arc << 7 | octet & 0x7F
        if not octet & 0x80:
            arcs.append(arc)
            arc = 0
    first = min(arcs[0] // 40, 2)
    return (first, arcs[0] - 40 * first, *arcs[1:])


def element(tag: int, body: bytes) -> bytes:
    """Tag, length and body."""
    if len(body) < 0x80:
        return bytes((tag, len(body))) + body
    length = len(body).to_bytes((len(body).bit_length() + 7) // 8, "big")
    return bytes((tag, 0x80 | len(length))) + length + body


def of_integer(number: int) -> bytes:
    """The body of an integer of any of SNMP's integer types."""
    return number.to_bytes(number.bit_length() // 8 + 1, "big", signed=True)


def of_oid(arcs: Oid) -> bytes:
    """The body of an object identifier."""
    body = bytearray()
    for arc in (40 * arcs[0] + arcs[1], *arcs[2:]):
        octets = [arc & 0x7F]
        while arc := arc >> 7:
            octets.append(0x80 | arc & 0x7F)
        body += bytes(reversed(octets))
    return bytes(body)


def response(
    request: Request, variables: Sequence[tuple[Oid, Value]], status: int = 0, index: int = 0
) -> bytes:
    """The whole answer to a request."""
    listed = b"".join(
        element(SEQUENCE, element(OID, of_oid(name)) + element(value.tag, value.body))
        for name, value in variables
    )
    pdu = (
        element(INTEGER, of_integer(request.id))
        + element(INTEGER, of_integer(status))
        + element(INTEGER, of_integer(index))
        + element(SEQUENCE, listed)
    )
    head = element(INTEGER, of_integer(V2C)) + element(OCTETS, request.community)
    return element(SEQUENCE, head + element(RESPONSE, pdu))
