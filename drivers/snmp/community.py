"""Messages of SNMP v1 and v2c: a version, a community in clear text, and what is asked."""

from __future__ import annotations

import re
from typing import Final

from drivers.snmp import ber, pdu

V1: Final = 0
V2C: Final = 1

_LENGTH: Final = rb"(?:([\x00-\x7f])|\x81(.)|\x82(..))"


class Envelope:
    """How one version and community wrap a request and unwrap an answer."""

    def __init__(self, version: int, community: str) -> None:
        head = ber.encode_integer(version) + ber.encode(ber.OCTETS, community.encode())
        self._head = head
        # The usual form of an answer without an error, in one go; any other goes the long way.
        self._usual = re.compile(
            rb"\x30"
            + _LENGTH
            + re.escape(head)
            + rb"\xa2"
            + _LENGTH
            + rb"\x02\x04(....)\x02\x01\x00\x02\x01\x00\x30"
            + _LENGTH,
            re.DOTALL,
        )

    def wrap(self, request: bytes) -> bytes:
        """A whole message around a request."""
        return ber.encode(ber.SEQUENCE, self._head + request)

    def unwrap(self, data: bytes) -> pdu.Head:
        """The answer in a datagram.

        Raises:
            ber.BerError: no answer, or one of another version or community.
        """
        match = self._usual.match(data)
        if match is not None:
            start, end = match.end(), len(data)
            a, b, c, d, e, f, number, g, h, i = match.groups()
            if (
                int.from_bytes(a or b or c, "big") == end - match.end(1 if a else 2 if b else 3)
                and int.from_bytes(d or e or f, "big") == end - match.end(4 if d else 5 if e else 6)
                and int.from_bytes(g or h or i, "big") == end - start
            ):
                return pdu.Head(pdu.RESPONSE, int.from_bytes(number, "big"), 0, 0, start, end)
        start, stop = ber.expect(data, 0, len(data), ber.SEQUENCE)
        here = start + len(self._head)
        if stop != len(data) or data[start:here] != self._head:
            raise ber.BerError("another version or community, or trailing octets")
        return pdu.split(data, here, stop)
