"""Points, what they read, and their past."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from api.routes.schemas.shape import Shape


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
