"""One device that publishes, read as a transport: for a person who looks at it for a moment.

The service reads such devices with `MqttDevice`, which knows ages, clocks and farewells. This only
waits a few seconds for each topic's newest message and says what stands in it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Final

from drivers.mqtt.addressing import below
from drivers.mqtt.bus import MqttBus
from drivers.mqtt.latest import Latest, Slot
from drivers.mqtt.paths import Path, Paths
from drivers.profile.binding import At, MqttAt, Places
from drivers.profile.codec import Answer, Raw
from drivers.transport import FOREVER, WriteReply
from facility.clock import Clock
from facility.points import Flaw

#: a look waits so long for every topic to speak; what is kept there counts after that
LISTEN_S: Final = 5.0


class PublishedTransport:
    """What a device says on a broker.

    Attributes:
        requests: messages of the device that were looked at.
        trouble: why nothing was heard, in words.
    """

    def __init__(self, bus: MqttBus, clock: Clock, endpoint: str, host: str, topic: str) -> None:
        """Take a bus of our own; the first look starts it, `close` ends it."""
        self._bus, self._topic = bus, topic
        self._latest = Latest(bus, clock)
        self._slots: dict[str, Slot] = {}
        self._heard = asyncio.Event()
        self.endpoint, self.host = endpoint, host
        self.requests = 0
        self.trouble = ""
        #: topics of which only what was kept is known
        self.kept: set[str] = set()

    async def fetch(self, places: Places) -> Sequence[Answer]:
        """What the newest messages say at each place; TIMEOUT where none came."""
        wanted: dict[str, list[tuple[Path, int]]] = {}
        for i, at in enumerate(places.at):
            if isinstance(at, MqttAt):
                topic = below(self._topic, at.topic)
                wanted.setdefault(topic, []).append((at.path, i))
        slots = {topic: self._slot(topic) for topic in wanted}
        await self._bus.start()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LISTEN_S):
                while not all(map(_spoke, slots.values())):
                    self._heard.clear()
                    await self._heard.wait()
        self.trouble = "" if self._bus.connected else "the broker does not take us"
        answers: list[Answer] = [Flaw.TIMEOUT] * len(places.at)
        for topic, mine in wanted.items():
            message = slots[topic].newest
            if message is None:
                continue
            self.requests += 1
            (self.kept.add if message.retained else self.kept.discard)(topic)
            Paths(mine).fill(message, answers)
        return answers

    async def put(self, place: At, raw: Raw, within_s: float = FOREVER) -> WriteReply:
        """Refuse: what a device publishes is only read."""
        return WriteReply("rejected", "what is published is only read")

    async def close(self) -> None:
        """Leave the broker."""
        await self._bus.close()

    def _slot(self, topic: str) -> Slot:
        slot = self._slots.get(topic)
        if slot is None:
            slot = self._slots[topic] = self._latest.watch(topic)
            self._bus.subscribe(topic, lambda *_: self._heard.set())
        return slot


def _spoke(slot: Slot) -> bool:
    return slot.newest is not None and not slot.newest.retained
