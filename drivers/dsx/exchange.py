"""The Exchange behind one broker: metadata first, then the values of the objects in use.

Metadata is retained and repeated every 100 s; repetitions are recognised by their bytes. Values
are subscribed to once their metadata is known, and of the objects that devices were made of only.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

import structlog

from drivers.dsx.heartbeat import BEAT_S, Pulse
from drivers.dsx.metadata import METADATA, PointMeta, read_metadata
from drivers.mqtt.freshness import source_ms
from drivers.mqtt.latest import NOT_JSON, Latest, Message, Slot
from facility.clock import Clock
from facility.points import Flaw
from facility.ports import Bus

#: A larger site has several brokers; more points than this are somebody's mistake or malice.
MOST_POINTS: Final = 50_000
#: a BMS has one heartbeat, or one for each of its clients
MOST_PULSES: Final = 64
GOOD: Final = 1

_log = structlog.get_logger("wattkeeper.dsx")


class Exchange:
    """What is known of one Exchange.

    Attributes:
        points: metadata by its topic.
        refused: metadata messages that describe no point.
    """

    def __init__(self, bus: Bus, clock: Clock, latest: Latest, integration: str | None) -> None:
        """Subscribe to metadata; the bus is started by its owner.

        Args:
            bus: of the broker.
            clock: of this process.
            latest: messages of the bus.
            integration: our identifier at the BMS, if it has one for us: then we answer
                heartbeats and send our own, where its metadata asks for them.
        """
        self._bus, self._clock, self._latest = bus, clock, latest
        self._integration = integration
        self.points: dict[str, PointMeta] = {}
        self._hashes: dict[str, int] = {}
        self._objects: dict[tuple[str, str], dict[str, PointMeta]] = {}
        self._wanted: set[tuple[str, str]] = set()
        self._slots: dict[str, Slot] = {}
        self._outdated: dict[str, Message] = {}
        self._pulses: dict[str, Pulse] = {}
        self._felt: set[str] = set()
        self._echo: Pulse | None = None
        self._beating: asyncio.Task[None] | None = None
        self._sending: set[asyncio.Task[bool]] = set()
        self._deaf = self._full = False
        self.refused = 0
        bus.subscribe(f"{METADATA}/#", self._on_metadata)

    def want(self, object_type: str, object_id: str) -> None:
        """Hear the values of an object's points."""
        key = (object_type, object_id)
        self._wanted.add(key)
        for meta in self._objects.get(key, {}).values():
            self._hear(meta)

    def of(self, object_type: str, object_id: str) -> Mapping[str, PointMeta]:
        """The points of an object, by the topic of their metadata."""
        return self._objects.get((object_type, object_id), {})

    def newest(self, meta: PointMeta) -> Message | None:
        """The newest message with the value of a point of an object in use.

        None until a value comes after metadata that gave the point another meaning: what was said
        before was said in the old unit.
        """
        slot = self._slots.get(meta.value_topic)
        if slot is None or slot.newest is self._outdated.get(meta.value_topic):
            return None
        return slot.newest

    def alive(self, topic: str) -> bool:
        """Whether every BMS client that stands for a value's topic has a pulse.

        True where no heartbeat was ever announced.
        """
        return all(pulse.alive for pulse in self._pulses.values() if pulse.covers(topic))

    @property
    def heard_there(self) -> bool | None:
        """Whether the BMS echoes our heartbeat; None where it never said that it would."""
        return None if self._echo is None else self._echo.alive

    async def start(self) -> None:
        """Begin to send our heartbeat, where we have an identifier; nothing happens twice."""
        if self._integration is not None and self._beating is None:
            self._beating = asyncio.create_task(self._beat(), name="dsx heartbeat")

    async def close(self) -> None:
        """Stop our heartbeat."""
        task, self._beating = self._beating, None
        if task is not None:
            task.cancel()
            await asyncio.wait({task}, timeout=1.0)

    def _on_metadata(self, topic: str, payload: bytes, retained: bool) -> None:
        mark = hash(payload)
        if self._hashes.get(topic) == mark:
            return
        meta = read_metadata(topic, payload) if payload else None
        old = self.points.get(topic)
        self._forget(topic, meta)
        if meta is None:
            self.refused += bool(payload)
            return
        if len(self.points) >= MOST_POINTS:
            if not self._full:
                self._full = True
                _log.warning("too many points on the exchange", most=MOST_POINTS)
            return
        if old is not None and _meaning(old) != _meaning(meta):
            self._outdate(meta)
        self._hashes[topic] = mark
        self.points[topic] = meta
        key = (meta.object_type, meta.object_id)
        self._objects.setdefault(key, {})[topic] = meta
        if key in self._wanted:
            self._hear(meta)
        if meta.object_type == "System":
            self._watch_pulse(meta)

    def _outdate(self, meta: PointMeta) -> None:
        slot = self._slots.get(meta.value_topic)
        if slot is not None and slot.newest is not None:
            self._outdated[meta.value_topic] = slot.newest

    def _forget(self, topic: str, instead: PointMeta | None) -> None:
        self._hashes.pop(topic, None)
        old = self.points.pop(topic, None)
        if old is not None:
            key = (old.object_type, old.object_id)
            mine = self._objects.get(key, {})
            mine.pop(topic, None)
            if not mine:
                self._objects.pop(key, None)
            if instead is None or _pulse(instead) != _pulse(old):
                self._pulses.pop(old.value_topic, None)

    def _hear(self, meta: PointMeta) -> None:
        topic = meta.value_topic
        if topic not in self._slots and len(self._slots) < MOST_POINTS:
            self._slots[topic] = self._latest.watch(topic)

    def _watch_pulse(self, meta: PointMeta) -> None:
        topic = meta.value_topic
        beats = meta.point_type == "HeartbeatTimestampBms" and topic not in self._pulses
        if beats and len(self._pulses) < MOST_PULSES:
            self._pulses[topic] = Pulse(meta.scope, self._clock)
            if topic not in self._felt and len(self._felt) < MOST_POINTS:
                self._felt.add(topic)
                self._bus.subscribe(topic, self._on_pulse)
        echoed = meta.point_type == "HeartbeatEchoBms" and self._echo is None
        if echoed and meta.object_id == self._integration:
            self._echo = Pulse(None, self._clock)
            self._bus.subscribe(topic, self._on_echo)

    def _on_pulse(self, topic: str, payload: bytes, retained: bool) -> None:
        value = pulse_value(payload)
        pulse = self._pulses.get(topic)
        if value is None or retained or pulse is None:
            return
        pulse.beat(value)
        for mine in self._ours("HeartbeatEchoIntegration"):
            self._send(mine.value_topic, value)

    def _on_echo(self, topic: str, payload: bytes, retained: bool) -> None:
        value = pulse_value(payload)
        if value is not None and not retained and self._echo is not None:
            self._echo.beat(value)

    def _ours(self, point_type: str) -> Iterable[PointMeta]:
        """Points of a type whose values the BMS asks of us."""
        return [
            meta
            for meta in self.points.values()
            if meta.point_type == point_type
            and meta.integration is not None
            and meta.integration == self._integration
        ]

    def _send(self, topic: str, value: float) -> None:
        body = {"value": value, "timestamp": self._clock.utc_ms(), "quality": GOOD}
        task = asyncio.ensure_future(self._bus.publish(topic, json.dumps(body).encode()))
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    async def _beat(self) -> None:
        while True:
            for meta in self._ours("HeartbeatTimestampIntegration"):
                self._send(meta.value_topic, float(self._clock.utc_ms()))
            deaf = self.heard_there is False
            if deaf and not self._deaf:
                _log.warning("the BMS does not echo our heartbeat", integration=self._integration)
            self._deaf = deaf
            await asyncio.sleep(BEAT_S)


