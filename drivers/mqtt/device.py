"""A device that publishes: its newest message per topic, scanned at the profile's period.

Nothing is queued: a topic has one latest message, whatever the rate. A retained message is from
nobody knows when, so its values are SUSPECT until the device speaks; silence makes them BAD.
A device says that it is gone with `offline` on `<topic>/availability` (as its last will).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from drivers.profile.binding import Binding, BoundPoint, MqttAt
from drivers.profile.codec import Answer, Decoded, bad, decode
from facility.clock import Clock
from facility.commands import Ack, Command, Outcome
from facility.points import Flaw, Grade, Layout, Scan, grade_of, quality
from facility.ports import Bus

MAX_BYTES: Final = 65_536
#: A device whose clock is further off than this is noted, nothing more: ages are ours.
SKEW_MS: Final = 5000
#: Names in a message that may hold no number: JSON's numbers have no NaN and no infinity.
_NOT_JSON: Final = object()


@dataclass(frozen=True, slots=True)
class _Message:
    """The newest of one topic; `body` is the parsed JSON, or None beside a `text`."""

    body: Any
    text: str
    retained: bool
    received_ms: int
    received_s: float


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
    ) -> None:
        """Subscribe to the device's topics; the bus is started by its owner.

        Args:
            binding: profile bound to the device.
            bus: shared by all devices of a broker.
            clock: ages.
            topic: the device's own; the profile's topics are below it.
            endpoint: what health reports group devices by.

        Raises:
            ValueError: a profile of another protocol, or a topic with wildcards.
        """
        if binding.profile.protocol != "mqtt":
            raise ValueError(f"{binding.profile.profile} is no MQTT profile")
        if not topic or set(topic) & {"+", "#"}:
            raise ValueError(f"{topic!r} is not the topic of one device")
        self.binding = binding
        self._clock, self._endpoint, self._topic = clock, endpoint, topic
        self._latest: dict[str, _Message] = {}
        self._moved: dict[tuple[str, tuple[str, ...]], tuple[int, float]] = {}
        self._offline = False
        self._times = {
            (self._topic_of(at), at.where.time)
            for point in binding.all()
            if isinstance(at := point.at, MqttAt) and at.where.time
        }
        topics = {self._topic_of(at) for p in binding.all() if isinstance(at := p.at, MqttAt)}
        for each in sorted(topics):
            bus.subscribe(each, self._on_message)
        bus.subscribe(f"{topic}/availability", self._on_availability)

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
        points = self.binding.points[layout.key]
        now_ms, now_s = self._clock.utc_ms(), self._clock.monotonic_s()
        seen = [self._look(point, now_s) for point in points]
        messages = self._behind(points)
        received_s = max((m.received_s for m in messages), default=now_s)
        received_ms = max((m.received_ms for m in messages), default=now_ms)
        stamps = [ms for point in points if (ms := self._source_ms(point)) is not None]
        source_ms = max(stamps, default=received_ms)
        if abs(source_ms - received_ms) > SKEW_MS:
            source_ms = received_ms
        return Scan(
            layout,
            np.array([d.value for d in seen], dtype=np.float64),
            np.array([d.quality for d in seen], dtype=np.uint8),
            source_ms,
            received_ms,
            received_s,
        )

    async def write(self, command: Command) -> Ack:
        """Refuse: what this profile describes is only read."""
        detail = f"{command.point} is not writable"
        return Ack(command, Outcome.REJECTED, None, detail, self._clock.utc_ms())

    async def close(self) -> None:
        """Nothing to let go of: the bus belongs to its owner."""

    def _topic_of(self, at: MqttAt) -> str:
        return f"{self._topic}/{at.topic}" if at.topic else self._topic

    def _behind(self, points: Sequence[BoundPoint]) -> list[_Message]:
        topics = {self._topic_of(p.at) for p in points if isinstance(p.at, MqttAt)}
        return [self._latest[topic] for topic in topics if topic in self._latest]

    def _look(self, point: BoundPoint, now_s: float) -> Decoded:
        at = point.at
        message = self._latest.get(self._topic_of(at)) if isinstance(at, MqttAt) else None
        if message is None or not isinstance(at, MqttAt):
            return bad(Flaw.TIMEOUT)
        if self._offline or now_s - self._spoke_s(message, at) > point.spec.stale_after_s:
            return bad(Flaw.STALE)
        decoded = decode(point, _at_path(message, at.path))
        if grade_of(decoded.quality) is not Grade.GOOD:
            return decoded
        if message.retained:
            return Decoded(decoded.value, quality(Grade.SUSPECT, Flaw.RETAINED), decoded.raw)
        source_ms = self._source_ms(point)
        if source_ms is not None and abs(source_ms - message.received_ms) > SKEW_MS:
            return Decoded(decoded.value, quality(Grade.GOOD, Flaw.CLOCK_SKEW), decoded.raw)
        return decoded

    def _spoke_s(self, message: _Message, at: MqttAt) -> float:
        """When the value was last new: a source time that stands still is an old value resent."""
        moved = self._moved.get((self._topic_of(at), at.where.time)) if at.where.time else None
        return message.received_s if moved is None else min(moved[1], message.received_s)

    def _source_ms(self, point: BoundPoint) -> int | None:
        at = point.at
        if not isinstance(at, MqttAt) or not at.where.time:
            return None
        moved = self._moved.get((self._topic_of(at), at.where.time))
        return None if moved is None else moved[0]

    def _on_message(self, topic: str, payload: bytes, retained: bool) -> None:
        last = self._latest.get(topic)
        now_ms, now_s = self._clock.utc_ms(), self._clock.monotonic_s()
        if retained and last is not None and not last.retained:
            return  # sent again because we subscribed again; what we heard live is not older
        body, text = _parse(payload)
        self._latest[topic] = _Message(body, text, retained, now_ms, now_s)
        if not retained:
            self._offline = False
        for time_topic, path in self._times:
            if time_topic == topic:
                self._keep_time(topic, path, now_s)

    def _keep_time(self, topic: str, path: tuple[str, ...], now_s: float) -> None:
        stamp = _at_path(self._latest[topic], path)
        if isinstance(stamp, bool | Flaw) or not isinstance(stamp, int | float):
            self._moved.pop((topic, path), None)
            return
        source_ms = int(stamp) if 0 <= stamp < 2**53 else 0
        known = self._moved.get((topic, path))
        if known is None or known[0] != source_ms:
            self._moved[topic, path] = (source_ms, now_s)

    def _on_availability(self, topic: str, payload: bytes, retained: bool) -> None:
        """`offline` makes every value stale at once, until the device speaks."""
        if payload == b"offline" and not retained:
            self._offline = True


def _parse(payload: bytes) -> tuple[Any, str]:
    """JSON if it is JSON, and the text; `_NOT_JSON` where it is neither."""
    if len(payload) > MAX_BYTES:
        return _NOT_JSON, ""
    try:
        text = payload.decode("utf-8")
    except UnicodeDecodeError:
        return _NOT_JSON, ""
    try:
        return json.loads(text, parse_constant=lambda _: _NOT_JSON), text
    except (ValueError, RecursionError):
        return _NOT_JSON, text


def _at_path(message: _Message, path: tuple[str | int, ...]) -> Answer:
    """The raw at a path: REFUSED if there is no such key, SENTINEL if it is null."""
    if not path:
        return message.text.strip() or Flaw.UNDECODABLE
    found = message.body
    for step in path:
        if found is _NOT_JSON:
            return Flaw.UNDECODABLE
        known = found if isinstance(found, dict) else {}
        if isinstance(found, list):
            known = dict(enumerate(found))
        if step not in known:
            return Flaw.REFUSED
        found = known[step]
    if found is None:
        return Flaw.SENTINEL
    return found if isinstance(found, bool | int | float | str) else Flaw.UNDECODABLE
