"""Messages of SNMPv3 with the user-based security model: RFC 3412 section 6, RFC 3414 section 2.4.

Written and read, no more: who may say what, and what follows from it, is `session`'s business.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from drivers.snmp import ber

VERSION: Final = 3
USM: Final = 3
AUTH: Final = 0x01
PRIVACY: Final = 0x02
REPORTABLE: Final = 0x04
#: what we take; an Ethernet jumbo frame is far below
MAX_OCTETS: Final = 65507
MAX_ENGINE_ID: Final = 32
MAX_USER: Final = 32
#: most boots and most seconds (RFC 3414 section 2.2.2)
MOST_S: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Outer:
    """Everything of a message but what is asked or said in it.

    Attributes:
        flags: AUTH, PRIVACY and REPORTABLE.
        boots, time_s: of the engine that is the authority: the agent.
        mac: digest over the message; zeros until it is made.
        salt: what the cipher needs to know of this message.
    """

    id: int
    flags: int
    engine_id: bytes = b""
    boots: int = 0
    time_s: int = 0
    user: bytes = b""
    mac: bytes = b""
    salt: bytes = b""


@dataclass(frozen=True, slots=True)
class Received:
    """A message that has come.

    Attributes:
        outer: its head.
        mac_at: where the digest lies in the datagram.
        body: the scoped PDU as an element, or the contents of the encrypted octets.
    """

    outer: Outer
    mac_at: int
    body: bytes


def scoped(engine_id: bytes, context: bytes, request: bytes) -> bytes:
    """A request within its context."""
    return ber.encode(
        ber.SEQUENCE,
        ber.encode(ber.OCTETS, engine_id) + ber.encode(ber.OCTETS, context) + request,
    )


def written(outer: Outer, body: bytes) -> tuple[bytes, int]:
    """A message, and where in it the digest lies.

    Args:
        outer: its head, with as many zeros for the digest as it will have octets.
        body: the scoped PDU as an element, or the OCTET STRING of the encrypted one.
    """
    salt = ber.encode(ber.OCTETS, outer.salt)
    security = (
        ber.encode(ber.OCTETS, outer.engine_id)
        + ber.encode_integer(outer.boots)
        + ber.encode_integer(outer.time_s)
        + ber.encode(ber.OCTETS, outer.user)
        + ber.encode(ber.OCTETS, outer.mac)
        + salt
    )
    head = (
        ber.encode_integer(outer.id)
        + ber.encode_integer(MAX_OCTETS)
        + ber.encode(ber.OCTETS, bytes((outer.flags,)))
        + ber.encode_integer(USM)
    )
    message = ber.encode(
        ber.SEQUENCE,
        ber.encode_integer(VERSION)
        + ber.encode(ber.SEQUENCE, head)
        + ber.encode(ber.OCTETS, ber.encode(ber.SEQUENCE, security))
        + body,
    )
    return message, len(message) - len(body) - len(salt) - len(outer.mac)


def read(data: bytes) -> Received:
    """Take a datagram apart.

    Raises:
        ber.BerError: no SNMPv3 message with the user-based security model.
    """
    here, end = ber.expect(data, 0, len(data), ber.SEQUENCE)
    version, here = ber.integer(data, here, end)
    if version != VERSION or end != len(data):
        raise ber.BerError("another version, or trailing octets")
    head, head_end = ber.expect(data, here, end, ber.SEQUENCE)
    message_id, head = ber.integer(data, head, head_end)
    _, head = ber.integer(data, head, head_end)
    flags, head = ber.octets(data, head, head_end)
    model, head = ber.integer(data, head, head_end)
    if len(flags) != 1 or model != USM or head != head_end:
        raise ber.BerError("another security model")
    wrapped, body_at = ber.expect(data, head_end, end, ber.OCTETS)
    at, stop = ber.expect(data, wrapped, body_at, ber.SEQUENCE)
    engine_id, at = ber.octets(data, at, stop)
    boots, at = ber.integer(data, at, stop)
    time_s, at = ber.integer(data, at, stop)
    user, at = ber.octets(data, at, stop)
    mac, at = ber.octets(data, at, stop)
    mac_at = at - len(mac)
    salt, at = ber.octets(data, at, stop)
    if at != stop or stop != body_at or not (0 <= boots <= MOST_S and 0 <= time_s <= MOST_S):
        raise ber.BerError("bad security parameters")
    if len(engine_id) > MAX_ENGINE_ID or len(user) > MAX_USER:
        raise ber.BerError("bad engine id or user")
    encrypted = bool(flags[0] & PRIVACY)
    tag = ber.OCTETS if encrypted else ber.SEQUENCE
    start, body_end = ber.expect(data, body_at, end, tag)
    if body_end != end:
        raise ber.BerError("trailing octets")
    body = data[start:end] if encrypted else data[body_at:end]
    return Received(
        Outer(message_id, flags[0], engine_id, boots, time_s, user, mac, salt), mac_at, body
    )


def unscoped(plain: bytes) -> tuple[int, int, bytes]:
    """Where the PDU lies in a scoped PDU, and the engine id of its context.

    Octets after the sequence are the padding of the cipher.

    Raises:
        ber.BerError: no scoped PDU, which is what a wrong key makes of one.
    """
    here, end = ber.expect(plain, 0, len(plain), ber.SEQUENCE)
    engine_id, here = ber.octets(plain, here, end)
    _, here = ber.octets(plain, here, end)
    return here, end, engine_id