def _meaning(meta: PointMeta) -> tuple[object, ...]:
    """What a number of a point depends on."""
    return meta.unit, meta.states, meta.setpoint, meta.phase, meta.area, meta.object_id


def _pulse(meta: PointMeta) -> tuple[object, ...]:
    return meta.point_type, meta.value_topic, meta.scope


def read_value(message: Message) -> tuple[float | Flaw, int | None]:
    """What a value message says: the number or why there is none, and its time in ms.

    Only quality 1 is good. A BMS that gives another disowns the number, whatever it is, so it is
    DEVICE_FAULT and not kept as SUSPECT: nobody is to act on it or add it up. `null` is SENTINEL.
    """
    body: Any = message.body
    if body is NOT_JSON or not isinstance(body, dict):
        return Flaw.UNDECODABLE, None
    at_ms = source_ms(body.get("timestamp"), "ms")
    value, good = body.get("value", Flaw.REFUSED), body.get("quality")
    if type(good) is not int or at_ms is None:
        return Flaw.UNDECODABLE, at_ms
    if good != GOOD:
        return Flaw.DEVICE_FAULT, at_ms
    if value is None:
        return Flaw.SENTINEL, at_ms
    if type(value) is int or type(value) is float:
        return (float(value) if abs(value) < 2.0**64 else Flaw.UNDECODABLE), at_ms
    return (value if type(value) is Flaw else Flaw.UNDECODABLE), at_ms


def pulse_value(payload: bytes) -> float | None:
    """The time that a heartbeat says; None when it says none to be trusted."""
    value, _ = read_value(Message("", payload[:4096], False, 0, 0.0))
    return None if isinstance(value, Flaw) else value
