"""From the parameters of a request to a question for the store."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Annotated, Any, Final, Literal

from fastapi import Query
from pydantic import AwareDatetime

from api.problems import Problem
from facility.points import PointId
from facility.store.past import Question
from facility.store.records import Series
from facility.store.rollups.counters import is_counter

HOUR_MS: Final = 3_600_000
PAGE_MAX: Final = 10_000
STEP_MAX_S: Final = 366 * 86_400
#: Raw samples are streamed for at most so many points times days.
RAW_POINT_DAYS: Final = 60.0

Aggregate = Literal["mean", "min", "max", "sum", "count", "first", "last", "delta"]
_COLUMN: Final[dict[str, str]] = {
    "mean": "total",
    "min": "minimum",
    "max": "maximum",
    "sum": "total",
    "first": "first",
    "last": "last",
    "delta": "delta",
}
_STEP: Final = re.compile(r"([0-9]{1,9}(?:\.0+)?)(s|m|h)?")
_SECONDS: Final = {None: 1, "s": 1, "m": 60, "h": 3600}
_CURSOR: Final = re.compile(r"([0-9]{1,15})-(raw|15m|1d)-([0-9]{1,9})")
#: What may be asked about: 1970 to 2200. Nothing was measured before, and calendars end somewhere.
_END_MS: Final = 7_258_118_400_000

From = Annotated[
    AwareDatetime | None, Query(alias="from", description="default: an hour before `to`")
]
To = Annotated[AwareDatetime | None, Query(description="default: now")]
Step = Annotated[
    str | None,
    Query(
        description="seconds, or 15m, 1h …; 1d: days of the site, which have 23 to 25 hours; "
        "without it: raw samples",
        max_length=20,
    ),
]
Wanted = Annotated[
    list[Aggregate] | None,
    Query(
        description="default: mean, min, max, and delta of counters; `delta` is what a counter "
        "counted since the sample before: resets, wraps and glitches count nothing"
    ),
]
From_ = Annotated[
    Literal["raw", "15m", "1d"] | None,
    Query(description="answer from raw samples, quarters or days only; default: what is best"),
]
Limit = Annotated[int, Query(ge=1, le=PAGE_MAX, description="samples of each point in a page")]
Cursor = Annotated[str | None, Query(description="`next` of the page before", max_length=50)]
Form = Annotated[Literal["json", "csv"] | None, Query(alias="format")]


@dataclass(frozen=True)
class Asked:
    """A question and what to show of its answer.

    Attributes:
        shown: aggregates, in the order of the columns.
    """

    question: Question
    shown: tuple[str, ...]


def invalid(where: str, problem: str) -> Problem:
    """A 422 that says which parameter is wrong."""
    faults = [{"where": f"query.{where}", "problem": problem}]
    return Problem("invalid", f"query.{where}: {problem}", errors=faults)


def asked(
    points: Sequence[PointId],
    now_ms: int,
    from_: datetime | None,
    to: datetime | None,
    step: str | None,
    resolution: Literal["raw", "15m", "1d"] | None,
    wanted: Sequence[Aggregate] | None,
    limit: int,
    cursor: str | None,
) -> Asked:
    """The question that a request asks.

    Raises:
        Problem: a parameter makes no sense.
    """
    to_ms = now_ms if to is None else round(to.timestamp() * 1e3)
    from_ms = to_ms - HOUR_MS if from_ is None else round(from_.timestamp() * 1e3)
    for where, at_ms in (("from", from_ms), ("to", to_ms)):
        if not 0 <= at_ms <= _END_MS:
            raise invalid(where, "must be from 1970 to 2200")
    if from_ms >= to_ms:
        raise invalid("from", "is not before `to`")
    counting = any(is_counter(p.kind) for p in points)
    shown: tuple[str, ...] = tuple(dict.fromkeys(wanted or ()))
    if not shown:
        shown = ("mean", "min", "max", "delta") if counting else ("mean", "min", "max")
    step_s = None if step is None or step == "1d" else _seconds(step)
    question = Question(
        tuple(points),
        from_ms,
        to_ms,
        step_s,
        days=step == "1d",
        resolution=resolution,
        wanted=frozenset(_COLUMN[name] for name in shown if name in _COLUMN),
        most=limit,
    )
    return Asked(question if cursor is None else _resumed(question, cursor), shown)


def _seconds(text: str) -> float:
    found = _STEP.fullmatch(text)
    if found is None:
        raise invalid("step", "is no whole number of seconds, 15m, 1h or 1d")
    seconds = float(found[1]) * _SECONDS[found[2]]
    if not 0.0 < seconds <= STEP_MAX_S:
        raise invalid("step", f"must be from 1 to {STEP_MAX_S} s")
    return seconds


def cursor_of(series: Series, next_ms: int | None) -> str | None:
    """What the next page is asked with: where it begins, and at which resolution and step."""
    if next_ms is None:
        return None
    return f"{next_ms}-{series.resolution}-{round(series.step_s or 0)}"


def _resumed(question: Question, cursor: str) -> Question:
    found = _CURSOR.fullmatch(cursor)
    if (
        found is None
        or not question.from_ms <= int(found[1]) < question.to_ms
        or float(found[3]) > STEP_MAX_S
    ):
        raise invalid("cursor", "is no `next` of this question")
    return resumed(question, int(found[1]), found[2], float(found[3]))


def resumed(question: Question, from_ms: int, resolution: Any, step_s: float) -> Question:
    """The question from a later moment on, at the resolution that its first page had."""
    if question.days:
        return replace(question, from_ms=from_ms)
    return replace(question, from_ms=from_ms, resolution=resolution, step_s=step_s or None)


def check_raw(question: Question) -> None:
    """Refuse to stream raw samples of too many points for too long.

    Raises:
        Problem: they are.
    """
    if question.step_s is not None or question.days:
        return
    days = len(question.points) * (question.to_ms - question.from_ms) / (24 * HOUR_MS)
    if days > RAW_POINT_DAYS and not math.isclose(days, RAW_POINT_DAYS):
        raise Problem(
            "too-much",
            f"raw samples of {len(question.points)} points for "
            f"{days / len(question.points):.1f} days: at most {RAW_POINT_DAYS:.0f} points times "
            "days are given at once; ask with a step",
        )
