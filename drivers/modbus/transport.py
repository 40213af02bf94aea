"""One Modbus unit behind a link: which requests a look takes, and what their answers mean."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final
from weakref import WeakKeyDictionary

from drivers.address import Address
from drivers.modbus.link import Fault, ModbusLink
from drivers.modbus.pdu import (
    BUSY,
    ILLEGAL_ADDRESS,
    NOBODY_THERE,
    echoes,
    exception_of,
    exception_text,
    words_of,
    write_request,
)
from drivers.modbus.plans import Learnt, Piece, Plan, halves_of, piece_of, probe_of
from drivers.modbus.wires import Dial
from drivers.profile import ModbusLimits, Quirk
from drivers.profile.binding import At, ModbusAt, Places
from drivers.profile.codec import Answer, Raw
from drivers.profile.plan import Block
from drivers.transport import Links, WriteReply
from facility.points import Flaw

#: no look takes longer; what was not read by then is a timeout
LOOK_S: Final = 5.0
#: a busy unit is asked again after these, seconds
BUSY_AGAIN_S: Final = (0.1, 0.2, 0.4)
#: an answer that is none is asked for once more
GARBLED_TRIES: Final = 2
#: requests that looking for the refused place of a block may take in one look
SPLITS: Final = 40
#: a unit that was silent so often in a row has been away, and may have restarted
AWAY_AFTER: Final = 3

Read = tuple[int, ...] | Flaw


class ModbusTransport:
    """One unit behind a link."""

    def __init__(
        self,
        address: Address,
        links: Links,
        limits: ModbusLimits,
        quirks: Sequence[Quirk] = (),
        dial: Dial | None = None,
    ) -> None:
        """Talk to nobody yet; `dial` replaces how the address is reached."""
        self._link = links.shared(
            ModbusLink, address.endpoint, lambda: ModbusLink(address, links, dial)
        )
        self._unit = address.unit
        self._limits = limits
        self._quirks = tuple(quirks)
        self._tempo = self._link.join(address.unit, quirks)
        self._clock, self._rng = links.clock, links.rng
        self._plans: WeakKeyDictionary[Places, Plan] = WeakKeyDictionary()
        self._learnt = Learnt()
        self._unsure = asyncio.Lock()
        self._probes = 0
        self._splits = 0
        self._ends_s = 0.0
        self.host = address.host
        self.requests = 0

    @property
    def endpoint(self) -> str:
        """`modbus://host:port`, shared with the other units behind it."""
        return self._link.name

    @property
    def link(self) -> ModbusLink:
        """What it shares with the other units."""
        return self._link

    async def fetch(self, places: Places) -> Sequence[Answer]:
        """Read every place in as few requests as the profile's limits and the unit allow.

        A silent unit is asked one cheap question, and read only if it answers that.
        """
        if self._tempo.known:
            return await self._look(places)
        # While nobody knows whether it is there, its poll classes do not all ask.
        async with self._unsure:
            return await self._look(places)

    async def _look(self, places: Places) -> Sequence[Answer]:
        link, tempo = self._link, self._tempo
        now_s = self._clock.monotonic_s()
        doubtful = self._learnt.doubtful(places, now_s)
        plan = self._plan(places)
        answers = plan.blank.copy()
        if tempo.waiting or link.waiting:
            return answers
        self._ends_s, self._splits = now_s + LOOK_S, SPLITS
        if tempo.failures and not await self._speaks(plan):
            link.rest()
            return answers
        for piece in plan.pieces:
            if self._clock.monotonic_s() > self._ends_s:
                break
            read = await self._read(piece)
            if read is Flaw.REFUSED:
                await self._split(piece, places, answers)
            elif not _fill(answers, piece, read):
                break
        else:
            for function, address, count in doubtful:
                await self._doubt(piece_of(Block(function, address, count), ()))
        link.rest()
        return answers

    async def put(self, place: At, raw: Raw) -> WriteReply:
        """Write once: function 5 for a coil, 6 or 16 for registers; before all waiting reads."""
        if not isinstance(place, ModbusAt) or not isinstance(raw, tuple):
            return WriteReply("rejected", "no Modbus value")
        request = write_request(place.where.function, place.address, raw, place.write_function)
        self.requests += 1
        link = self._link
        await link.turns.take(self._unit, urgent=True)
        try:
            answer = await link.ask(self._unit, request, 5, urgent=True)
        finally:
            link.turns.give()
        link.rest()
        if isinstance(answer, Fault):
            sent = "; nothing was sent" if answer is Fault.AWAY else ""
            return WriteReply("unanswered", answer.value + sent)
        code = exception_of(request, answer)
        if code is not None:
            return WriteReply("rejected", exception_text(code))
        if not echoes(request, answer):
            if not link.numbered:
                link.drop()
            return WriteReply("unanswered", "the answer was to another request")
        return WriteReply("accepted")

    async def close(self) -> None:
        """Close the link; another unit's next request opens it again."""
        await self._link.turns.take(self._unit, urgent=True)
        self._link.drop()
        self._link.turns.give()

    def _plan(self, places: Places) -> Plan:
        plan = self._plans.get(places)
        if plan is None or plan.version != self._learnt.version:
            plan = self._learnt.plan(places, self._limits, self._quirks)
            self._plans[places] = plan
        return plan

    async def _speaks(self, plan: Plan) -> bool:
        """Whether a unit that was silent answers one cheap question now."""
        link, tempo = self._link, self._tempo
        if self._clock.monotonic_s() < link.probe_again_s:
            return False
        self._probes += 1
        probe = probe_of(plan, self._probes)
        if probe is None:
            return True
        failures = tempo.failures
        read = await self._read(probe)
        link.probed()
        if read is Flaw.TIMEOUT:
            return False
        if failures >= AWAY_AFTER:
            self._learnt.forget()
        return True

    async def _read(self, piece: Piece) -> Read:
        """One read; TIMEOUT when nothing came, REFUSED for a bad address, UNDECODABLE for junk.

        A read may be repeated: when the connection was closed under it, when a unit that used to
        answer is silent once, when what came was no answer, and when the unit was busy.
        """
        link, tempo = self._link, self._tempo
        silent, junk, busy = 2 if tempo.known else 1, GARBLED_TRIES, 0
        closed = 1 if tempo.failures else link.tries()
        while True:
            answer = await self._ask(piece)
            if isinstance(answer, bytes):
                code = exception_of(piece.request, answer)
                if code in NOBODY_THERE:
                    tempo.absent(link.took_s, shared=link.shared)
                    return Flaw.TIMEOUT
                tempo.answered(link.took_s)
                if code is None:
                    return self._words(piece, answer)
                if code == BUSY and busy < len(BUSY_AGAIN_S) and not self._over(BUSY_AGAIN_S[busy]):
                    await asyncio.sleep(BUSY_AGAIN_S[busy])
                    busy += 1
                    continue
                return Flaw.REFUSED if code in ILLEGAL_ADDRESS else Flaw.DEVICE_FAULT
            if answer is Fault.AWAY:
                return Flaw.TIMEOUT
            if answer is Fault.HUNG_UP:
                closed -= 1
                if not closed:
                    tempo.silent(link.took_s, shared=link.shared)
                    return Flaw.TIMEOUT
            elif answer is Fault.SILENT:
                silent -= 1
                if not silent or not link.numbered or self._over(link.took_s):
                    tempo.silent(link.took_s, shared=link.shared)
                    return Flaw.TIMEOUT
                tempo.widen()
            else:
                junk -= 1
                if not junk:
                    tempo.silent(link.took_s, shared=link.shared)
                    return Flaw.UNDECODABLE

    async def _ask(self, piece: Piece) -> bytes | Fault:
        turns = self._link.turns
        self.requests += 1
        await turns.take(self._unit)
        try:
            return await self._link.ask(self._unit, piece.request, piece.size)
        finally:
            turns.give()

    def _words(self, piece: Piece, answer: bytes) -> Read:
        words = words_of(piece.block, answer)
        if words is not None:
            return words
        self._link.odd["answer that does not fit its request"] += 1
        if not self._link.numbered:
            self._link.drop()
        return Flaw.UNDECODABLE

    async def _split(self, piece: Piece, places: Places, answers: list[Answer]) -> bool:
        """Find what a refused block was refused for; False when the look is over.

        Each half is read by itself, down to the one place that the unit does not have. If both
        halves are answered, it is the gap between them that it does not let be read over.
        """
        now_s = self._clock.monotonic_s()
        if len(piece.spans) == 1:
            self._learnt.refuse(piece.spans[0], now_s)
            return _fill(answers, piece, Flaw.REFUSED)
        halves = halves_of(piece, places, self._limits, self._quirks)
        version = self._learnt.version
        for half in halves:
            if not self._splits or self._over(0.0):
                self._learnt.cut(halves[1].block, now_s, self._rng)  # go on from here next time
                return False
            self._splits -= 1
            read = await self._read(half)
            if read is Flaw.REFUSED:
                if not await self._split(half, places, answers):
                    return False
            elif not _fill(answers, half, read):
                return False
        if self._learnt.version == version:
            for right in halves[1:]:
                self._learnt.cut(right.block, now_s, self._rng)
        return True

    async def _doubt(self, piece: Piece) -> None:
        """Ask once more for what was refused: it may have come."""
        if self._over(0.0):
            return
        function, address, count = piece.block.function, piece.block.address, piece.block.count
        read = await self._read(piece)
        if isinstance(read, tuple):
            self._learnt.forget()
        elif read is Flaw.REFUSED:
            self._learnt.refuse((function, address, count), self._clock.monotonic_s())

    def _over(self, wait_s: float) -> bool:
        """Whether the look would be over after waiting so long."""
        return self._clock.monotonic_s() + wait_s > self._ends_s


def _fill(answers: list[Answer], piece: Piece, read: Read) -> bool:
    """Put what was read where it belongs; False when nobody answered."""
    if isinstance(read, tuple):
        for index, part in piece.parts:
            answers[index] = read[part]
        return True
    for index, _ in piece.parts:
        answers[index] = read
    return read is not Flaw.TIMEOUT
