"""What was decided and written, and what people propose: overrides, modes, releases."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from api.routes.schemas.alarms import AlarmEventOut
from api.routes.schemas.shape import ModeName, Reason, Shape, Wish


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


class AuditOut(Shape):
    """Who did what, to what, when, with which reason."""

    id: int
    at: str | None
    actor: str
    action: str
    subject: str
    detail: dict[str, Any]
