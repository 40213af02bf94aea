"""What controllers propose, what was decided, what is sent, and what came back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import Any, Protocol, runtime_checkable

from facility.points import PointId


class Rank(IntEnum):
    """Seniority of a proposal: a lower number outranks a higher one."""

    PROTECTION = 0
    OPERATOR = 1
    COMFORT = 2
    EFFICIENCY = 3


class Side(Enum):
    """Which end of a room is safe when proposals cannot be reconciled."""

    LOW = "low"
    HIGH = "high"


@dataclass(frozen=True, slots=True)
class Bounds:
    """A closed interval in the point's unit; infinite ends mean "no limit"."""

    low: float
    high: float

    @property
    def empty(self) -> bool:
        """Whether nothing lies inside."""
        return self.low > self.high

    def meet(self, other: Bounds) -> Bounds:
        """The intersection, possibly empty."""
        return Bounds(max(self.low, other.low), min(self.high, other.high))

    def clamp(self, value: float) -> float:
        """The point of the interval nearest to `value`."""
        return min(max(value, self.low), self.high)


UNBOUNDED = Bounds(float("-inf"), float("inf"))


@dataclass(frozen=True, slots=True)
class Proposal:
    """What one controller wants of one point.

    Attributes:
        source: the controller (or "override:<lease id>").
        bounds: where the value must lie, as far as this controller is concerned.
        prefer: the value it would choose, or None for "no opinion inside the bounds".
        reason: a sentence with numbers, shown to people.
    """

    point: PointId
    rank: Rank
    bounds: Bounds
    prefer: float | None
    reason: str
    source: str


@dataclass(frozen=True, slots=True)
class Setpoint:
    """The outcome of arbitration for one point.

    Attributes:
        value: inside `room`.
        room: what the proposals left.
        because: which bound or preference set the value, from whom, with the numbers.
        conflict: whether a junior proposal's bounds could not be met.
        rank: seniority of what set the value.
    """

    point: PointId
    value: float
    room: Bounds
    because: str
    conflict: bool = False
    rank: Rank = Rank.EFFICIENCY


#: Point, value, ends of the room, why, conflict, rank.
SetpointRow = tuple[str, float, float, float, str, bool, int]


def setpoint_row(setpoint: Setpoint) -> SetpointRow:
    """A set-point as it is journalled."""
    room = setpoint.room
    said = setpoint.because, setpoint.conflict, int(setpoint.rank)
    return str(setpoint.point), setpoint.value, room.low, room.high, *said


@runtime_checkable
class InRows(Protocol):
    """Set-points that can be journalled without making an object of each."""

    def rows(self) -> list[SetpointRow]:
        """`setpoint_row` of each, in order."""


class Mode(Enum):
    """Who acts in a scope."""

    OFF = "off"
    OBSERVE = "observe"
    ADVISE = "advise"
    AUTO = "auto"

    @property
    def activity(self) -> int:
        """How much is done by itself: off least, auto most."""
        return list(Mode).index(self)


def modes_after(modes: Mapping[str, Mode], scope: str, wanted: Mode) -> dict[str, Mode]:
    """Modes by scope once a scope has been given a mode.

    The hall's mode ends those of racks and loops that are more active: a hall that was released
    stays released. What is less active stays: a rack that is off for work stays off.
    """
    if scope != "hall":
        return {**modes, scope: wanted}
    kept = {s: m for s, m in modes.items() if s != "hall" and m.activity < wanted.activity}
    return {**kept, "hall": wanted}


@dataclass(frozen=True, slots=True)
class Command:
    """One write, as journalled before it is sent.

    Attributes:
        sequence: rises for ever within an epoch; agents refuse an older one.
        epoch: of the hall's controller lease.
        issued_ms: UTC ms; the command is void `deadline_s` later.
        raises: whether it moves the plant towards its limit (a cap up, a set-point up).
    """

    point: PointId
    value: float
    sequence: int
    epoch: int
    issued_ms: int
    deadline_s: float
    because: str
    raises: bool = False


class Outcome(Enum):
    """What is known of a write after its read-back."""

    APPLIED = "applied"
    CLAMPED = "clamped"
    REJECTED = "rejected"
    UNANSWERED = "unanswered"


@dataclass(frozen=True, slots=True)
class Ack:
    """The end of a command.

    Attributes:
        actual: value read back, None when it could not be read.
        detail: the device's own words or code for a refusal.
    """

    command: Command
    outcome: Outcome
    actual: float | None
    detail: str
    at_ms: int


@dataclass(frozen=True, slots=True)
class Override:
    """An operator's lease on one point: value, expiry, reason, name."""

    id: str
    point: PointId
    value: float
    by: str
    reason: str
    since_ms: int
    until_ms: int


class Severity(IntEnum):
    """How soon a person must look."""

    INFO = 0
    WARNING = 1
    CRITICAL = 2


@dataclass(frozen=True, slots=True)
class AlarmEvent:
    """A change of one alarm: raised or cleared.

    Attributes:
        key: stable identity, e.g. `redundancy_lost:ups-a2`.
        kind: e.g. `redundancy_lost`.
        subject: element, rack, device or point it is about.
        text: a sentence with numbers, and what to do.
        page: whether a person is woken (one page per cause).
        parent: key of the alarm that explains this one (folded below it), or None.
    """

    key: str
    kind: str
    subject: str
    severity: Severity
    active: bool
    text: str
    at_ms: int
    page: bool = False
    parent: str | None = None
    numbers: Mapping[str, float | None] = field(default_factory=dict)


@dataclass(frozen=True)
class Decision:
    """Everything one cycle concluded; equal inputs give an equal decision.

    Attributes:
        cycle: number, counts from 1 within an epoch.
        setpoints: one per controlled point, ordered by point; equal to a tuple of the same.
        commands: what the guard let through, in write order (lowerings first).
        withheld: writes not sent and why (mode, guard, data, rate).
        alarms: changes of this cycle.
        facts: plain JSON-able numbers and texts for people (headroom, allocation, cooling).
        config_sha256: of the facility file.
    """

    cycle: int
    snapshot: int
    last_scan: int
    now_ms: int
    setpoints: Sequence[Setpoint]
    commands: tuple[Command, ...]
    withheld: tuple[tuple[PointId, float, str], ...]
    alarms: tuple[AlarmEvent, ...]
    facts: Mapping[str, Any]
    config_sha256: str
