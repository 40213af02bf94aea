"""What the API and the page need of a running service, and nothing more.

`api.service` implements `Hall`; tests implement it over a store and a decision of their own. No
method of it decides anything: people propose, the control cycle answers.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from api.cords import Cords
from api.drills import Drills
from api.trend import trend_numbers
from api.upkeep import Upkeep
from facility.clock import Clock
from facility.commands import AlarmEvent, Decision, Mode, Override
from facility.config import Facility
from facility.points import PointId, PointTable
from facility.snapshot import Snapshot
from facility.store import Store

TREND_POINTS: Final = 720
TREND_STEP_MS: Final = 5_000


class Refused(Exception):
    """A wish of a person that cannot be granted now.

    Attributes:
        reason: a sentence for that person.
        bounded_by: the element, limit or rule that stands in the way, or None.
    """

    def __init__(self, reason: str, bounded_by: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.bounded_by = bounded_by


class Unknown(Exception):
    """Something was named that this hall does not have."""


@dataclass(frozen=True, slots=True)
class Granted:
    """What became of a wish for an override.

    Attributes:
        override: the lease; its `value` is what was granted, in the point's unit.
        asked: what the person wrote.
        bounded_by: what made `granted` differ from `asked`, or None.
    """

    override: Override
    asked: float
    bounded_by: str | None


@dataclass(frozen=True, slots=True)
class Released:
    """What giving a scope back to local control does, or would do.

    Attributes:
        moves_w: change of the hall's load that the release lets happen, positive = the load may
            rise; None when it cannot be foreseen.
        text: a sentence with numbers.
    """

    scope: str
    moves_w: float | None
    text: str


@dataclass(frozen=True, slots=True)
class DeviceStatus:
    """How a device answers.

    Attributes:
        state: "good", "bad", "slow" or "unknown" (not asked yet).
        last_good_ms: UTC ms of the last scan with a value in it; None if there was none.
        failures: consecutive looks without an answer.
        overruns: looks that ended later than a period after their turn.
        detail: the last fault in words, empty when there is none.
        look_s: how long after its turn the last look ended, seconds.
        doubts: checks of physics that its readings fail, in words; those readings are SUSPECT.
        odd: what was odd in its answers since start, and how often; none of it became a reading.
    """

    id: str
    profile: str
    endpoint: str
    state: str
    last_good_ms: int | None
    failures: int = 0
    overruns: int = 0
    detail: str = ""
    look_s: float = 0.0
    doubts: tuple[str, ...] = ()
    odd: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RemoteHealth:
    """How remote-write is doing, since the start.

    Attributes:
        error: why the last try failed; None while all is well.
        sent_samples: taken by the receiver, ends of series (staleness markers) too.
        refused_samples: the receiver will never take them (4xx).
        dropped_samples: lost to a bound: of the queue in memory or of the spool.
        damaged: records of the spool that did not add up.
        waiting_bytes: in the spool.
        oldest_ms: time of the oldest sample that waits; None when none does.
    """

    error: str | None = None
    sent_samples: int = 0
    refused_samples: int = 0
    dropped_samples: int = 0
    damaged: int = 0
    waiting_bytes: int = 0
    oldest_ms: int | None = None


@dataclass(frozen=True, slots=True)
class ServiceStatus:
    """Whether the service itself works; dead devices and webhooks are no part of it.

    Attributes:
        cycle_age_s: since the last completed cycle; None before the first.
        database: None when the database answers, else why not.
        migrated: the schema is the one that this program expects.
        epoch: of the hall's controller lease; None while another controller holds it.
        cycle_ms: p50, p99 and max of recent cycles, milliseconds.
        samples_stored, samples_dropped: since start.
        samples_queued: wait to be written; they wait since `samples_waiting_s` seconds.
        remote: remote-write, None where the file names no receiver.
        traps: datagrams at the port of traps by what became of them; None where there is none.
    """

    started_ms: int
    uptime_s: float
    cycle_age_s: float | None
    database: str | None
    migrated: bool
    epoch: int | None
    cycle_ms: Mapping[str, float] = field(default_factory=dict)
    samples_stored: int = 0
    samples_dropped: int = 0
    samples_queued: int = 0
    samples_waiting_s: float = 0.0
    remote: RemoteHealth | None = None
    traps: Mapping[str, int] | None = None


@dataclass(frozen=True, slots=True)
class SinkTest:
    """What a sink answered to a signed test message; status None when it did not answer."""

    sink: str
    delivered: bool
    http_status: int | None
    error: str | None
    seconds: float


class Listener:
    """One reader of the feed; it loses the oldest cycles, never the newest, and knows how many."""

    def __init__(self, room: int) -> None:
        self._cycles: deque[Decision] = deque(maxlen=room)
        self._new = asyncio.Event()
        self._closed = False
        self.lost = 0

    def put(self, decision: Decision) -> None:
        """Take one decision; drops the oldest when the reader is slow."""
        if len(self._cycles) == self._cycles.maxlen:
            self.lost += 1
        self._cycles.append(decision)
        self._new.set()

    def close(self) -> None:
        """End the wait of the reader."""
        self._closed = True
        self._new.set()

    async def next(self) -> Decision | None:
        """The oldest decision not read yet; waits for one. None when the feed has closed."""
        while not self._cycles:
            if self._closed:
                return None
            self._new.clear()
            await self._new.wait()
        return self._cycles.popleft()


class Feed:
    """Finished decisions, to all who listen, and the recent trend of a few numbers.

    Must not be used from another thread than the event loop's.
    """

    def __init__(self, listeners: int = 64, room: int = 32) -> None:
        self._limit = listeners
        self._room = room
        self._listeners: set[Listener] = set()
        self._numbers: deque[tuple[int, Mapping[str, float]]] = deque(maxlen=TREND_POINTS)
        self._alarms: dict[str, AlarmEvent] = {}
        self._closed = False

    def close(self) -> None:
        """End every stream, so that a shutdown need not wait for them."""
        self._closed = True
        for listener in self._listeners:
            listener.close()

    @property
    def listeners(self) -> int:
        """How many listen now."""
        return len(self._listeners)

    @property
    def has_room(self) -> bool:
        """Whether one more may listen."""
        return not self._closed and self.listeners < self._limit

    def remember(self, alarms: Iterable[AlarmEvent]) -> None:
        """Take over alarms that stood before this process started, or changed since."""
        for alarm in alarms:
            if alarm.active:
                self._alarms[alarm.key] = alarm
            else:
                self._alarms.pop(alarm.key, None)

    def active_alarms(self) -> tuple[AlarmEvent, ...]:
        """What stands now, from memory, the oldest first."""
        return tuple(self._alarms.values())

    def publish(self, decision: Decision) -> None:
        """Hand one finished decision to every listener; never blocks."""
        self.remember(decision.alarms)
        for listener in self._listeners:
            listener.put(decision)
        if self._numbers and decision.now_ms - self._numbers[-1][0] < TREND_STEP_MS:
            return
        self._numbers.append((decision.now_ms, trend_numbers(decision.facts)))

    def trend(self, name: str) -> list[tuple[int, float | None]]:
        """(UTC ms, value or None) of one number, oldest first, one in five seconds, one hour."""
        return [(at_ms, numbers.get(name)) for at_ms, numbers in self._numbers]

    @contextmanager
    def listen(self) -> Iterator[Listener]:
        """Listen until the block ends.

        Raises:
            Refused: as many listen already as may, or the feed has closed.
        """
        if not self.has_room:
            raise Refused(f"no more than {self._limit} streams, and none at the end", "streams")
        listener = Listener(self._room)
        self._listeners.add(listener)
        try:
            yield listener
        finally:
            self._listeners.discard(listener)


class Hall(Protocol):
    """One running hall.

    Properties and plain methods answer at once from memory. `release` must not need the database.
    """

    @property
    def facility(self) -> Facility:
        """The loaded file."""

    @property
    def config_sha256(self) -> str:
        """Of that file."""

    @property
    def clock(self) -> Clock:
        """What time it is here."""

    @property
    def table(self) -> PointTable:
        """Every point of the site."""

    @property
    def store(self) -> Store:
        """History, journal, alarms, outbox, audit, keys."""

    @property
    def feed(self) -> Feed:
        """The service calls `feed.publish(decision)` after each cycle."""

    @property
    def cords(self) -> Cords:
        """Cords, and the drills that prove them."""

    @property
    def drills(self) -> Drills:
        """Declared losses, supposed or measured."""

    @property
    def upkeep(self) -> Upkeep:
        """Maintenance, and questions about it."""

    def snapshot(self) -> Snapshot | None:
        """The readings that the last cycle saw; None before the first cycle."""

    def decision(self) -> Decision | None:
        """The last finished decision; None before the first cycle."""

    def devices(self) -> Sequence[DeviceStatus]:
        """Health of every device and node, in file order."""

    def status(self) -> ServiceStatus:
        """Health of the service itself."""

    def modes(self) -> Mapping[str, Mode]:
        """Mode by scope ("hall", "rack:r01", "loop:loop-1"); the narrower scope wins."""

    def overrides(self) -> Sequence[Override]:
        """Leases of people that are in force."""

    async def what_if(self, fail: Sequence[str]) -> Mapping[str, Any]:
        """Headroom (contracts.md) for the present load with the elements named lost.

        Raises:
            Unknown: an element that the hall does not have.
        """

    async def single_line(self, fail: Sequence[str]) -> Mapping[str, Any]:
        """The single-line diagram as data (`controllers.single_line`), less these elements.

        Raises:
            Unknown: an element that the hall does not have.
            Refused: no cycle has run yet.
        """

    async def set_mode(self, scope: str, mode: Mode, by: str, reason: str) -> None:
        """Change who acts in a scope.

        Raises:
            Unknown: no such scope.
            Refused: the file does not enable control.
        """

    async def add_override(
        self, point: PointId, value: float, minutes: float, by: str, reason: str
    ) -> Granted:
        """Hold a writable point at a value (its unit) for a while.

        Raises:
            Unknown: no such point.
            Refused: not writable, not allowed, or it does not fit; names what binds.
        """

    async def cancel_override(self, override_id: str, by: str) -> Override:
        """End an override now; automation takes over from what it would command now.

        Raises:
            Unknown: none in force with this id.
        """

    def release_preview(self, scope: str) -> Released:
        """What `release` would do.

        Raises:
            Unknown: no such scope.
        """

    async def release(self, scope: str, by: str, reason: str) -> Released:
        """Give everything in a scope back to local control, now.

        Raises:
            Unknown: no such scope.
        """

    async def test_webhook(self, sink: str) -> SinkTest:
        """Send one signed message of type `test` to a sink, now and once.

        Raises:
            Unknown: no such sink in the file.
        """
