"""Writes points of one device: one attempt, read back, and an outcome that is true.

A command is sent once. It is sent a second time only if the device did not acknowledge it, its
point is idempotent, its deadline has not passed, and a read-back has shown that it did not take:
a lost answer is far likelier than a lost request, and a pulse must not come twice.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from typing import Final

from drivers.profile.binding import Binding, BoundPoint, Places, limits_of, may_write
from drivers.profile.codec import Answer, decode
from drivers.transport import TOO_LATE, Transport, WriteReply
from drivers.writing.target import Target, idempotent, target_of
from facility.clock import Clock
from facility.commands import Ack, Command, Outcome
from facility.points import Flaw, Grade, PointId, grade_of

#: no read-back takes longer, whatever its transport promises
READ_BACK_S: Final = 6.0
#: what does not show the value after the settle time is looked at again after each of these: there
#: are devices that acknowledge at once and move seconds later
LATER_S: Final = (0.5, 1.0, 1.0)
#: the part of what is left of a command's time that looking at the point before it may take
FOR_READING: Final = 0.5
#: a command's deadline is not stretched by a rounding of clocks
HAIR_S: Final = 1e-6


class Writer:
    """The writing half of a device; commands to one device take turns."""

    def __init__(self, binding: Binding, transport: Transport, clock: Clock) -> None:
        self._binding = binding
        self._transport = transport
        self._clock = clock
        self._turn = asyncio.Lock()
        self._sent_s: dict[PointId, float] = {}
        self._left: dict[PointId, float] = {}
        self._places: dict[PointId, Places] = {}

    async def write(self, command: Command) -> Ack:
        """Carry out one command; never raises for what a plant does.

        Refused without a word on the wire: a point that is not writable here, no finite number,
        a value outside the profile's bounds, a command past its deadline.
        """
        void_s = self._void_s(command)
        async with self._turn:
            point = self._binding.find(command.point)
            refusal = self._refusal(command, point, void_s) or await self._pause(point, void_s)
            if refusal or point is None or point.entry.write is None:
                return self._ack(command, Outcome.REJECTED, None, refusal or "no such point")
            # On a crowded line a read waits its turn; the write must not be too late for it.
            before, answers = await self._current(point, FOR_READING * self._left_s(void_s))
            target = target_of(point, command.value, *answers)
            if target is None:
                words = "the device cannot hold this value"
                return self._ack(command, Outcome.REJECTED, None, words)
            found = self._found(point, target, before)
            ack = await self._sent(command, point, target, before, void_s)
            if ack.actual is not None:
                self._left[point.spec.id] = ack.actual
            return (
                ack
                if not found
                else self._ack(command, ack.outcome, ack.actual, f"{ack.detail}; {found}")
            )

    async def _sent(
        self,
        command: Command,
        point: BoundPoint,
        target: Target,
        before: float | None,
        void_s: float,
    ) -> Ack:
        """Put it on the wire, and see what became of it."""
        again = ""
        reply = WriteReply("unanswered")
        for last in (False, True):
            said = await self._put(point, target, void_s)
            if last and said is TOO_LATE:
                again = ""
                break
            reply = said
            if reply.outcome == "rejected":
                return self._ack(command, Outcome.REJECTED, before, reply.detail + again)
            acknowledged = reply.outcome == "accepted"
            await asyncio.sleep(_settle_s(point))
            actual, _ = await self._current(point)
            lost = not acknowledged and actual is not None and not target.took(actual)
            if last or not lost or not idempotent(point) or self._late(void_s):
                break
            again = ", sent twice: the first had not taken"
        actual = await self._settled(point, target, before, actual)
        outcome, words = target.judged(before, actual, acknowledged, reply.detail)
        return self._ack(command, outcome, actual, words + again)

    async def _settled(
        self, point: BoundPoint, target: Target, before: float | None, actual: float | None
    ) -> float | None:
        """The value in force once it shows what was asked, stands elsewhere, or stays away."""
        for wait_s in LATER_S:
            if target.took(actual):
                return actual
            await asyncio.sleep(max(wait_s, _settle_s(point)))
            seen, _ = await self._current(point)
            moved = actual is not None and before is not None and not target.same(actual, before)
            if moved and seen is not None and actual is not None and target.same(seen, actual):
                return seen
            actual = seen
        return actual

    async def _put(self, point: BoundPoint, target: Target, void_s: float) -> WriteReply:
        self._sent_s[point.spec.id] = self._clock.monotonic_s()
        return await self._transport.put(point.at, target.raw, self._left_s(void_s) + HAIR_S)

    async def _pause(self, point: BoundPoint | None, void_s: float) -> str | None:
        """Wait until the profile allows another write; why not, if the deadline comes first."""
        write = None if point is None else point.entry.write
        if point is None or write is None or write.every is None:
            return None
        now_s = self._clock.monotonic_s()
        since_s = now_s - self._sent_s.get(point.spec.id, -math.inf)
        if since_s >= write.every:
            return None
        wait_s = write.every - since_s
        if self._left_s(void_s) < wait_s:
            return f"written {since_s:.0f} s ago; the device takes one write in {write.every:g} s"
        await asyncio.sleep(wait_s)
        return None

    def _found(self, point: BoundPoint, target: Target, before: float | None) -> str:
        """That somebody else wrote since our last command; empty if not, or if nobody knows."""
        left = self._left.get(point.spec.id)
        if left is None or before is None or target.same(left, before):
            return ""
        return f"somebody else had written: it stood at {before:g}, we had left it at {left:g}"

    def _refusal(self, command: Command, point: BoundPoint | None, void_s: float) -> str | None:
        if point is None:
            return f"{self._binding.device} has no point {command.point}"
        limits = limits_of(point.entry)
        if limits is None:
            return f"{command.point} is not writable"
        profile = self._binding.profile
        if not may_write(profile, self._transport.host):
            return (
                f"profile {profile.profile} is verified only by {profile.verified}: "
                f"it may not write to {self._transport.host}"
            )
        if not math.isfinite(command.value):
            return "no finite number"
        if not limits.low <= command.value <= limits.high:
            return f"{command.value:g} lies outside {limits.low:g} to {limits.high:g}"
        if self._late(void_s):
            return f"older than its deadline of {command.deadline_s:g} s when its turn came"
        return None

    def _void_s(self, command: Command) -> float:
        """Until when a command may be sent, monotonic: its age counts, a clock set later does not.

        One that was issued in the future, by a clock set back, holds no longer than it says.
        """
        age_s = max((self._clock.utc_ms() - command.issued_ms) / 1000.0, 0.0)
        return self._clock.monotonic_s() + command.deadline_s - age_s

    def _late(self, void_s: float) -> bool:
        return self._left_s(void_s) < -HAIR_S

    def _left_s(self, void_s: float) -> float:
        return void_s - self._clock.monotonic_s()

    async def _current(
        self, point: BoundPoint, within_s: float = READ_BACK_S
    ) -> tuple[float | None, tuple[Answer | None, Answer | None]]:
        """The value in force, None if it cannot be read; and the device's decimals and unit."""
        places = self._places.get(point.spec.id)
        if places is None:
            places = Places.of((point.readback, *point.places[1:]))
            self._places[point.spec.id] = places
        told = dict(zip(places.at, await self._fetch(places, within_s), strict=True))
        digits = None if point.digits is None else told[point.digits]
        unit = None if point.unit_at is None else told[point.unit_at]
        decoded = decode(point, told[point.readback], digits, unit)
        value = None if grade_of(decoded.quality) is Grade.BAD else decoded.value
        return value, (digits, unit)

    async def _fetch(self, places: Places, within_s: float) -> Sequence[Answer]:
        try:
            async with asyncio.timeout(min(within_s, READ_BACK_S)):
                return await self._transport.fetch(places)
        except TimeoutError:
            return (Flaw.TIMEOUT,) * len(places.at)

    def _ack(self, command: Command, outcome: Outcome, actual: float | None, detail: str) -> Ack:
        return Ack(command, outcome, actual, detail, self._clock.utc_ms())


def _settle_s(point: BoundPoint) -> float:
    return 0.0 if point.entry.write is None else point.entry.write.settle
