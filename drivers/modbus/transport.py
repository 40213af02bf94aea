"""One Modbus unit behind a link: which requests a look takes, and what their answers mean."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final
from weakref import WeakKeyDictionary

from drivers.address import Address
from drivers.modbus.link import ModbusLink
from drivers.modbus.pdu import (
    BUSY,
    ILLEGAL_ADDRESS,
    NOBODY_THERE,
    UNDECIDED,
    WORKS_ON_IT,
    Fault,
    echoes,
    exception_of,
    exception_text,
    words_of,
    write_request,
)
from drivers.modbus.plans import (
    Learnt,
    Look,
    Piece,
    Plan,
    Read,
    fill,
    halves_of,
    key_of,
    piece_of,
    probe_of,
    unlike,
)
from drivers.modbus.troubles import trouble_of
from drivers.modbus.wire import Dial
from drivers.profile import ModbusLimits, Quirk
from drivers.profile.binding import At, ModbusAt, Places
from drivers.profile.codec import Answer, Raw
from drivers.profile.plan import Block
from drivers.transport import FOREVER, TOO_LATE, Links, WriteReply
from facility.points import Flaw

#: no look takes longer; what was not read by then is a timeout, and read first by the next one
LOOK_S: Final = 5.0
#: the last answer of a look is waited for so much longer at most, seconds
OVERTIME_S: Final = 0.8
#: a look that ended before all was read, where the line or the unit is too slow for its map
CUT_SHORT: Final = "a look ended before all was read"
#: a busy unit is asked again after these, seconds
BUSY_AGAIN_S: Final = (0.1, 0.2, 0.4)
#: an answer that is none is asked for once more
GARBLED_TRIES: Final = 2
#: a unit that was silent so often in a row has been away, and may have restarted
AWAY_AFTER: Final = 3

#: questions that may be asked to find out which answer belongs to which
STEPS: Final = 2


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
        #: where a look that ended too early is gone on with: function and address of a block
        self._resume: WeakKeyDictionary[Places, tuple[str, int]] = WeakKeyDictionary()
        self.host = address.host
        self.requests = 0
        self._trouble = ""

    @property
    def endpoint(self) -> str:
        """`modbus://host:port`, shared with the other units behind it."""
        return self._link.name

    @property
    def trouble(self) -> str:
        """What last went wrong, in words; empty once something was read."""
        return self._link.trouble or self._trouble

    @property
    def link(self) -> ModbusLink:
        """What it shares with the other units."""
        return self._link

    @property
    def odd(self) -> Mapping[str, int]:
        """What was odd about this unit, and how often, since start."""
        return self._link.odd_of(self._unit)

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
        look = Look(places, plan, answers, now_s + LOOK_S)
        if (not tempo.failures or await self._speaks(look)) and await self._read_all(look):
            for function, address, count in doubtful:
                await self._doubt(piece_of(Block(function, address, count), ()), look)
        link.rest()
        return answers

    async def _read_all(self, look: Look) -> bool:
        """Read the blocks, beginning where the last look had to end; False when this one had to."""
        pieces, places = look.plan.pieces, look.places
        from_ = self._resume.pop(places, None)
        if from_ is not None:
            at = next((i for i, p in enumerate(pieces) if key_of(p) >= from_), 0)
            pieces = pieces[at:] + pieces[:at]
        for i, piece in enumerate(pieces):
            if i and self._over(look, self._tempo.mean_s):
                self._link.note(self._unit, CUT_SHORT)
                self._resume[places] = key_of(piece)
                return False
            read = await self._read(piece, look)
            if read is Flaw.REFUSED:  # or it was starting, or busy: what is learnt lasts an hour
                read = await self._read(piece, look)
            if read is Flaw.REFUSED:
                await self._split(piece, look)
            elif not fill(look.answers, piece, read):
                # The others are read first next time: it may be this block that is mute.
                after = piece if look.crowded else pieces[(i + 1) % len(pieces)]
                self._resume[places] = key_of(after)
                return False
        return True

    async def put(self, place: At, raw: Raw, within_s: float = FOREVER) -> WriteReply:
        """Write once: function 5 for a coil, 6 or 16 for registers; before all waiting reads."""
        if not isinstance(place, ModbusAt) or not isinstance(raw, tuple):
            return WriteReply("rejected", "no Modbus value")
        request = write_request(place.where.function, place.address, raw, place.write_function)
        link = self._link
        void_s = self._clock.monotonic_s() + within_s
        if not await link.turns.take(self._unit, urgent=True, wait_s=within_s):
            return TOO_LATE
        unsure = bool(link.owed(self._unit, request[0]))
        try:
            answer = await link.ask(self._unit, request, 5, urgent=True, void_s=void_s)
        finally:
            link.turns.give()
        self.requests += answer not in (Fault.AWAY, Fault.LATE)
        link.rest()
        if answer is Fault.LATE:
            return TOO_LATE
        if isinstance(answer, Fault):
            sent = "; nothing was sent" if answer is Fault.AWAY else ""
            return WriteReply("unanswered", answer.value + sent)
        code = exception_of(request, answer)
        if code not in NOBODY_THERE:
            self._heard()
        if unsure:
            return WriteReply("unanswered", "what came may be the answer to an earlier write")
        if code in UNDECIDED:
            return WriteReply("unanswered", exception_text(code))
        if code is not None and code != WORKS_ON_IT:
            return WriteReply("rejected", exception_text(code))
        if code is None and not echoes(request, answer):
            if not link.numbered:
                link.drop()
            return WriteReply("unanswered", "the answer was to another request")
        return WriteReply("accepted")

    def _heard(self) -> None:
        """It answered a write: whoever reads that back need not wait until it is asked again."""
        if self._tempo.failures >= AWAY_AFTER:
            self._learnt.forget()
        self._tempo.heard()

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

    async def _speaks(self, look: Look) -> bool:
        """Whether a unit that was silent answers one cheap question now."""
        link, tempo = self._link, self._tempo
        if self._clock.monotonic_s() < link.probe_again_s:
            return False
        self._probes += 1
        probe = probe_of(look.plan, self._probes)
        if probe is None:
            return True
        failures = tempo.failures
        if link.owed(self._unit, probe.request[0]):
            spoke = await self._in_step(probe.request[0], look)
        else:
            spoke = await self._read(probe, look) is not Flaw.TIMEOUT
        link.probed(self._unit)
        if spoke and failures >= AWAY_AFTER:
            self._learnt.forget()
        return spoke

    async def _in_step(self, function: int, look: Look) -> bool:
        """Whether the unit answers a question whose answer cannot be that to an earlier one."""
        link, tempo = self._link, self._tempo
        for _ in range(STEPS):
            probe = unlike(look.plan, function, link.owed(self._unit, function))
            if probe is None:
                break
            answer = await self._ask(probe, look)
            if isinstance(answer, bytes):
                code = exception_of(probe.request, answer)
                if code is None:
                    tempo.answered(link.took_s)
                    return True
                if code in NOBODY_THERE:
                    tempo.absent(link.took_s, shared=link.others_well(self._unit))
                    return False
            elif answer in (Fault.AWAY, Fault.CROWDED):
                return False
            elif answer is Fault.SILENT:
                break
        tempo.silent(link.took_s, shared=link.others_well(self._unit))
        return False

    async def _read(self, piece: Piece, look: Look) -> Read:
        """One read; TIMEOUT when nothing came, REFUSED for a bad address, UNDECODABLE for junk.

        A read may be repeated: when the connection was closed under it, when a unit that used to
        answer is silent once, when what came was no answer, and when the unit was busy.
        """
        link, tempo = self._link, self._tempo
        silent, junk, busy = 2 if tempo.known else 1, GARBLED_TRIES, 0
        closed = 1 if tempo.failures else link.tries()
        function = piece.request[0]
        while True:
            if link.owed(self._unit, function) and not await self._in_step(function, look):
                return Flaw.TIMEOUT
            answer = await self._ask(piece, look)
            if isinstance(answer, bytes):
                code = exception_of(piece.request, answer)
                if code in NOBODY_THERE:
                    tempo.absent(link.took_s, shared=link.others_well(self._unit))
                    return Flaw.TIMEOUT
                tempo.answered(link.took_s)
                if code is None:
                    return self._words(piece, answer)
                wait_s = BUSY_AGAIN_S[min(busy, len(BUSY_AGAIN_S) - 1)]
                if code == BUSY and busy < len(BUSY_AGAIN_S) and not self._over(look, wait_s):
                    await asyncio.sleep(wait_s)
                    busy += 1
                    continue
                return Flaw.REFUSED if code in ILLEGAL_ADDRESS else Flaw.DEVICE_FAULT
            if answer in (Fault.AWAY, Fault.CROWDED):
                return Flaw.TIMEOUT
            if answer is Fault.HUNG_UP:
                closed -= 1
                if not closed:
                    tempo.silent(link.took_s, shared=link.others_well(self._unit))
                    return Flaw.TIMEOUT
            elif answer is Fault.SILENT:
                silent -= 1
                if not silent or not link.numbered or self._over(look, link.took_s):
                    tempo.silent(link.took_s, shared=link.others_well(self._unit))
                    return Flaw.TIMEOUT
                tempo.widen()
            else:
                junk -= 1
                if not junk:
                    tempo.silent(link.took_s, shared=link.others_well(self._unit))
                    return Flaw.UNDECODABLE

    async def _ask(self, piece: Piece, look: Look) -> bytes | Fault:
        turns = self._link.turns
        wait_s = None if turns.idle else look.ends_s - self._clock.monotonic_s()
        if not await turns.take(self._unit, wait_s=wait_s):
            look.crowded = True
            self._link.note(self._unit, CUT_SHORT)
            return Fault.CROWDED
        self.requests += 1
        try:
            by_s = look.ends_s + OVERTIME_S
            answer = await self._link.ask(self._unit, piece.request, piece.size, by_s=by_s)
        finally:
            turns.give()
        self._trouble = trouble_of(self._unit, piece.request, answer)
        return answer

    def _words(self, piece: Piece, answer: bytes) -> Read:
        words = words_of(piece.block, answer)
        if words is not None:
            return words
        self._link.note(self._unit, "answer that does not fit its request")
        if not self._link.numbered:
            self._link.drop()
        return Flaw.UNDECODABLE

    async def _split(self, piece: Piece, look: Look) -> bool:
        """Find what a refused block was refused for; False when the look is over.

        Each half is read by itself, down to the one place that the unit does not have. If both
        halves are answered, it is the gap between them that it does not let be read over.
        """
        now_s = self._clock.monotonic_s()
        if len(piece.spans) == 1:
            self._learnt.refuse(piece.spans[0], now_s)
            return fill(look.answers, piece, Flaw.REFUSED)
        halves = halves_of(piece, look.places, self._limits, self._quirks)
        version, whole = self._learnt.version, True
        for half in halves:
            if not look.splits or self._over(look, 0.0):
                self._learnt.cut(halves[1].block, now_s, self._rng)  # go on from here next time
                return False
            look.splits -= 1
            read = await self._read(half, look)
            whole = whole and isinstance(read, tuple)
            if read is Flaw.REFUSED:
                if not await self._split(half, look):
                    return False
            elif not fill(look.answers, half, read):
                return False
        if whole and self._learnt.version == version:
            for right in halves[1:]:
                self._learnt.cut(right.block, now_s, self._rng)
        return True

    async def _doubt(self, piece: Piece, look: Look) -> None:
        """Ask once more for what was refused: it may have come."""
        if self._over(look, 0.0):
            return
        function, address, count = piece.block.function, piece.block.address, piece.block.count
        read = await self._read(piece, look)
        if isinstance(read, tuple):
            self._learnt.forget()
        elif read is Flaw.REFUSED:
            self._learnt.refuse((function, address, count), self._clock.monotonic_s())

    def _over(self, look: Look, wait_s: float) -> bool:
        """Whether the look would be over after waiting so long."""
        return self._clock.monotonic_s() + wait_s > look.ends_s
