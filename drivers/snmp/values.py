"""What one variable of an answer says: a raw, or the flaw that stands for "no value".

Pure functions of the bytes of one element, so that answers seen before are looked up: a hall's
readings move in a few hundred distinct steps.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Final

from drivers.profile.codec import Answer, Raw
from drivers.snmp import ber
from facility.points import Flaw

IP_ADDRESS: Final = 0x40
COUNTER32: Final = 0x41
GAUGE32: Final = 0x42
TIMETICKS: Final = 0x43
OPAQUE: Final = 0x44
COUNTER64: Final = 0x46
UNSIGNED32: Final = 0x47
NO_SUCH_OBJECT: Final = 0x80
NO_SUCH_INSTANCE: Final = 0x81
END_OF_MIB_VIEW: Final = 0x82

#: most octets of an unsigned type: its width and the zero that keeps the sign bit clear
_UNSIGNED: Final[Mapping[int, int]] = {
    COUNTER32: 5,
    GAUGE32: 5,
    TIMETICKS: 5,
    UNSIGNED32: 5,
    COUNTER64: 9,
}
_NOTHING: Final = frozenset({NO_SUCH_OBJECT, NO_SUCH_INSTANCE, END_OF_MIB_VIEW})
_SYNTAX: Final[Mapping[str, int]] = {
    "integer": ber.INTEGER,
    "gauge32": GAUGE32,
    "counter32": COUNTER32,
    "counter64": COUNTER64,
    "timeticks": TIMETICKS,
}
_SIGNED_BITS: Final = 31
#: heads of the float and double that net-snmp hides in an Opaque
_OPAQUE_FLOATS: Final[Mapping[bytes, str]] = {b"\x9f\x78\x04": ">f", b"\x9f\x79\x08": ">d"}
#: distinct elements that are remembered before all are forgotten
MEMORY: Final = 8192
#: longest element that is remembered, octets
MEMORABLE: Final = 48


def value_of(tag: int, body: bytes) -> Answer:
    """A raw from the contents of an element.

    Returns:
        `Flaw.REFUSED` where the agent says that there is no such variable; `Flaw.UNDECODABLE` for
        NULL, for a type that SNMP has not, and for contents that the type cannot have: a number
        without a single octet is no 0 (X.690 section 8.3.1).
    """
    size = len(body)
    if tag == ber.INTEGER:
        # Integer32 has at most four octets; agents that sign-extend to eight are understood.
        return int.from_bytes(body, "big", signed=True) if 1 <= size <= 8 else Flaw.UNDECODABLE
    most = _UNSIGNED.get(tag)
    if most is not None:
        # A full-width number without its leading zero is a common slip; these are never negative.
        if not 1 <= size <= most or (size == most and body[0]):
            return Flaw.UNDECODABLE
        return int.from_bytes(body, "big")
    if tag == ber.OCTETS or (tag == IP_ADDRESS and size == 4):
        return body
    if tag in _NOTHING:
        return Flaw.REFUSED
    if tag == OPAQUE:
        return opaque(body)
    if tag == ber.OID:
        try:
            return ".".join(str(arc) for arc in ber.arcs(body))
        except ber.BerError:
            return Flaw.UNDECODABLE
    return Flaw.UNDECODABLE


def opaque(body: bytes) -> Answer:
    """A float or double in an Opaque (net-snmp's convention), else the octets as they are."""
    form = _OPAQUE_FLOATS.get(body[:3])
    if form is None or len(body) != 3 + struct.calcsize(form):
        return body
    number: float = struct.unpack(form, body[3:])[0]
    return number


class Memory(dict[bytes, Answer]):
    """Elements seen before, whole (tag, length, contents), and what they say."""

    def __missing__(self, whole: bytes) -> Answer:
        """Read an element that is not known yet."""
        tag, start, stop = ber.element(whole, 0, len(whole))
        answer = value_of(tag, whole[start:stop])
        if len(whole) <= MEMORABLE:
            if len(self) >= MEMORY:
                self.clear()
            self[whole] = answer
        return answer


recall: Final[Callable[[bytes], Answer]] = Memory().__getitem__


def encoded(syntax: str, raw: Raw) -> bytes | None:
    """A raw as an element of the type that the profile names; None when the type cannot hold it."""
    if syntax == "octets":
        if isinstance(raw, str | bytes):
            return ber.encode(ber.OCTETS, raw.encode() if isinstance(raw, str) else raw)
        return None
    if syntax == "oid":
        try:
            return ber.encode_oid(tuple(int(arc) for arc in str(raw).strip(".").split(".")))
        except ValueError:
            return None
    if not isinstance(raw, int | float) or raw != raw or raw in (float("inf"), float("-inf")):
        return None
    number = int(raw)
    bits = 64 if syntax == "counter64" else 32
    low, high = (-(2**_SIGNED_BITS), 2**_SIGNED_BITS) if syntax == "integer" else (0, 2**bits)
    if number != raw or not low <= number < high:
        return None
    return ber.encode_integer(number, _SYNTAX[syntax])
