"""A transport without a wire: an impersonated device in the same process, for virtual time.

It is as silent, slow or garbled as the plant says, and the driver waits as long as it would for a
real one, so a simulated hour under a virtual clock shows the same gaps as a real one.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Final

from drivers.catalog import profiles
from drivers.device import ProfiledDevice
from drivers.profile.binding import At, Places, bind
from drivers.profile.codec import Answer, Raw
from drivers.sim.impersonation import Impersonation
from drivers.sim.source import SLOW_S, InstrumentSource
from drivers.transport import FOREVER, TIMEOUT_S, Patience, WriteReply
from facility.clock import Clock
from facility.config import DeviceConfig
from facility.points import Flaw

#: what a healthy device needs for an answer, seconds
LATENCY_S: Final = 0.004


class SimTransport:
    """Implements `drivers.transport.Transport` on an `Impersonation`."""

    host = ""

    def __init__(self, who: Impersonation, clock: Clock, rng: random.Random) -> None:
        self._who = who
        self._patience = Patience(clock, rng)
        self.endpoint = f"sim:{who.device}"
        self.requests = 0

    async def fetch(self, places: Places) -> Sequence[Answer]:
        """What the impersonated device answers now."""
        if self._patience.waiting:
            return (Flaw.TIMEOUT,) * len(places.at)
        if not await self._heard():
            self._patience.silent()
            return (Flaw.TIMEOUT,) * len(places.at)
        self._patience.answered()
        if self._who.health == "garbage":
            return (Flaw.UNDECODABLE,) * len(places.at)
        return tuple(self._who.answer(at) for at in places.at)

    async def put(self, place: At, raw: Raw, within_s: float = FOREVER) -> WriteReply:
        """One attempt; a garbled answer is no answer."""
        if not await self._heard() or self._who.health == "garbage":
            return WriteReply("unanswered", "no answer")
        return self._who.accept(place, raw)

    async def close(self) -> None:
        """Nothing to let go of."""

    async def _heard(self) -> bool:
        self.requests += 1
        health = self._who.health
        if health == "dead":
            await asyncio.sleep(TIMEOUT_S)
            return False
        await asyncio.sleep(SLOW_S if health == "slow" else LATENCY_S)
        return True


def simulated_device(
    config: DeviceConfig, device: str, source: InstrumentSource, clock: Clock, rng: random.Random
) -> ProfiledDevice:
    """A device of a facility file on a `SimTransport`, whatever its address says.

    Raises:
        ValueError: no such profile, or one that is published (MQTT) and not asked.
    """
    profile = profiles().get(config.profile)
    if profile is None or profile.protocol == "mqtt":
        raise ValueError(f"{device}: no profile {config.profile!r} that can be asked")
    who = Impersonation(profile, device, source, config.parameters)
    binding = bind(profile, device, config.parameters, period_s=config.period, writable=True)
    return ProfiledDevice(binding, SimTransport(who, clock, rng), clock)
