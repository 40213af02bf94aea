"""Notifications taken apart, of versions 1 and 2c, and the answer that an inform is due."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from drivers.snmp import ber
from drivers.traps.names import Oid, v1_oid

TRAP_V1: Final = 0xA4
INFORM: Final = 0xA6
TRAP: Final = 0xA7
RESPONSE: Final = 0xA2
IP_ADDRESS: Final = 0x40
TIME_TICKS: Final = 0x43
#: no agent's notification fills more
MAX_OCTETS: Final = 8192
#: the name of a notification is looked for among so many variables; thousands take milliseconds
NAMED_WITHIN: Final = 16

_TRAP_OID: Final = ber.encode_oid((1, 3, 6, 1, 6, 3, 1, 1, 4, 1, 0))


@dataclass(frozen=True, slots=True)
class Notice:
    """That something happened, and what the sender calls it.

    Attributes:
        answer: the PDU that acknowledges it; empty for a trap, which wants none.
    """

    oid: Oid
    answer: bytes = b""


def version_of(data: bytes) -> int:
    """The version number of a message: 0 is v1, 1 v2c, 3 v3.

    Raises:
        ber.BerError: no SNMP message.
    """
    at, end = ber.expect(data, 0, len(data), ber.SEQUENCE)
    if end != len(data):
        raise ber.BerError("trailing octets")
    return ber.integer(data, at, end)[0]


def community_message(data: bytes) -> tuple[int, bytes, int, int]:
    """A message of version 1 or 2c: version, community, and where its notification lies.

    The notification is left unread: first it is asked whether the sender may say anything.

    Raises:
        ber.BerError: no notification of these versions.
    """
    at, end = ber.expect(data, 0, len(data), ber.SEQUENCE)
    version, at = ber.integer(data, at, end)
    community, at = ber.octets(data, at, end)
    kind, _, _ = ber.element(data, at, end)
    if (version == 0) != (kind == TRAP_V1) or version not in (0, 1):
        raise ber.BerError("no notification of this version")
    return version, community, at, end


def notice(data: bytes, at: int, end: int) -> Notice:
    """The notification PDU that fills the bytes from `at` to `end`.

    Raises:
        ber.BerError: it is none.
    """
    kind, here, stop = ber.element(data, at, end)
    if stop != end:
        raise ber.BerError("more than a notification")
    if kind == TRAP_V1:
        return _of_v1(data, here, stop)
    if kind not in (TRAP, INFORM):
        raise ber.BerError("no notification")
    for _ in range(3):  # request id, error status, error index
        _, here = ber.integer(data, here, stop)
    start, after = ber.expect(data, here, stop, ber.SEQUENCE)
    if after != stop:
        raise ber.BerError("more than a list of variables")
    oid = _named(data, start, stop)
    # RFC 3416 section 4.2.7: the answer says the same again, as a Response.
    answer = bytes((RESPONSE,)) + data[at + 1 : end] if kind == INFORM else b""
    return Notice(oid, answer)


def _named(data: bytes, at: int, stop: int) -> Oid:
    """What a notification is called: it stands second in its list (RFC 3416 section 4.2.6)."""
    for _ in range(NAMED_WITHIN):
        if at >= stop:
            break
        first, after = ber.expect(data, at, stop, ber.SEQUENCE)
        _, value_at = ber.expect(data, first, after, ber.OID)
        if data[first:value_at] == _TRAP_OID:
            body, body_end = ber.expect(data, value_at, after, ber.OID)
            if body_end != after:
                raise ber.BerError("more than a name and a value")
            return ber.arcs(data[body:body_end])
        at = after
    raise ber.BerError("a notification without a name")


def _of_v1(data: bytes, here: int, stop: int) -> Notice:
    start, after = ber.expect(data, here, stop, ber.OID)
    enterprise = ber.arcs(data[start:after])
    _, here = ber.expect(data, after, stop, IP_ADDRESS)
    generic, here = ber.integer(data, here, stop)
    specific, here = ber.integer(data, here, stop)
    _, here = ber.expect(data, here, stop, TIME_TICKS)
    _, after = ber.expect(data, here, stop, ber.SEQUENCE)
    if after != stop or not 0 <= generic <= 6 or specific < 0:
        raise ber.BerError("bad trap")
    return Notice(v1_oid(enterprise, generic, specific))


def community_answer(version: int, community: bytes, answer: bytes) -> bytes:
    """The message that acknowledges an inform."""
    return ber.encode(
        ber.SEQUENCE,
        ber.encode_integer(version) + ber.encode(ber.OCTETS, community) + answer,
    )
