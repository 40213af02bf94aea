"""A device that publishes: its newest message per topic, scanned at the profile's period.

Nothing is queued: a topic has one latest message, whatever the rate. A retained message is from
nobody knows when, so its values are SUSPECT until the device speaks; silence makes them BAD. What
a device said before it was reported gone is stale at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from drivers.mqtt.addressing import below
from drivers.mqtt.freshness import SKEW_MS, Freshness, SourceClock, source_ms
from drivers.mqtt.latest import Latest, Message, Slot
from drivers.mqtt.paths import Paths, walk
from drivers.profile.binding import Binding, MqttAt, Places
from drivers.profile.codec import Answer
from drivers.profile.compiled import Decoder
from facility.clock import Clock
from facility.commands import Ack, Command, Outcome
from facility.points import ByteArray, Flaw, FloatArray, Grade, IntArray, Layout, Scan, quality
from facility.ports import Bus

_RETAINED: Final = quality(Grade.SUSPECT, Flaw.RETAINED)
_SEVERAL: Final = quality(Grade.SUSPECT, Flaw.SUBSTITUTED)
_UNSURE: Final = quality(Grade.SUSPECT, Flaw.CLOCK_SKEW)
_SKEWED: Final = quality(Grade.GOOD, Flaw.CLOCK_SKEW)
#: qualities that stand for a value which nothing is said against
_CLEAN: Final = (quality(Grade.GOOD), _SKEWED)
_SKEW: Final = {Freshness.UNSURE: _UNSURE, Freshness.SKEWED: _SKEWED}


class MqttDevice:
    """Implements `facility.ports.Device` on a bus, for profiles of protocol `mqtt`."""

    def __init__(
        self,
        binding: Binding,
        bus: Bus,
        clock: Clock,
        topic: str,
        *,
        endpoint: str = "broker",
        latest: Latest | None = None,
    ) -> None:
        """Subscribe to the device's topics; the bus is started by its owner.

        Args:
            binding: profile bound to the device.
            bus: shared by all devices of a broker.
            clock: ages.
            topic: the device's own; the profile's topics are below it.
            endpoint: what health reports group devices by.
            latest: the messages of the bus, shared by its devices; this device's own when None.

        Raises:
            ValueError: a profile of another protocol, or a topic with wildcards.
        """
        if binding.profile.protocol != "mqtt":
            raise ValueError(f"{binding.profile.profile} is no MQTT profile")
        if not topic or set(topic) & {"+", "#"}:
            raise ValueError(f"{topic!r} is not the topic of one device")
        self.binding = binding
        self._clock, self._endpoint, self._topic = clock, endpoint, topic
        self._latest = latest or Latest(bus, clock)
        self._tables = {layout.key: self._table(layout) for layout in binding.layouts}
        self._gone_s = float("-inf")
        bus.subscribe(self._full(binding.profile.availability.topic), self._on_availability)

    @property
    def id(self) -> str:
        """Name in the facility file."""
        return self.binding.device

    @property
    def endpoint(self) -> str:
        """The broker."""
        return self._endpoint

    @property
    def layouts(self) -> tuple[Layout, ...]:
        """One per poll class, fixed for the life of the device."""
        return self.binding.layouts

    def period_s(self, layout: Layout) -> float:
        """How often the latest message is looked at."""
        return self.binding.periods[layout.key]

    async def read(self, layout: Layout) -> Scan:
        """The latest values; received when the newest message in them was."""
        table = self._tables[layout.key]
        now_ms, now_s = self._clock.utc_ms(), self._clock.monotonic_s()
        values, grades = table.look(now_s, self._gone_s)
        newest = table.newest()
        if newest is None:
            return Scan(layout, values, grades, now_ms, now_ms, now_s)
        told_ms = table.source_ms()
        return Scan(
            layout,
            values,
            grades,
            newest.received_ms if told_ms is None else told_ms,
            newest.received_ms,
            newest.received_s,
        )

    async def write(self, command: Command) -> Ack:
        """Refuse: what this profile describes is only read."""
        detail = f"{command.point} is not writable"
        return Ack(command, Outcome.REJECTED, None, detail, self._clock.utc_ms())

    async def close(self) -> None:
        """Nothing to let go of: the bus belongs to its owner."""

    def _full(self, topic: str) -> str:
        for name, text in self.binding.names.items():
            topic = topic.replace(f"{{{name}}}", text)
        return below(self._topic, topic)

    def _table(self, layout: Layout) -> _Table:
        points = self.binding.points[layout.key]
        sums = self.binding.sums[layout.key]
        places = Places.of(at for point in points for at in point.places)
        index = {at: i for i, at in enumerate(places.at)}
        found: dict[tuple[str, tuple[str, ...], str], list[int]] = {}
        for i, at in enumerate(places.at):
            if isinstance(at, MqttAt):
                key = (self._full(at.topic), at.where.time, at.where.time_as)
                found.setdefault(key, []).append(i)
        sources = []
        for (topic, time, form), mine in found.items():
            touched = [n for n, p in enumerate(points) if {index[at] for at in p.places} & {*mine}]
            touched += [len(points) + k for k, s in enumerate(sums) if {*s.members} & {*touched}]
            wanted = [(at.path, i) for i in mine if isinstance(at := places.at[i], MqttAt)]
            stale_s = min(p.spec.stale_after_s for p in points)
            slot = self._latest.watch(topic)
            sources.append(_Source(slot, Paths(wanted), time, form, touched, stale_s))
        return _Table(Decoder(points, sums, places), sources, len(places.at))

    def _on_availability(self, topic: str, payload: bytes, retained: bool) -> None:
        """Gone: what was said before is stale, until the device speaks.

        A retained goodbye is older than what was heard since we listen.
        """
        told = self.binding.profile.availability
        message = Message(topic, payload[:4096], retained, 0, 0.0)
        said = walk(message.body, told.path) if told.path else message.text
        if said != told.offline or (retained and self._heard_live()):
            return
        self._gone_s = self._clock.monotonic_s()

    def _heard_live(self) -> bool:
        newest = [table.newest() for table in self._tables.values()]
        return any(m is not None and not m.retained for m in newest)


class _Source:
    """The points of a layout that come on one topic with one source time.

    Attributes:
        clock: what the source times say, where there are some.
    """

    def __init__(
        self,
        slot: Slot,
        paths: Paths,
        time: tuple[str, ...],
        form: str,
        touched: Sequence[int],
        stale_s: float,
    ) -> None:
        self.slot, self._paths, self._time, self._form = slot, paths, time, form
        self._touched: IntArray = np.array(touched, dtype=np.int64)
        self._stale_s = stale_s
        self.clock = SourceClock(stale_s)
        self.seen: Message | None = None
        self._why: Flaw | int = 0

    def hear(self, now_s: float, gone_s: float) -> tuple[object, object]:
        """Look at the newest message; two calls that return the same mean the same values."""
        message = self.slot.newest
        if message is None:
            self._why = Flaw.TIMEOUT
            return None, self._why
        if message is not self.seen:
            changed = self.seen is not None and message.payload != self.seen.payload
            self.seen = message
            if self._time:
                told = source_ms(walk(message.body, self._time), self._form)
                at_ms, at_s = message.received_ms, message.received_s
                self.clock.hear(told, at_ms, at_s, changed=changed)
        self._why = self._judge(message, now_s, gone_s)
        return message, self._why

    def _judge(self, message: Message, now_s: float, gone_s: float) -> Flaw | int:
        """A flaw in place of the values, or the quality that clean values have at best."""
        if message.received_s <= gone_s or now_s - message.received_s > self._stale_s:
            return Flaw.STALE
        fresh = self.clock.judge(now_s)
        if fresh is Freshness.OLD:
            return Flaw.STALE
        if message.retained:
            return _RETAINED
        if now_s - self.slot.rival_s <= self._stale_s:
            return _SEVERAL
        return _SKEW.get(fresh, 0)

    def fill(self, answers: list[Answer]) -> None:
        """Put the raws of the message last heard into the answers."""
        if isinstance(self._why, Flaw) or self.seen is None:
            self._paths.miss(Flaw(self._why), answers)
        else:
            self._paths.fill(self.seen, answers)

    def mark(self, grades: ByteArray) -> None:
        """Lower the quality of values that nothing is said against."""
        if not isinstance(self._why, Flaw) and self._why:
            mine = grades[self._touched]
            grades[self._touched] = np.where(np.isin(mine, _CLEAN), self._why, mine)


class _Table:
    """What it takes to read one layout; values are worked out anew only when something changed."""

    def __init__(self, decoder: Decoder, sources: Sequence[_Source], places: int) -> None:
        self._decoder, self._sources = decoder, tuple(sources)
        self._answers: list[Answer] = [Flaw.TIMEOUT] * places
        self._state: object = None
        self._seen: tuple[FloatArray, ByteArray] | None = None

    def look(self, now_s: float, gone_s: float) -> tuple[FloatArray, ByteArray]:
        """Values and qualities now; nobody may write into them."""
        state = [source.hear(now_s, gone_s) for source in self._sources]
        if self._seen is None or state != self._state:
            for source in self._sources:
                source.fill(self._answers)
            values, grades = self._decoder(self._answers)
            for source in self._sources:
                source.mark(grades)
            self._state, self._seen = state, (values, grades)
        return self._seen

    def newest(self) -> Message | None:
        """The message received last."""
        heard = [m for source in self._sources if (m := source.slot.newest) is not None]
        return max(heard, key=lambda message: message.received_s, default=None)

    def source_ms(self) -> int | None:
        """The latest source time of a clock that is right; None when there is none."""
        told = [
            source.clock.source_ms
            for source in self._sources
            if source.seen is not None
            and source.clock.source_ms is not None
            and abs(source.clock.source_ms - source.seen.received_ms) <= SKEW_MS
        ]
        return max(told, default=None)
