"""What can happen to a piece of data on its way; pure, so that a test can say what passed.

A fault takes one piece (a TCP chunk or a datagram) and tells what to do: send these bytes after
this long, or reset the connection. No deed at all is silence.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple


class Deed(NamedTuple):
    """Wait, then send; `data` None resets the connection (a datagram is then lost)."""

    after_s: float
    data: bytes | None


Fault = Callable[[bytes], Sequence[Deed]]


def passed(data: bytes) -> Sequence[Deed]:
    """No fault."""
    return [Deed(0.0, data)]


def delayed(by_s: float) -> Fault:
    """Everything arrives whole, later."""
    return lambda data: [Deed(by_s, data)]


def dripped(size: int, every_s: float) -> Fault:
    """A few bytes at a time, as over a slow serial line."""

    def fault(data: bytes) -> Sequence[Deed]:
        pieces = [data[i : i + size] for i in range(0, len(data), size)]
        return [Deed(every_s if i else 0.0, piece) for i, piece in enumerate(pieces)]

    return fault


def truncated(keep: int) -> Fault:
    """Only the first bytes arrive; the rest never does."""
    return lambda data: [Deed(0.0, data[:keep])]


def reset(after: int = 0) -> Fault:
    """The connection breaks after that many bytes of a piece."""
    return lambda data: [*([Deed(0.0, data[:after])] if after else []), Deed(0.0, None)]


def silent(_data: bytes) -> Sequence[Deed]:
    """Half-open: the connection stands and nothing comes through any more."""
    return ()


def duplicated(data: bytes) -> Sequence[Deed]:
    """Everything arrives twice."""
    return [Deed(0.0, data), Deed(0.0, data)]


def flipped(rng: random.Random, first: int = 0) -> Fault:
    """One bit of each piece is wrong, at or after byte `first`."""

    def fault(data: bytes) -> Sequence[Deed]:
        if len(data) <= first:
            return passed(data)
        at = rng.randrange(first, len(data))
        mangled = bytearray(data)
        mangled[at] ^= 1 << rng.randrange(8)
        return [Deed(0.0, bytes(mangled))]

    return fault


def renumbered(at: int, width: int, by: int = -1) -> Fault:
    """The number of `width` bytes at an offset (a transaction or request id) is off by some."""

    def fault(data: bytes) -> Sequence[Deed]:
        if len(data) < at + width:
            return passed(data)
        number = int.from_bytes(data[at : at + width], "big")
        wrong = ((number + by) % (1 << 8 * width)).to_bytes(width, "big")
        return [Deed(0.0, data[:at] + wrong + data[at + width :])]

    return fault


class Reordered:
    """Each piece is held back until the next one has passed."""

    def __init__(self) -> None:
        self._held: bytes | None = None

    def __call__(self, data: bytes) -> Sequence[Deed]:
        """The piece, then the one before it."""
        held, self._held = self._held, data
        if held is None:
            return ()
        self._held = None
        return [Deed(0.0, data), Deed(0.0, held)]


class NowAndThen:
    """A fault that strikes every n-th piece."""

    def __init__(self, fault: Fault, every: int) -> None:
        self._fault, self._every, self._count = fault, every, 0

    def __call__(self, data: bytes) -> Sequence[Deed]:
        """The fault's deeds on its turn, else the piece as it is."""
        self._count += 1
        return self._fault(data) if self._count % self._every == 0 else passed(data)


#: where the transaction id of a Modbus/TCP frame lies (MBAP header, first two bytes)
MBAP_ID: Final = (0, 2)
