"""Which requests read a set of places of a Modbus device: blocks with hole fill.

Pure functions; the same plan serves every cycle of a layout, so drivers make it once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from drivers.profile import ModbusLimits
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


def modbus_blocks(places: Iterable[ModbusAt], limits: ModbusLimits) -> tuple[Block, ...]:
    """The fewest blocks, in order of function and address, that cover every place.

    Holes of up to `max_hole` registers are read along; no place is split over two blocks; no
    block is longer than `max_block` (a place longer than that has a block of its own); none
    reaches past register 65535.
    """
    blocks: list[Block] = []
    ordered = sorted(
        {(p.where.function, p.address, p.count) for p in places},
    )
    for function, address, count in ordered:
        most = MAX_BITS if function in ("coil", "discrete") else limits.max_block
        last = blocks[-1] if blocks else None
        if last is not None and last.function == function:
            end = max(last.address + last.count, address + count)
            hole = address - (last.address + last.count)
            if hole <= limits.max_hole and end - last.address <= most:
                blocks[-1] = Block(function, last.address, end - last.address)
                continue
        blocks.append(Block(function, address, count))
    return tuple(blocks)


def cut(place: ModbusAt, block: Block, words: Sequence[int]) -> tuple[int, ...] | None:
    """The registers of one place out of a block's answer; None when it is not in there."""
    start = place.address - block.address
    if place.where.function != block.function or start < 0:
        return None
    part = tuple(words[start : start + place.count])
    return part if len(part) == place.count else None
