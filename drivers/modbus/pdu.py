"""Requests and answers of Modbus without their frames (Application Protocol V1.1b3, chapter 6).

Pure. An answer is compared with its request, function, length and echo: whatever does not fit
is no answer, never a number.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from enum import Enum
from functools import cache
from typing import Final

from drivers.profile.plan import Block

FUNCTIONS: Final[Mapping[str, int]] = {"coil": 1, "discrete": 2, "holding": 3, "input": 4}
#: exception codes that speak of the address asked for, not of the device
ILLEGAL_ADDRESS: Final = frozenset({2, 3})
#: a gateway says that nobody answers behind it
NOBODY_THERE: Final = frozenset({10, 11})
BUSY: Final = 6
#: a write was taken, and takes its time
WORKS_ON_IT: Final = 5
#: a write went to a unit behind a gateway, and nobody knows what became of it
UNDECIDED: Final = frozenset({11})

_EXCEPTIONS: Final[Mapping[int, str]] = {
    1: "illegal function",
    2: "illegal data address",
    3: "illegal data value",
    4: "device failure",
    5: "acknowledge",
    6: "device busy",
    7: "negative acknowledge",
    8: "memory parity error",
    10: "gateway path unavailable",
    11: "gateway target did not respond",
}


class Fault(Enum):
    """Why there is no answer."""

    AWAY = "no connection"
    SILENT = "no answer"
    HUNG_UP = "the connection was closed"
    GARBLED = "what came is no answer"
    MISMATCHED = "the answer was to another request"
    CROWDED = "the line was busy with others"
    LATE = "its time was over"


def read_request(block: Block) -> bytes:
    """Ask for a block, functions 1 to 4."""
    return struct.pack(">BHH", FUNCTIONS[block.function], block.address, block.count)


def write_request(table: str, address: int, words: Sequence[int], function: int | None) -> bytes:
    """Write a coil (5), one register (6) or more (16).

    Args:
        table: "coil" or "holding".
        address: of the first.
        words: registers, or one bit.
        function: 6 or 16 where the device insists; else as the number of registers suggests.
    """
    if table == "coil":
        return struct.pack(">BHH", 5, address, 0xFF00 if words[0] else 0)
    if len(words) == 1 and function != 16:
        return struct.pack(">BHH", 6, address, words[0])
    count = len(words)
    return struct.pack(f">BHHB{count}H", 16, address, count, 2 * count, *words)


def exception_of(request: bytes, answer: bytes) -> int | None:
    """The code of an exception answer to this request; None when it is none."""
    if len(answer) == 2 and answer[0] == request[0] | 0x80:
        return answer[1]
    return None


def exception_text(code: int) -> str:
    """`exception 3 (illegal data value)`."""
    return f"exception {code} ({_EXCEPTIONS.get(code, 'unknown')})"


def words_of(block: Block, answer: bytes) -> tuple[int, ...] | None:
    """Registers or bits that a read brought; None when it is no answer to this block."""
    count = block.count
    if len(answer) < 2 or answer[0] != FUNCTIONS[block.function]:
        return None
    if answer[0] <= 2:
        size = -(-count // 8)
        if answer[1] != size or len(answer) != 2 + size:
            return None
        bits = int.from_bytes(answer[2:], "little")
        return tuple(bits >> i & 1 for i in range(count))
    if answer[1] != 2 * count or len(answer) != 2 + 2 * count:
        return None
    return _registers(count).unpack_from(answer, 2)


def echoes(request: bytes, answer: bytes) -> bool:
    """Whether a write was acknowledged: address and value (5, 6) or count (16) come back."""
    return answer == request[:5]


@cache
def _registers(count: int) -> struct.Struct:
    return struct.Struct(f">{count}H")
