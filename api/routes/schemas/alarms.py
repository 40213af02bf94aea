"""Alarms, who answers them, and where they are sent."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from api.routes.schemas.shape import Reason, Shape, Wish


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
