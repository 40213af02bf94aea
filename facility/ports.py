"""The seams: what the layers ask of each other. Implementations live in the layers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from typing import Any, Protocol, TypeVar

from facility.commands import Ack, AlarmEvent, Command, Decision
from facility.points import Layout, PointId, Scan

T = TypeVar("T")


class Device(Protocol):
    """A profile on a transport: what it can measure, one look, one write.

    Neither `read` nor `write` raises for anything that a plant does; both keep their own
    deadlines. `read` returns a full-length scan, all BAD when nothing was read.
    """

    @property
    def id(self) -> str:
        """Name in the facility file."""

    @property
    def endpoint(self) -> str:
        """The shared thing it talks through (host:port, serial line, broker)."""

    @property
    def layouts(self) -> tuple[Layout, ...]:
        """One per poll class, fixed for the life of the device."""

    def period_s(self, layout: Layout) -> float:
        """How often the layout wants to be read."""

    async def read(self, layout: Layout) -> Scan:
        """One look at one poll class."""

    async def write(self, command: Command) -> Ack:
        """One attempt, read back after the point's settle time."""

    async def close(self) -> None:
        """Let go of sockets and tasks."""


class Bus(Protocol):
    """Publish and subscribe; MQTT in the field, memory under a virtual clock.

    `subscribe` handlers get (topic, payload, retained) and must not block or raise. The bus
    subscribes anew on each connect by itself.
    """

    @property
    def connected(self) -> bool:
        """Whether the broker is reachable now."""

    async def start(self) -> None:
        """Connect in the background; returns at once, retries with back-off for ever."""

    async def publish(
        self, topic: str, payload: bytes, *, qos: int = 0, retain: bool = False
    ) -> bool:
        """Send; False when it could not be handed to the broker (never queued for later)."""

    def subscribe(self, pattern: str, handler: Callable[[str, bytes, bool], None]) -> None:
        """Deliver messages whose topic matches the MQTT pattern (`+`, `#`)."""

    async def close(self) -> None:
        """Disconnect cleanly."""


class Workers(Protocol):
    """Where blocking or heavy work runs: threads in the field, in line under a virtual clock."""

    def submit(self, work: Callable[..., T], *args: Any) -> Future[T]:
        """Start `work(*args)` beside the event loop."""


class SampleSink(Protocol):
    """Takes scans; never blocks; drops the oldest and counts when it cannot keep up."""

    def put(self, scan: Scan) -> None:
        """Queue one scan."""


class Journal(Protocol):
    """Takes what must never be lost; each call returns once it is committed."""

    async def intent(self, decision: Decision) -> None:
        """A decision with commands, before any is sent."""

    async def acks(self, acks: Sequence[Ack]) -> None:
        """What became of commands."""

    async def alarms(self, events: Iterable[AlarmEvent]) -> None:
        """Alarm changes and, in the same transaction, the deliveries they cause."""


class PointReader(Protocol):
    """Reads history for people."""

    def latest(self, points: Sequence[PointId]) -> Sequence[tuple[int, float | None, int]]:
        """(received ms, value, quality) of each point."""
