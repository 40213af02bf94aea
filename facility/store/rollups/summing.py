"""From samples to buckets: one layout's stretch of scans, all its points at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from facility.points import ByteArray, FloatArray, Grade, IntArray
from facility.store.rollups.counters import CounterRule, rise


@dataclass(frozen=True)
class Buckets:
    """What k buckets of n points held.

    Attributes:
        starts_ms: int64[k].
        count: int64[k]; samples of each point, of any grade.
        good, suspect: int64[k, n]; the rest is BAD. GOOD counts only where the value is finite.
        total, minimum, maximum, first, last: float64[k, n], of GOOD samples; NaN without any.
        first_ms, last_ms: int64[k, n], when the first and the last GOOD sample were taken; -1
            without any, and for points that are no counters.
        inside: float64[k, n], what a counter counted between the first and the last GOOD sample
            of the bucket; NaN for points that are no counters.
    """

    starts_ms: IntArray
    count: IntArray
    good: IntArray
    suspect: IntArray
    total: FloatArray
    minimum: FloatArray
    maximum: FloatArray
    first: FloatArray
    last: FloatArray
    first_ms: IntArray
    last_ms: IntArray
    inside: FloatArray


def summarise(
    times_ms: IntArray,
    values: FloatArray,
    quality: ByteArray | None,
    step_ms: int,
    counters: Mapping[int, CounterRule],
) -> Buckets:
    """Sum up a stretch of one layout's scans in buckets at multiples of `step_ms`.

    Args:
        times_ms: int64[m], strictly rising.
        values: float64[m, n].
        quality: uint8[m, n] quality bytes; None where all are GOOD.
        step_ms: width of a bucket.
        counters: column -> rule, for the columns that count.

    Returns:
        the buckets that hold a sample, oldest first.
    """
    m, n = values.shape
    bucket = times_ms // step_ms
    begins = np.flatnonzero(np.append(np.full(min(m, 1), True), bucket[1:] != bucket[:-1]))
    ends = np.append(begins[1:], np.full(min(m, 1), m))
    made = _nothing(bucket[begins] * step_ms, ends - begins, n)
    for i, (begin, end) in enumerate(zip(begins.tolist(), ends.tolist(), strict=True)):
        part = slice(begin, end)
        graded = (quality[part] & 0b11).astype(np.uint8) if quality is not None else None
        _one(made, i, times_ms[part], values[part], graded, counters)
    return made


def _nothing(starts_ms: IntArray, count: IntArray, n: int) -> Buckets:
    """Buckets of n points that hold no GOOD sample yet."""

    def zeros() -> IntArray:
        return np.zeros((len(count), n), dtype=np.int64)

    def unknown() -> FloatArray:
        return np.full((len(count), n), np.nan)

    return Buckets(
        starts_ms,
        count,
        good=zeros(),
        suspect=zeros(),
        total=unknown(),
        minimum=unknown(),
        maximum=unknown(),
        first=unknown(),
        last=unknown(),
        first_ms=zeros() - 1,
        last_ms=zeros() - 1,
        inside=unknown(),
    )


def _one(
    made: Buckets,
    i: int,
    times_ms: IntArray,
    values: FloatArray,
    graded: ByteArray | None,
    counters: Mapping[int, CounterRule],
) -> None:
    """Fill bucket `i`."""
    usable: npt.NDArray[np.bool_] = np.isfinite(values)
    if graded is not None:
        usable &= graded == int(Grade.GOOD)
        made.suspect[i] = np.count_nonzero(graded == int(Grade.SUSPECT), axis=0)
    if usable.all():
        made.good[i] = len(values)
        made.total[i] = values.sum(axis=0)
        made.minimum[i] = values.min(axis=0)
        made.maximum[i] = values.max(axis=0)
        made.first[i] = values[0]
        made.last[i] = values[-1]
    else:
        good = np.count_nonzero(usable, axis=0)
        some = good > 0
        made.good[i] = good
        made.total[i] = np.where(some, np.where(usable, values, 0.0).sum(axis=0), np.nan)
        made.minimum[i] = np.where(some, np.where(usable, values, np.inf).min(axis=0), np.nan)
        made.maximum[i] = np.where(some, np.where(usable, values, -np.inf).max(axis=0), np.nan)
        column = np.arange(values.shape[1])
        earliest = values[usable.argmax(axis=0), column]
        latest = values[len(values) - 1 - usable[::-1].argmax(axis=0), column]
        made.first[i] = np.where(some, earliest, np.nan)
        made.last[i] = np.where(some, latest, np.nan)
    for j, rule in counters.items():
        where = usable[:, j]
        taken_ms, read = times_ms[where], values[where, j]
        if len(read):
            made.first_ms[i, j], made.last_ms[i, j] = taken_ms[0], taken_ms[-1]
            made.inside[i, j] = rise(rule, taken_ms, read)
