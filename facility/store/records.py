"""What the store hands out: plain dataclasses, never database rows.

Times are UTC milliseconds. None means "there is none", never 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from facility.commands import AlarmEvent, Command, Decision, Mode, Outcome, Override
from facility.maintenance import Maintenance
from facility.points import ByteArray, FloatArray, IntArray, PointId


@dataclass(frozen=True, slots=True)
class Sample:
    """The newest stored value of a point.

    Attributes:
        received_ms: None if the point was never stored.
        value: canonical unit; None where missing.
        quality: quality byte (facility.points); BAD if never stored.
    """

    point: PointId
    received_ms: int | None
    value: float | None
    quality: int


@dataclass(frozen=True)
class Series:
    """A stretch of one point's past, raw or in buckets.

    Raw (`step_s` is None): one entry per stored sample, mean = minimum = maximum = its value (NaN
    where it is BAD), `quality` its byte. Buckets: one entry per step, also where nothing was
    stored (count 0, NaN), so that gaps stay gaps; numbers are of GOOD samples only.

    Attributes:
        from_ms, to_ms: what it covers; for roll-ups whole buckets, which may be more than asked.
        step_s: width of a bucket; for days of the site 86,400, whatever their true length.
        times_ms: int64[n]; of the sample, or of the start of the bucket (a multiple of the step,
            or midnight of the site).
        mean, minimum, maximum: float64[n], canonical unit, NaN where there is no GOOD sample
            (raw: where there is no value).
        count: int64[n]; samples stored, of any grade.
        good, suspect: int64[n]; of these, how many are GOOD and SUSPECT; the rest is BAD.
        total, first, last: float64[n], sum, first and last GOOD sample, NaN without any.
        delta: float64[n], what a counter counted since the last GOOD sample before the bucket, in
            its unit; NaN without a GOOD sample, for raw samples and for other points.
        quality: uint8[n] for raw, None for buckets.
        resolution: what it was answered from: `raw`, `15m` or `1d`.
    """

    point: PointId
    from_ms: int
    to_ms: int
    step_s: float | None
    times_ms: IntArray
    mean: FloatArray
    minimum: FloatArray
    maximum: FloatArray
    count: IntArray
    good: IntArray
    suspect: IntArray
    total: FloatArray
    first: FloatArray
    last: FloatArray
    delta: FloatArray
    quality: ByteArray | None = None
    resolution: str = "raw"

    @property
    def good_fraction(self) -> FloatArray:
        """float64[n]: share of GOOD samples, NaN where none was stored."""
        with np.errstate(invalid="ignore", divide="ignore"):
            share: FloatArray = np.where(self.count > 0, self.good / self.count, np.nan)
        return share

    def __len__(self) -> int:
        return len(self.times_ms)


@dataclass(frozen=True, slots=True)
class CycleRecord:
    """What a cycle needs to be computed again: scan numbers, times, finished plans.

    Attributes:
        epoch, cycle: identity within a hall.
        body: JSON-able; its meaning belongs to who records.
    """

    epoch: int
    cycle: int
    now_ms: int
    last_scan: int
    body: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CommandRecord:
    """A command as journalled, and its end if there is one yet.

    Attributes:
        outcome: None while no ack was journalled.
        actual: value read back, None when unknown.
    """

    command: Command
    decision: int
    outcome: Outcome | None = None
    actual: float | None = None
    detail: str = ""
    at_ms: int | None = None


@dataclass(frozen=True)
class DecisionRecord:
    """A journalled decision; `id` rises with time and is the key for paging."""

    id: int
    epoch: int
    decision: Decision
    commands: tuple[CommandRecord, ...]


@dataclass(frozen=True, slots=True)
class AlarmChange:
    """One entry of an alarm's history: `raised`, `cleared` or `acknowledged`."""

    id: int
    key: str
    change: str
    at_ms: int
    text: str
    by: str | None = None
    note: str | None = None


