"""Frames of Modbus: with a transaction number (TCP, TLS), or with a checksum (RTU).

Pure. `feed` takes whatever the wire brought and gives the frames that are whole; nonsense raises
`Garbled`, after which the stream cannot be trusted any more. Sources: Modbus Messaging on TCP/IP
V1.0b chapter 3.1.3; Modbus over Serial Line V1.02 chapters 2.5.1 and 6.2.2.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple, Protocol

#: unit and PDU of one frame
LONGEST: Final = 254
_HEAD: Final = struct.Struct(">HHHB")


class Garbled(Exception):
    """What came is no frame; the text says why."""


class Frame(NamedTuple):
    """One answer as it came: its transaction (None where frames have none), unit and PDU."""

    transaction: int | None
    unit: int
    pdu: bytes


class Framing(Protocol):
    """Puts PDUs into frames and takes them out again."""

    #: whether an answer tells to which request it belongs
    numbered: bool

    def wrap(self, transaction: int, unit: int, pdu: bytes) -> bytes:
        """A request as it goes on the wire."""

    def feed(self, data: bytes) -> list[Frame]:
        """The frames that are whole with these bytes, in order.

        Raises:
            Garbled: this cannot be the beginning of a frame.
        """

    def reset(self) -> None:
        """Forget what came so far."""


class Mbap:
    """Modbus TCP: transaction, protocol 0, length, unit."""

    numbered = True

    def __init__(self) -> None:
        self._held = b""

    def wrap(self, transaction: int, unit: int, pdu: bytes) -> bytes:
        return _HEAD.pack(transaction, 0, len(pdu) + 1, unit) + pdu

    def feed(self, data: bytes) -> list[Frame]:
        held = self._held + data if self._held else data
        frames: list[Frame] = []
        begin = 0
        while len(held) - begin >= 7:
            transaction, protocol, length, unit = _HEAD.unpack_from(held, begin)
            if protocol != 0 or not 2 <= length <= LONGEST:
                self._held = b""
                raise Garbled(f"protocol {protocol}, length {length}")
            end = begin + 6 + length
            if len(held) < end:
                break
            frames.append(Frame(transaction, unit, held[begin + 7 : end]))
            begin = end
        self._held = held[begin:] if begin else held
        return frames

    def reset(self) -> None:
        self._held = b""


class Rtu:
    """Serial lines: unit, PDU, checksum. How long an answer is follows from its function."""

    numbered = False

    def __init__(self) -> None:
        self._held = b""

    def wrap(self, transaction: int, unit: int, pdu: bytes) -> bytes:
        body = bytes((unit,)) + pdu
        return body + crc16(body).to_bytes(2, "little")

    def feed(self, data: bytes) -> list[Frame]:
        held = self._held + data
        frames: list[Frame] = []
        begin = 0
        while len(held) - begin >= 3:
            size = _answer_size(held, begin)
            if size is None:
                self._held = b""
                raise Garbled(f"no answer begins with {held[begin : begin + 3].hex(' ')}")
            frame = held[begin : begin + size]
            if len(frame) < size:
                break
            if crc16(frame[:-2]) != int.from_bytes(frame[-2:], "little"):
                self._held = b""
                raise Garbled("checksum")
            frames.append(Frame(None, frame[0], frame[1:-2]))
            begin += size
        self._held = held[begin:]
        return frames

    def reset(self) -> None:
        self._held = b""


def _answer_size(held: bytes, begin: int) -> int | None:
    """Bytes of an answer that begins there, checksum included; None when nothing begins so."""
    function, count = held[begin + 1], held[begin + 2]
    if 0x81 <= function <= 0x90:
        return 5
    if 1 <= function <= 4:
        return 5 + count if 1 <= count <= 250 else None
    return 8 if function in (5, 6, 15, 16) else None


def _table() -> tuple[int, ...]:
    entries = []
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = crc >> 1 ^ 0xA001 if crc & 1 else crc >> 1
        entries.append(crc)
    return tuple(entries)


_CRC: Final = _table()


def crc16(data: bytes) -> int:
    """Checksum of an RTU frame: polynomial 0xA001 (reflected 0x8005), start 0xFFFF."""
    crc, table = 0xFFFF, _CRC
    for byte in data:
        crc = crc >> 8 ^ table[(crc ^ byte) & 0xFF]
    return crc
