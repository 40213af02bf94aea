"""The shapes of answers and requests. Units stand in every name and description.

Times are ISO 8601 in UTC. What is not known is null, never 0. Adding a field is fine, renaming is
not.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

Reason = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=3, max_length=500, pattern=r"^[^\x00]*$"),
]
ModeName = Literal["off", "observe", "advise", "auto"]


class Shape(BaseModel):
    """Read from our own views as they are."""

    model_config = ConfigDict(from_attributes=True)


class Wish(BaseModel):
    """Sent by people: unknown members and numbers that are not finite are refused."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class FieldProblem(Shape):
    """One fault of a request: where, and what."""

    where: str
    problem: str


class ProblemOut(Shape):
    """RFC 9457 problem document, media type application/problem+json."""

    model_config = ConfigDict(title="Problem")

    type: str
    title: str
    status: int
    code: str = Field(description="stable identifier")
    detail: str
    instance: str
    errors: list[FieldProblem] | None = None
    bounded_by: str | None = Field(None, description="what stands in the way of a refused wish")
    needs: str | None = Field(None, description="the role needed")
    consequences: list[dict[str, Any]] | None = Field(None, description="what it would cost")
    accept: list[str] | None = Field(None, description="kinds of it that must be accepted")


class TrustOut(Shape):
    """How far the data can be trusted: points by grade, devices that do not answer."""

    points: int
    good: int
    suspect: int
    bad: int
    devices: int
    devices_bad: list[str]
    blind: list[str]
    text: str


class FacilityOut(Shape):
    """The hall at a glance."""

    name: str
    timezone: str
    config_sha256: str
    started: str
    now: str
    state: Literal["ok", "degraded", "bad", "unknown"]
    sentence: str
    trust: TrustOut
    control_enabled: bool
    policy: str
    modes: dict[str, ModeName]
    racks: list[str]
    nodes: int
    elements: list[str]
    loops: list[str]
    devices: int
    points: int


class RackOut(Shape):
    """One rack. Powers and caps in W, temperatures in degC."""

    rack: str
    power_w: float | None = Field(description="measured, W")
    why_no_power: str
    load_w: float | None = Field(description="as counted by the N+1 study, W")
    headroom_w: float | None = Field(description="what it alone may add in every case, W")
    rating_w: float
    cap_low_w: float | None = Field(description="least cap per GPU read back, W")
    cap_high_w: float | None = Field(description="greatest cap per GPU read back, W")
    because: str
    tokens_per_s: float | None
    tokens_per_joule: float | None = Field(description="tokens per second per watt of the rack")
    sustained: float | None = Field(description="5th percentile of its 5-min values, tok/J")
    inlet_c: float | None = Field(description="hottest inlet sensor, degC")
    down_in: list[str] = Field(description="cases in which the rack is dark")
    shared: list[str] = Field(
        description="elements whose loss darkens it although it has two feeds"
    )
    single_fed: bool | None
    mode: ModeName
    nodes: list[str]


class LoopOut(Shape):
    """One liquid loop; temperatures in degC, margins in K."""

    loop: str
    supply_c: float | None
    setpoint_c: float | None
    target_c: float | None
    lower_c: float | None
    upper_c: float | None
    dew_point_c: float | None
    to_dew_k: float | None
    to_throttle_k: float | None
    bound: str
    text: str
    mode: ModeName


class DeviceOut(Shape):
    """How one device answers."""

    device: str
    profile: str
    endpoint: str
    state: str
    last_good: str | None
    failures: int
    overruns: int
    detail: str


class PointOut(Shape):
    """One measurable thing; its range is in its unit."""

    point: str
    device: str
    part: str
    kind: str
    unit: str
    nature: str
    writable: bool
    low: float
    high: float
    stale_after_s: float
    states: dict[str, str]


class PointsPage(Shape):
    """Points in order; ask again with `after` = `next` for more."""

    items: list[PointOut]
    next: str | None


class ReadingOut(Shape):
    """The newest value of one point in its canonical unit."""

    point: str
    value: float | None
    unit: str
    quality: Literal["good", "suspect", "bad"]
    flaw: str | None
    age_s: float | None
    at: str | None = Field(description="received")


class SampleOut(Shape):
    """One sample, or one bucket of the step; gaps are null. Only the aggregates asked for."""

    at: str
    mean: float | None = None
    min: float | None = None
    max: float | None = None
    sum: float | None = None
    count: float | None = None
    first: float | None = None
    last: float | None = None
    delta: float | None = Field(None, description="what a counter counted")
    good_fraction: float | None


class PastOut(Shape):
    """What an answer about the past covers, and what it was made from."""

    from_: str = Field(alias="from")
    to: str = Field(description="of roll-ups: the end of the last bucket")
    step_s: float | None = Field(description="null: raw samples; 86400 for days of the site")
    resolution: Literal["raw", "15m", "1d"]
    next: str | None = Field(description="`cursor` of the page after, null on the last")


