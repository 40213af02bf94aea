"""What one unit is asked in a cycle, and what it was seen to refuse.

A block that is refused for an address in it is bisected once; what was learnt shapes every later
plan. What a unit refuses may come back (firmware, a module put in), so it is asked for again,
one place at a time and less and less often, and everything is forgotten when it restarts.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from drivers.modbus.pdu import FUNCTIONS, read_request
from drivers.profile import ModbusLimits, Quirk
from drivers.profile.binding import ModbusAt, Places
from drivers.profile.codec import Answer
from drivers.profile.plan import Block, Cut, Span, modbus_blocks, span_of
from facility.points import Flaw

#: first and longest wait before what was refused is asked for again, seconds
FIRST_WAIT_S: Final = 60.0
LONGEST_WAIT_S: Final = 3600.0
#: requests that looking for the refused place of a block may take in one look
SPLITS: Final = 40
#: refused places that are asked for again in one cycle
MOST_AGAIN: Final = 4

#: what one request brought
Read = tuple[int, ...] | Flaw


@dataclass(frozen=True, slots=True)
class Piece:
    """One request, and which places its answer fills.

    Attributes:
        spans: what is wanted of the block, in order.
        parts: place among the wanted, and where its registers stand in the answer.
        request, size: the PDU, and how many bytes that of its answer has.
    """

    block: Block
    spans: tuple[Span, ...]
    parts: tuple[tuple[int, slice], ...]
    request: bytes
    size: int


@dataclass
class Plan:
    """What to ask for some places.

    Attributes:
        blank: an answer for each place before anything was asked.
        pieces: the requests, in order.
        version: of what was learnt when it was made.
    """

    blank: list[Answer]
    pieces: tuple[Piece, ...]
    version: int


@dataclass(slots=True)
class Look:
    """One look on its way.

    Attributes:
        answers: what is known so far of each place.
        ends_s: when it has to be over; monotonic.
        splits: requests that it may still spend on looking for refused places.
        crowded: whether the turn on the line did not come in time.
    """

    places: Places
    plan: Plan
    answers: list[Answer]
    ends_s: float
    splits: int = SPLITS
    crowded: bool = False


def piece_of(block: Block, wanted: Sequence[tuple[int, ModbusAt]]) -> Piece:
    """The request for a block that holds some places."""
    parts = []
    for index, place in wanted:
        start = place.address - block.address
        parts.append((index, slice(start, start + place.count)))
    bits = block.function in ("coil", "discrete")
    size = 2 + (-(-block.count // 8) if bits else 2 * block.count)
    spans = sorted({span_of(place) for _, place in wanted})
    return Piece(block, tuple(spans), tuple(parts), read_request(block), size)


def halves_of(
    piece: Piece, places: Places, limits: ModbusLimits, quirks: Collection[Quirk]
) -> tuple[Piece, ...]:
    """The two halves of a refused piece with more than one place; more where limits say so."""
    middle = len(piece.spans) // 2
    found: list[Piece] = []
    for spans in (piece.spans[:middle], piece.spans[middle:]):
        wanted = [(i, p) for i, p in _among(places, piece) if span_of(p) in spans]
        blocks = modbus_blocks((p for _, p in wanted), limits, quirks)
        found.extend(_pieces(blocks, wanted))
    return tuple(found)


def probe_of(plan: Plan, turn: int) -> Piece | None:
    """One cheap question, each time to another part of the device: some parts may be mute.

    Its answer differs in length from that to the last one.
    """
    if not plan.pieces:
        return None
    function, address, count = plan.pieces[turn // 2 % len(plan.pieces)].spans[0]
    longer = 8 if function in ("coil", "discrete") else 1
    count = min(count, 2)
    if turn % 2 and address + count + longer <= 65536:
        count += longer
    return piece_of(Block(function, address, count), ())


def unlike(plan: Plan, function: int, sizes: Collection[int]) -> Piece | None:
    """The cheapest question whose answer has none of these lengths; None when there is none.

    What the device surely has comes first: single places and whole blocks, then more than those.
    """
    blocks = [piece.block for piece in plan.pieces if FUNCTIONS[piece.block.function] == function]
    spans = [span for p in plan.pieces for span in p.spans if FUNCTIONS[span[0]] == function]
    known = {*blocks, *(Block(*span) for span in spans)}
    longer = 8 if function <= 2 else 1
    more = [
        Block(b.function, b.address, b.count + longer * step)
        for b in sorted(known, key=_count)[:1]
        for step in range(1, len(sizes) + 1)
        if b.address + b.count + longer * step <= 65536
    ]
    for block in (*sorted(known, key=_count), *more):
        piece = piece_of(block, ())
        if piece.size not in sizes:
            return piece
    return None


def _count(block: Block) -> tuple[int, int]:
    return block.count, block.address


def key_of(piece: Piece) -> tuple[str, int]:
    """Function and first address of a piece, which no other piece of a plan has."""
    return piece.block.function, piece.block.address


def fill(answers: list[Answer], piece: Piece, read: Read) -> bool:
    """Put what was read where it belongs; False when nobody answered."""
    if isinstance(read, tuple):
        for index, part in piece.parts:
            answers[index] = read[part]
        return True
    for index, _ in piece.parts:
        answers[index] = read
    return read is not Flaw.TIMEOUT


@dataclass
class _Refused:
    again_s: float
    wait_s: float = FIRST_WAIT_S


@dataclass
class Learnt:
    """What one unit was seen to refuse.

    Attributes:
        cuts: gaps that it does not let be read over.
        version: counts changes; a plan of another version is stale.
    """

    cuts: set[Cut] = field(default_factory=set)
    version: int = 0
    _refused: dict[Span, _Refused] = field(default_factory=dict)
    _cuts_until_s: float = float("inf")

    def plan(self, places: Places, limits: ModbusLimits, quirks: Collection[Quirk]) -> Plan:
        """The requests for some places, around everything that is refused."""
        wanted = [(i, p) for i, p in enumerate(places.at) if isinstance(p, ModbusAt)]
        blank: list[Answer] = [Flaw.TIMEOUT] * len(places.at)
        for i, place in wanted:
            if span_of(place) in self._refused:
                blank[i] = Flaw.REFUSED
        blocks = modbus_blocks((p for _, p in wanted), limits, quirks, self._refused, self.cuts)
        left = [(i, p) for i, p in wanted if span_of(p) not in self._refused]
        return Plan(blank, tuple(_pieces(blocks, left)), self.version)

    def refuse(self, span: Span, now_s: float) -> None:
        """It does not have this place; the next doubt comes later than the last."""
        known = self._refused.get(span)
        if known is None:
            self._refused[span] = _Refused(now_s + FIRST_WAIT_S)
            self.version += 1
        else:
            known.wait_s = min(2.0 * known.wait_s, LONGEST_WAIT_S)
            known.again_s = now_s + known.wait_s

    def cut(self, right: Block, now_s: float, rng: random.Random) -> None:
        """It does not let be read over the gap before this block."""
        self.cuts.add((right.function, right.address))
        self._cuts_until_s = min(self._cuts_until_s, now_s + LONGEST_WAIT_S * rng.uniform(0.9, 1.1))
        self.version += 1

    def doubtful(self, places: Places, now_s: float) -> list[Span]:
        """Refused places among these whose time has come; cuts are forgotten at theirs."""
        if now_s >= self._cuts_until_s:
            self.cuts.clear()
            self._cuts_until_s = float("inf")
            self.version += 1
        if not self._refused:
            return []
        spans = dict.fromkeys(span_of(p) for p in places.at if isinstance(p, ModbusAt))
        due = [s for s in spans if s in self._refused and now_s >= self._refused[s].again_s]
        return due[:MOST_AGAIN]

    def forget(self) -> None:
        """It restarted, or has what it refused: learn anew."""
        if self._refused or self.cuts:
            self._refused.clear()
            self.cuts.clear()
            self._cuts_until_s = float("inf")
            self.version += 1


def _pieces(blocks: Iterable[Block], wanted: Sequence[tuple[int, ModbusAt]]) -> list[Piece]:
    """Each place in the first block that covers it."""
    left = list(wanted)
    found = []
    for block in blocks:
        inside = [(i, p) for i, p in left if _covers(block, p)]
        left = [(i, p) for i, p in left if not _covers(block, p)]
        found.append(piece_of(block, inside))
    return found


def _among(places: Places, piece: Piece) -> list[tuple[int, ModbusAt]]:
    found = [(i, places.at[i]) for i, _ in piece.parts]
    return [(i, p) for i, p in found if isinstance(p, ModbusAt)]


def _covers(block: Block, place: ModbusAt) -> bool:
    return (
        place.where.function == block.function
        and block.address <= place.address
        and place.address + place.count <= block.address + block.count
    )
