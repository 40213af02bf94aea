"""What is asked of the past, what bounds it, and at which edges it is answered. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np

from facility.points import IntArray, PointId
from facility.store.errors import HistoryLimit
from facility.store.records import Series
from facility.store.rollups import QUARTER_MS, SiteDays

Resolution = Literal["raw", "15m", "1d"]

#: Most buckets of one point, and of all points of one question together.
MAX_BUCKETS: Final = 50_000
MAX_BUCKETS_IN_ALL: Final = 1_000_000
MAX_POINTS: Final = 500
#: Most raw samples that are handed out, and that are read to fill buckets.
MAX_RAW_SAMPLES: Final = 100_000
MAX_SAMPLES_READ: Final = 2_000_000
QUARTER_S: Final = QUARTER_MS / 1000.0
DAY_S: Final = 86_400.0


@dataclass(frozen=True)
class Question:
    """A stretch of the past of some points.

    Attributes:
        points: at least one, none twice.
        from_ms, to_ms: [from, to), UTC milliseconds.
        step_s: width of a bucket, whole seconds; None: raw samples.
        days: buckets are days of the site instead.
        resolution: what to answer from; None: the best there is that answers fast.
        wanted: beside count, good and suspect: of `total`, `minimum`, `maximum`, `first`, `last`,
            `delta`; what is not wanted may be NaN in the answer.
        most: raw samples, or buckets of each point, in one answer; what is beyond it is for the
            next question. None: all, or HistoryLimit.
    """

    points: tuple[PointId, ...]
    from_ms: int
    to_ms: int
    step_s: float | None = None
    days: bool = False
    resolution: Resolution | None = None
    wanted: frozenset[str] = frozenset({"total", "minimum", "maximum", "first", "last", "delta"})
    most: int | None = None


@dataclass(frozen=True)
class Answer:
    """A series for each point, in the order asked.

    Attributes:
        series: all of one resolution and step, which each of them says.
        next_ms: where the next question begins; None when this is all.
    """

    series: tuple[Series, ...]
    next_ms: int | None


def check(question: Question) -> Question:
    """The question with its step or days stated where its resolution implies them.

    Raises:
        HistoryLimit: nothing, nonsense, or more than is given.
    """
    q = question
    if q.to_ms <= q.from_ms:
        raise HistoryLimit("the range is empty: `to` must be after `from`")
    if not 0 < len(q.points) <= MAX_POINTS:
        raise HistoryLimit(f"{len(q.points)} points asked for, at most {MAX_POINTS} are given")
    step_s = q.step_s
    if step_s is not None and not (
        math.isfinite(step_s) and step_s >= 1.0 and step_s == int(step_s)
    ):
        raise HistoryLimit("the step must be a whole number of seconds, at least 1")
    if q.resolution == "1d":
        if step_s is not None and not q.days:
            raise HistoryLimit("days of the site have no step in seconds: ask for step 1d")
        return replace(q, days=True, step_s=None)
    if q.resolution == "15m" and not q.days:
        q = replace(q, step_s=step_s or QUARTER_S)
        if not is_quarters(q):
            raise HistoryLimit("quarters of an hour make steps of a multiple of 900 s")
    return q


def is_quarters(question: Question) -> bool:
    """Whether quarters of an hour can fill the buckets."""
    step_s = question.step_s
    return question.days or (step_s is not None and step_s % QUARTER_S == 0.0)


def coarser(question: Question) -> Question:
    """The question as quarters of an hour can answer it."""
    if is_quarters(question):
        return question
    quarters = -(-(question.step_s or 0.0) // QUARTER_S)
    return replace(question, step_s=max(quarters, 1.0) * QUARTER_S)


def edges_of(question: Question, site: SiteDays) -> tuple[IntArray, int | None]:
    """Begins of the buckets and the end of the last, and where the next answer goes on.

    The first begins at or before `from`, the last ends at or after `to`.

    Raises:
        HistoryLimit: more buckets than are given.
    """
    q = question
    if q.days:
        edges = np.array(site.edges(q.from_ms, q.to_ms), dtype=np.int64)
    else:
        step_ms = int(q.step_s or 1.0) * 1000
        first, last = q.from_ms // step_ms, -(-q.to_ms // step_ms)
        _bound(last - first, q)
        edges = np.arange(first, last + 1, dtype=np.int64) * step_ms
    _bound(len(edges) - 1, q)
    if q.most is None or len(edges) - 1 <= q.most:
        return edges, None
    return edges[: q.most + 1], int(edges[q.most])


def _bound(buckets: int, question: Question) -> None:
    n = len(question.points)
    if buckets > MAX_BUCKETS or buckets * n > MAX_BUCKETS_IN_ALL:
        most = min(MAX_BUCKETS, MAX_BUCKETS_IN_ALL // n)
        of_each = "" if n == 1 else f" of each of {n} points"
        raise HistoryLimit(
            f"{buckets} buckets{of_each} asked for, at most {most} are given: "
            "widen the step or narrow the range"
        )
