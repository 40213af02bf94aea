"""One host and port, or one serial line: everything that is true of all units behind it.

One connection, one request at a time. Where frames carry a transaction number, a late answer is
recognised by it and the link is kept; where they do not (RTU), the link is dropped after a
silence, and what a unit still owes is remembered (`owed.py`), so that it is asked next for what
cannot be mistaken. So no answer is ever taken for that of another request.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

import structlog

from drivers.address import Address
from drivers.modbus.framing import Frame, Framing, Garbled, Mbap, Rtu
from drivers.modbus.owed import Owed
from drivers.modbus.pdu import NOBODY_THERE, Fault
from drivers.modbus.reasons import no_connection
from drivers.modbus.tempo import MOST, Tempo
from drivers.modbus.turns import Turns
from drivers.modbus.wire import Dial, Wire
from drivers.modbus.wires import dial_for
from drivers.profile import Quirk
from drivers.transport import Links

log = structlog.get_logger(__name__)

PAUSE_AFTER_CONNECT_S: Final = 2.0
PAUSE_BETWEEN_REQUESTS_S: Final = 0.06
#: a connection may take this many usual timeouts
CONNECT_TIMEOUTS: Final = 2.0
#: attempts to connect to a device that somebody else may hold for a moment, and their distance
TRIES_OF_SINGLE, TRY_AGAIN_S = 4, 0.25
#: silences in a row, with nothing heard from anyone, after which a link is taken for half-open
HALF_OPEN_AFTER: Final = 2
#: late answers that are still waited for
MOST_OVERDUE: Final = 32
STRAY: Final = "an answer that belongs to no request"
#: after a stray answer the right one is waited for so long at least, seconds
LEAST_GRACE_S: Final = 0.02
#: bytes around a PDU: unit and checksum
RTU_FRAME: Final = 3


class _Asked(NamedTuple):
    transaction: int
    unit: int
    function: int
    size: int
    at_s: float
    answer: asyncio.Future[bytes | Fault]


class ModbusLink:
    """The connection that all units of an endpoint share."""

    def __init__(self, address: Address, links: Links, dial: Dial | None = None) -> None:
        """Talk to nobody yet; `dial` replaces how the address is reached."""
        self.name = address.endpoint
        self.turns = Turns()
        self.connects = 0
        #: what was odd on this link, by name; of whom, see `odd_of`
        self.odd: Counter[str] = Counter()
        self._odd_of: dict[int, Counter[str]] = {}
        #: why the last attempt to connect failed, in words; empty when it did not
        self.trouble = ""
        #: seconds that the last answer took, without the time of its bytes on a serial line
        self.took_s = 0.0
        self.probe_again_s = float("-inf")
        self._clock, self._rng = links.clock, links.rng
        self._timeout_s = links.timeout_s
        self._dial = dial or dial_for(address)
        plain = address.scheme in ("modbus", "modbus+tls")
        self._framing: Framing = Mbap() if plain else Rtu()
        self._serial = address.line
        self._host = "" if address.line else address.host
        self._patience = links.patience()
        self._quirks: set[Quirk] = set()
        self._units: dict[int, Tempo] = {}
        self._wire: Wire | None = None
        self._generation = 0
        self._heard = False
        self._silences = self._unheard = 0
        self._ready_s = self._last_byte_s = float("-inf")
        self._transaction = self._rng.randrange(1, 0x10000)
        self._asked: _Asked | None = None
        #: transaction that a stray answer may have been meant for
        self._doubted = 0
        self._overdue: dict[int, tuple[int, float]] = {}
        self._owed = Owed()

    @property
    def numbered(self) -> bool:
        """Whether an answer tells which request it belongs to."""
        return self._framing.numbered

    def owed(self, unit: int, function: int) -> frozenset[int]:
        """Lengths of answers that may still come, and be mistaken for that to the next request."""
        if self.numbered:
            return frozenset()
        return self._owed.sizes(unit, function, self._clock.monotonic_s())

    @property
    def shared(self) -> bool:
        """Whether more than one unit is behind it."""
        return len(self._units) > 1

    def others_well(self, unit: int) -> bool:
        """Whether a silent unit has neighbours whose time it takes."""
        return any(tempo.known for other, tempo in self._units.items() if other != unit)

    @property
    def waiting(self) -> bool:
        """Whether it is left alone now because nobody could be reached."""
        return self._wire is None and self._patience.waiting

    def join(self, unit: int, quirks: Collection[Quirk]) -> Tempo:
        """Say that a unit is behind this link, and what has to be minded for its sake."""
        self._quirks.update(quirks)
        if unit not in self._units:
            self._units[unit] = Tempo(self._clock, self._rng, self._timeout_s)
        return self._units[unit]

    def note(self, unit: int, what: str) -> None:
        """Something odd came from a unit, or happened to it."""
        self.odd[what] += 1
        if unit in self._units:  # not of whoever noise happens to name
            self._odd_of.setdefault(unit, Counter())[what] += 1

    def odd_of(self, unit: int) -> Mapping[str, int]:
        """What was odd about one unit, and how often."""
        return self._odd_of.get(unit, {})

    async def ask(
        self,
        unit: int,
        request: bytes,
        size: int,
        *,
        urgent: bool = False,
        by_s: float = float("inf"),
        void_s: float = float("inf"),
    ) -> bytes | Fault:
        """Send one PDU and wait for the answer's. The caller has the turn.

        Args:
            unit: whom to ask.
            request: the PDU.
            size: bytes that the PDU of its answer has.
            urgent: try to connect although the link is being left alone; wait the usual timeout.
            by_s: until when an answer is waited for at most; monotonic.
            void_s: when nothing must be sent any more; monotonic.
        """
        if self._wire is None and not await self._connect(urgent):
            return Fault.AWAY
        ready_s = self._ready_s
        if self._serial is not None:
            # A frame ends with 3.5 characters of silence, 1.75 ms at high rates.
            silence_s = max(3.5 * self._serial.character_s, 0.00175)
            ready_s = max(ready_s, self._last_byte_s + silence_s)
        now_s = self._clock.monotonic_s()
        if ready_s > now_s:
            await asyncio.sleep(ready_s - now_s)
            now_s = self._clock.monotonic_s()
        wire = self._wire
        if wire is None:
            return Fault.HUNG_UP
        if now_s > void_s:
            return Fault.LATE
        loop = asyncio.get_running_loop()
        self._transaction = transaction = self._transaction % 0xFFFF + 1
        answer: asyncio.Future[bytes | Fault] = loop.create_future()
        self._asked = asked = _Asked(transaction, unit, request[0], size, now_s, answer)
        if not self.numbered:
            self._framing.reset()
        wire_s = self._line_s(len(request) + size + 2 * RTU_FRAME)
        wait_s = min(self._wait_s(unit, urgent) + wire_s, max(by_s - now_s, 0.0))
        expiry = loop.call_later(wait_s, _settle, answer, Fault.SILENT)
        wire.write(self._framing.wrap(transaction, unit, request))
        try:
            outcome = await answer
        except asyncio.CancelledError:
            self._unanswered(asked)
            if urgent:
                self._take_back(unit, wire)
            raise
        finally:
            expiry.cancel()
            self._asked = None
        self.took_s = max(self._clock.monotonic_s() - now_s - wire_s, 0.0)
        if isinstance(outcome, bytes):
            self._answered()
        elif outcome is Fault.SILENT:
            self._silences += 1
            self._unanswered(asked)
            if urgent:
                self._take_back(unit, wire)
        elif outcome is Fault.HUNG_UP:
            # Who hangs up at once had not even seen it; else a device server may still pass it on.
            if not self.numbered and self.took_s > LEAST_GRACE_S:
                self._owed.add(unit, request[0], size, now_s)
        else:
            self.note(unit, outcome.value)
            self._unanswered(asked)
            if outcome is Fault.GARBLED:
                if self._serial is None:
                    self.drop()
                else:  # noise before an answer, say: let what follows pass
                    mean_s = self._units[unit].mean_s
                    await asyncio.sleep(min(wait_s, max(2.0 * mean_s, LEAST_GRACE_S) + wire_s))
        return outcome

    def drop(self) -> None:
        """Close the connection; the next request opens a new one."""
        wire, self._wire = self._wire, None
        self._generation += 1
        self._silences = 0
        self._framing.reset()
        self._overdue.clear()
        if wire is not None:
            wire.close()

    def rest(self) -> None:
        """A device's look is over: let others connect, where only one may and nobody waits."""
        if "single_client" in self._quirks and self.turns.idle:
            self.drop()

    def probed(self, unit: int) -> None:
        """A silent unit was asked; where others are well, the next such question has to wait."""
        if self.others_well(unit):
            self.probe_again_s = self._clock.monotonic_s() + 9.0 * self.took_s

    def tries(self) -> int:
        """How often a read may find the connection closed under it before it gives up."""
        return TRIES_OF_SINGLE if "single_client" in self._quirks else 2

    async def _connect(self, urgent: bool) -> bool:
        if self._patience.waiting and not urgent:
            return False
        again = self.tries() if "single_client" in self._quirks else 1
        while True:
            began_s = self._clock.monotonic_s()
            if await self._connected():
                return True
            again -= 1
            # Who is held by another says so at once; who says nothing is not there.
            if not again or self._clock.monotonic_s() - began_s >= self._timeout_s:
                self._patience.silent()
                return False
            await asyncio.sleep(TRY_AGAIN_S * self._rng.uniform(0.5, 1.5))

    async def _connected(self) -> bool:
        self.drop()
        self.connects += 1
        mine = self._generation
        try:
            async with asyncio.timeout(CONNECT_TIMEOUTS * self._timeout_s):
                wire = await self._dial(
                    lambda data: self._data(mine, data), lambda: self._lost(mine)
                )
        except OSError as error:
            self.odd[Fault.AWAY.value] += 1
            self.trouble = no_connection(error, self._host, CONNECT_TIMEOUTS * self._timeout_s)
            return False
        self.trouble = ""
        if mine != self._generation:
            wire.close()
            return False
        self._wire, self._heard = wire, False
        if "pause_after_connect" in self._quirks:
            self._ready_s = self._clock.monotonic_s() + PAUSE_AFTER_CONNECT_S
        return True

    def _answered(self) -> None:
        self._heard, self._silences, self._unheard = True, 0, 0
        self._patience.answered()
        if "close_after_each" in self._quirks:
            self.drop()
        elif "pause_between_requests" in self._quirks:
            self._ready_s = self._clock.monotonic_s() + PAUSE_BETWEEN_REQUESTS_S

    def _unanswered(self, asked: _Asked) -> None:
        """Nobody waits for this answer any more: see to it that nobody else takes it."""
        if self.numbered:
            while len(self._overdue) >= MOST_OVERDUE:
                self._overdue.pop(next(iter(self._overdue)))
            self._overdue[asked.transaction] = (asked.unit, asked.at_s)
            if self._silences >= HALF_OPEN_AFTER:
                self.drop()
        else:
            self._owed.add(asked.unit, asked.function, asked.size, asked.at_s)
            if self._serial is None:
                self.drop()

    def _take_back(self, unit: int, wire: Wire) -> None:
        """See to it that a write which has not even left for the device never does.

        A system goes on sending for minutes what it was given, also after a connection was closed.
        """
        if wire.take_back() and wire is self._wire:
            self.note(unit, "a write was taken back")
            self.drop()

    def _wait_s(self, unit: int, urgent: bool) -> float:
        tempo = self._units[unit]
        wait_s = tempo.wait_s(shared=self.shared)
        if urgent:
            return max(wait_s, self._timeout_s)
        if self.numbered and tempo.known and self._overdue:
            # A gateway that still waits for another unit has not even asked this one yet.
            recent_s = self._clock.monotonic_s() - MOST * self._timeout_s
            if any(u != unit and s > recent_s for u, s in self._overdue.values()):
                return max(wait_s, 2.0 * self._timeout_s)
        return wait_s

    def _line_s(self, size: int) -> float:
        return 0.0 if self._serial is None else size * self._serial.character_s

    def _data(self, generation: int, data: bytes) -> None:
        if generation != self._generation:
            return
        self._last_byte_s = self._clock.monotonic_s()
        try:
            frames = self._framing.feed(data)
        except Garbled:
            if self._asked is None and self._serial is not None:
                return  # noise on a quiet line
            self._settle(Fault.GARBLED)
            if self._asked is None:
                self.drop()
            return
        for frame in frames:
            self._take(frame)

    def _take(self, frame: Frame) -> None:
        asked = self._asked
        if asked is not None and not asked.answer.done() and self._fits(frame, asked):
            if not self.numbered:
                self._owed.answered(asked.unit, frame.pdu, asked.size, asked.at_s)
            self._settle(Fault.GARBLED if frame.unit != asked.unit else frame.pdu)
            return
        if frame.transaction is None:
            unit, at_s = frame.unit, self._owed.came(frame.unit, frame.pdu)
        else:
            unit, at_s = self._overdue.pop(frame.transaction, (frame.unit, None))
        if at_s is not None:
            self._late(unit, self._clock.monotonic_s() - at_s, frame.pdu)
            return
        self.note(frame.unit if asked is None else asked.unit, STRAY)
        if self.odd[STRAY] == 1:  # a device that miscounts does so all day
            log.warning(STRAY, endpoint=self.name, unit=frame.unit)
        if asked is None or asked.answer.done():
            return
        if self.numbered and asked.transaction != self._doubted:
            self._doubted = asked.transaction
            # An answer that came twice, and ours is still on its way; or ours, miscounted.
            grace_s = max(2.0 * self._units[asked.unit].mean_s, LEAST_GRACE_S)
            asyncio.get_running_loop().call_later(grace_s, _settle, asked.answer, Fault.MISMATCHED)
        elif not self.numbered and frame.unit == asked.unit:
            self._settle(Fault.GARBLED)

    def _fits(self, frame: Frame, asked: _Asked) -> bool:
        if frame.transaction is not None:
            return frame.transaction == asked.transaction
        refused = frame.pdu[0] == asked.function | 0x80
        same = frame.pdu[0] == asked.function and len(frame.pdu) == asked.size
        return frame.unit == asked.unit and (refused or same)

    def _late(self, unit: int, took_s: float, pdu: bytes) -> None:
        self._silences = 0
        self.note(unit, "late answer")
        if len(pdu) == 2 and pdu[0] & 0x80 and pdu[1] in NOBODY_THERE:
            self._units[unit].gateway_waits(took_s)
        else:
            self._units[unit].late(took_s)

    def _settle(self, outcome: bytes | Fault) -> None:
        if self._asked is not None:
            _settle(self._asked.answer, outcome)

    def _lost(self, generation: int) -> None:
        if generation != self._generation:
            return
        if not self._heard:
            # One unit that makes its gateway hang up is no reason to leave the others alone.
            self._unheard += 1
            if self._unheard > 1:
                self._patience.silent()
        self.drop()
        self._settle(Fault.HUNG_UP)


def _settle(answer: asyncio.Future[bytes | Fault], outcome: bytes | Fault) -> None:
    if not answer.done():
        answer.set_result(outcome)