@dataclass(frozen=True, slots=True)
class AlarmRecord:
    """The present state of one alarm.

    Attributes:
        event: its last change; `event.active` says whether it stands.
        since_ms: when it was raised last.
        cleared_ms: None while it stands.
        acknowledged_by, note, acknowledged_ms: None until somebody did, since it was raised.
    """

    event: AlarmEvent
    since_ms: int
    cleared_ms: int | None
    acknowledged_by: str | None
    note: str | None
    acknowledged_ms: int | None


@dataclass(frozen=True, slots=True)
class Delivery:
    """One message for one sink.

    Attributes:
        id: of this delivery.
        message: the same for every try and every sink: what a receiver keys duplicates by.
        type: e.g. `alarm.raised`.
        body: JSON-able payload.
        status: `pending`, `claimed`, `delivered` or `failed`.
        attempts: tries begun so far, the present one included.
        next_try_ms: not before this; None when it is over.
        http_status, error: of the last try.
    """

    id: int
    message: str
    sink: str
    type: str
    body: Mapping[str, Any]
    created_ms: int
    status: str
    attempts: int
    next_try_ms: int | None
    http_status: int | None = None
    error: str | None = None
    finished_ms: int | None = None


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """Who did what, to what, when."""

    id: int
    at_ms: int
    actor: str
    action: str
    subject: str
    detail: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class OverrideRecord:
    """An operator's override and its end; `ended_ms` is None while nobody ended it early."""

    override: Override
    ended_ms: int | None
    ended_by: str | None


@dataclass(frozen=True, slots=True)
class MaintenanceRecord:
    """A maintenance and its end; `ended_ms` is None while nobody ended it early."""

    work: Maintenance
    ended_ms: int | None
    ended_by: str | None


@dataclass(frozen=True, slots=True)
class ModeRecord:
    """Who acts in a scope, set by whom and why."""

    scope: str
    mode: Mode
    by: str
    reason: str
    since_ms: int


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key's name, role and argon2 hash; the key itself is never stored."""

    id: int
    name: str
    role: str
    hash: str
    created_ms: int
    revoked_ms: int | None


@dataclass(frozen=True, slots=True)
class LeaseRecord:
    """Who controls a hall."""

    hall: str
    owner: str
    epoch: int
    expires_ms: int


@dataclass(frozen=True, slots=True)
class DroppedRecord:
    """Raw scans that could not be kept: when they were received, how many, why."""

    from_ms: int
    to_ms: int
    scans: int
    samples: int
    reason: str


@dataclass(frozen=True, slots=True)
class Counts:
    """Totals in the database."""

    scans: int
    samples: int
    decisions: int
    cycles: int
    commands: Mapping[str, int]  # outcome -> number, `pending` for those without an ack
    alarms_raised: int
    alarms_cleared: int
    alarms_active: int
    pages: int
    deliveries: Mapping[str, int]  # status -> number
    dropped_scans: int
    dropped_samples: int


@dataclass(frozen=True, slots=True)
class StoreStats:
    """How this process's store is doing; read without touching the database.

    Attributes:
        available: whether the last write worked.
        error: of the last failed write while not available.
        queued_scans, queued_samples: waiting to be written.
        max_queued_samples: the bound; beyond it the oldest scans are dropped and counted.
        waiting_s: how long the oldest has waited, 0 if none does; a second or more says that the
            database does not keep up.
        scans, samples: written since opening.
        dropped_scans, dropped_samples: lost to the bound of the queue since opening.
        spilled: journal entries waiting in the spill file.
        busy_s: time the writer spent in transactions.
    """

    available: bool
    error: str | None
    queued_scans: int
    queued_samples: int
    scans: int
    samples: int
    dropped_scans: int
    dropped_samples: int
    spilled: int
    busy_s: float
    max_queued_samples: int = 0
    waiting_s: float = 0.0