class HistoryOut(PastOut):
    """A stretch of one point's past, in its unit."""

    point: str
    unit: str
    samples: list[SampleOut]


class SeriesOut(Shape):
    """One point's part of an answer: arrays of one length, only the aggregates asked for."""

    point: str
    unit: str
    at: list[str]
    mean: list[float | None] | None = None
    min: list[float | None] | None = None
    max: list[float | None] | None = None
    sum: list[float | None] | None = None
    count: list[float | None] | None = None
    first: list[float | None] | None = None
    last: list[float | None] | None = None
    delta: list[float | None] | None = None
    good_fraction: list[float | None]


class HistoriesOut(PastOut):
    """A stretch of the past of several points."""

    series: list[SeriesOut]


class SetpointOut(Shape):
    """What was decided for one point, inside which room, and why."""

    point: str
    value: float
    unit: str
    low: float | None
    high: float | None
    because: str
    conflict: bool
    rank: str


class CommandOut(Shape):
    """One write: what was sent, why, and what became of it (null: not known yet)."""

    point: str
    value: float
    unit: str
    sequence: int
    issued: str | None
    raises: bool
    because: str
    outcome: Literal["applied", "clamped", "rejected", "unanswered"] | None
    actual: float | None
    detail: str


class WithheldOut(Shape):
    """A write that was not sent, and why."""

    point: str
    value: float
    unit: str
    reason: str


class DecisionOut(Shape):
    """What one cycle concluded. `facts` only where one decision is asked for."""

    id: int | None = Field(description="key for paging; null for one that is not in the journal")
    epoch: int | None
    cycle: int
    at: str | None
    snapshot: int
    last_scan: int
    config_sha256: str
    setpoints: list[SetpointOut]
    commands: list[CommandOut]
    withheld: list[WithheldOut]
    alarms: list[AlarmEventOut]
    facts: dict[str, Any] | None = None


class AlarmEventOut(Shape):
    """A change of one alarm."""

    key: str
    kind: str
    subject: str
    severity: Literal["info", "warning", "critical"]
    active: bool
    page: bool
    parent: str | None = Field(description="key of the alarm that explains this one")
    text: str
    at: str | None
    numbers: dict[str, float | None]


class AlarmOut(AlarmEventOut):
    """The present state of one alarm."""

    since: str | None
    cleared: str | None
    acknowledged_by: str | None
    acknowledged: str | None
    note: str | None


class AlarmChangeOut(Shape):
    """One entry of the alarms' history."""

    id: int
    key: str
    change: str
    at: str | None
    text: str
    by: str | None
    note: str | None


class AcknowledgeIn(Wish):
    """Who acknowledges says what they do about it."""

    note: Reason


class OverrideIn(Wish):
    """Hold one writable point at a value for a while."""

    point: str = Field(description="device:part:kind", max_length=200)
    value: float = Field(description="in the point's unit (power_cap: W per GPU; set-point: degC)")
    minutes: float = Field(gt=0, le=1440)
    reason: Reason


class OverrideOut(Shape):
    """A lease on one point. `value` is what was granted, in `unit`."""

    id: str
    point: str
    value: float
    unit: str
    by: str
    reason: str
    since: str | None
    until: str | None


class GrantedOut(OverrideOut):
    """What became of the wish."""

    asked: float
    bounded_by: str | None = Field(description="what made the value differ from what was asked")


class ModeIn(Wish):
    """Who acts in a scope from now on, and why."""

    mode: ModeName
    reason: Reason


class ModeOut(Shape):
    """Who acts in a scope; `own` is false where it follows the hall's mode."""

    scope: str
    mode: ModeName
    own: bool


class ReleaseIn(Wish):
    """Why control is given back."""

    reason: Reason


class ReleaseOut(Shape):
    """What a release moves (positive: the load may rise), and whether the audit has it."""

    scope: str
    moves_w: float | None
    text: str
    released: bool
    audited: bool | None


class SinkOut(Shape):
    """Where alarms go; the secret is never shown."""

    sink: str
    url: str
    pages_only: bool


class SinkTestOut(Shape):
    """What a sink answered to a signed test message."""

    sink: str
    delivered: bool
    http_status: int | None
    error: str | None
    seconds: float


class DeliveryOut(Shape):
    """One message for one sink, and how its delivery stands."""

    id: int
    message: str
    sink: str
    type: str
    created: str | None
    status: Literal["pending", "claimed", "delivered", "failed"]
    attempts: int
    next_try: str | None
    http_status: int | None
    error: str | None
    finished: str | None


class AuditOut(Shape):
    """Who did what, to what, when, with which reason."""

    id: int
    at: str | None
    actor: str
    action: str
    subject: str
    detail: dict[str, Any]
