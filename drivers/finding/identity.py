"""A device that is asked now and then whether it still is what its profile is for.

Addresses are given to other devices, and firmware is updated: a profile that fitted reads wrong
numbers then, silently. What a device says of itself is weighed like this. It fits: nothing to say.
Another profile knows it, or its firmware is outside the range whose scales these are: its readings
are SUSPECT (SUBSTITUTED) and nothing is written to it, since the numbers may mean anything. Nobody
knows it: that is told in its health, no more, since no list of sysObjectIDs is ever complete and a
person chose the profile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import structlog

from drivers.device import ProfiledDevice
from drivers.finding.recognising import Claim, Unclear, claim_of, fits, recognise
from drivers.finding.walking import Asks
from drivers.profile import Profile
from drivers.profile.binding import Binding
from drivers.transport import Transport
from facility.clock import Clock
from facility.commands import Ack, Command, Outcome
from facility.points import Flaw, Grade, Layout, Scan, quality

log = structlog.get_logger(__name__)

#: a device is asked again after this long, and after each silence
ASK_AGAIN_S: Final = 3600.0
#: one that does not say who it is is asked again after this long
MUTE_S: Final = 300.0
#: it is given this long to say so, seconds
ASK_DEADLINE_S: Final = 5.0
#: one that seems to be another is asked again after this long, then after twice as long, and so on:
#: an agent that starts tells less of itself than it will
DOUBT_S: Final = 30.0
SUBSTITUTED: Final = quality(Grade.SUSPECT, Flaw.SUBSTITUTED)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a device is what its profile is for.

    Attributes:
        strange: what does not fit, in words; empty when all does.
        wrong: whether its numbers may mean something else than the profile says.
    """

    strange: str = ""
    wrong: bool = False


def judged(profile: Profile, claim: Claim, known: Iterable[Profile]) -> Verdict:
    """What a device's own words say of the profile that it is read with."""
    if fits(profile, claim):
        return Verdict()
    told = ".".join(map(str, claim.object_id)) or "none"
    who = f"it says sysObjectID {told}, {claim.description[:60]!r}"
    try:
        other = recognise(known, claim).profile
    except Unclear as error:
        if not error.alike:
            firmware = claim.firmware.get(profile.profile)
            if profile.match.firmware is not None and firmware is not None:
                text = f"firmware {firmware or 'unknown'} is none that {profile.profile} is for"
                return Verdict(text, True)
            return Verdict(f"{profile.profile} may not be for this device: {who}")
        other = " or ".join(error.alike)
    return Verdict(f"{profile.profile} is not for this device but {other}: {who}", True)


class IdentifiedDevice(ProfiledDevice):
    """A `ProfiledDevice` that knows whether its profile fits."""

    def __init__(
        self, binding: Binding, transport: Transport, clock: Clock, known: Iterable[Profile]
    ) -> None:
        """Take the profiles that a device may be recognised as."""
        super().__init__(binding, transport, clock)
        self._now_s = clock.monotonic_s
        self._utc_ms = clock.utc_ms
        self._known = [p for p in known if p.protocol == binding.profile.protocol]
        self._ask_at_s = float("-inf")
        self._doubt_s = DOUBT_S
        self.verdict = Verdict()

    @property
    def strange(self) -> str:
        """What does not fit between the device and its profile; empty when all does."""
        return self.verdict.strange

    async def read(self, layout: Layout) -> Scan:
        """One look; SUSPECT throughout while the device is another than the profile is for."""
        scan = await super().read(layout)
        bad = (scan.quality & 0b11) == int(Grade.BAD)
        # One that refuses all that its profile names speaks: it may be another.
        refuses = bool((scan.quality >> 2 == int(Flaw.REFUSED)).any())
        if scan.quality.any() and bool(bad.all()) and not refuses:
            self._ask_at_s, self._doubt_s = float("-inf"), DOUBT_S
            return scan
        if self._now_s() >= self._ask_at_s:
            await self._ask()
        if self.verdict.wrong:
            scan.quality[(scan.quality & 0b11) != int(Grade.BAD)] = SUBSTITUTED
        return scan

    async def write(self, command: Command) -> Ack:
        """One attempt; refused while the device is another than the profile is for."""
        if self.verdict.wrong:
            return Ack(command, Outcome.REJECTED, None, self.verdict.strange, self._utc_ms())
        return await super().write(command)

    async def _ask(self) -> None:
        self._ask_at_s = self._now_s() + ASK_AGAIN_S
        if not isinstance(self.transport, Asks):
            return
        try:
            # A look is waiting for this one's word.
            async with asyncio.timeout(ASK_DEADLINE_S):
                claim = await claim_of(self.transport, self._known)
        except TimeoutError:
            claim = None
        if claim is None:
            # It answers its points, so this is its way: asking at each look would slow them all.
            self._ask_at_s = self._now_s() + MUTE_S
            return
        verdict = judged(self.binding.profile, claim, self._known)
        if verdict.strange:
            self._ask_at_s = self._now_s() + self._doubt_s
            self._doubt_s = min(2.0 * self._doubt_s, ASK_AGAIN_S)
            if not claim.whole:  # a lost datagram makes no other device of it
                return
        else:
            self._doubt_s = DOUBT_S
        if verdict != self.verdict:
            told = verdict.strange or "it fits its profile"
            (log.warning if verdict.strange else log.info)("identity", device=self.id, told=told)
        self.verdict = verdict
