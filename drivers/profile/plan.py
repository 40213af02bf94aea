"""Which requests read a set of places of a Modbus device: blocks with hole fill.

Pure functions; the same plan serves every cycle of a layout, so drivers make it once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final, Literal

from drivers.profile import ModbusLimits, Quirk
from drivers.profile.binding import ModbusAt

#: bits one request may ask for; registers have their own limit in the profile
MAX_BITS: Final = 2000

ModbusFunction = Literal["holding", "input", "coil", "discrete"]


@dataclass(frozen=True, slots=True)
class Block:
    """One Modbus read: `count` registers or bits from `address` on."""

    function: ModbusFunction
    address: int
    count: int


#: where a run of registers or bits stands: function, first address, how many
Span = tuple[ModbusFunction, int, int]
#: no block may reach over the gap before this address of a function
Cut = tuple[ModbusFunction, int]


def modbus_blocks(
    places: Iterable[ModbusAt],
    limits: ModbusLimits,
    quirks: Collection[Quirk] = (),
    refused: Collection[Span] = (),
    cuts: Collection[Cut] = (),
) -> tuple[Block, ...]:
    """The fewest blocks, in order of function and address, that cover every place.

    Holes of up to `max_hole` registers are read along; no place is split over two blocks; no
    block is longer than `max_block` (a place longer than that has a block of its own); none
    reaches past register 65535.

    Args:
        places: what to read.
        limits: of the profile.
        quirks: of the device: `one_field_per_request` joins nothing, `coils_from_zero` lets each
            block of bits begin at bit 0.
        refused: what the device does not have: not asked for, and not read along as a hole.
        cuts: gaps that the device was seen to refuse to read over.
    """
    absent, apart = set(refused), set(cuts)
    alone = "one_field_per_request" in quirks
    blocks: list[Block] = []
    for function, address, count in sorted({span_of(p) for p in places} - absent):
        bits = function in ("coil", "discrete")
        most = MAX_BITS if bits else limits.max_block
        first = address
        if bits and "coils_from_zero" in quirks and address + count <= MAX_BITS:
            first, count = 0, address + count
        last = blocks[-1] if blocks else None
        if last is not None and last.function == function and not alone:
            end = max(last.address + last.count, first + count)
            hole = first - (last.address + last.count)
            if (
                hole <= limits.max_hole
                and end - last.address <= most
                and (function, address) not in apart
                and not _stands_in(absent, function, last.address + last.count, first)
            ):
                blocks[-1] = Block(function, last.address, end - last.address)
                continue
        blocks.append(Block(function, first, count))
    return tuple(blocks)


def span_of(place: ModbusAt) -> Span:
    """What a place fills."""
    return place.where.function, place.address, place.count


def _stands_in(absent: Collection[Span], function: str, first: int, end: int) -> bool:
    """Whether anything that the device refuses lies in a hole."""
    return any(f == function and a < end and a + n > first for f, a, n in absent)
