"""Putting pieces of one point's past together: quarters to hours, samples to buckets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from facility.points import ByteArray, FloatArray, Grade, IntArray
from facility.store.rollups.counters import CounterRule, climbs


@dataclass(frozen=True)
class Pieces:
    """k pieces of one point's past, oldest first; each array has length k.

    Attributes:
        starts_ms: int64.
        count, good, suspect: int64; samples of any grade, GOOD, SUSPECT.
        total, minimum, maximum, first, last: float64, of GOOD samples; NaN without any.
        delta: float64, what a counter counted; NaN where nothing is known, and for others.
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
    delta: FloatArray

    def __len__(self) -> int:
        return len(self.starts_ms)

    def where(self, keep: object) -> Pieces:
        """Those that an index or a mask names."""
        return Pieces(*(getattr(self, f.name)[keep] for f in fields(self)))


def joined(parts: Sequence[Pieces]) -> Pieces:
    """All pieces of all parts, by time."""
    if len(parts) == 1:
        return parts[0]
    all_of = Pieces(*(np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(Pieces)))
    return all_of.where(np.argsort(all_of.starts_ms, kind="stable"))


def combine(pieces: Pieces, edges_ms: IntArray) -> Pieces:
    """One piece for each stretch between two edges, also where there is nothing.

    Args:
        pieces: none of them crosses an edge; those outside all edges are left out.
        edges_ms: int64[k + 1], rising.

    Returns:
        k pieces, of count 0 and NaN where nothing is.
    """
    k = len(edges_ms) - 1
    at = np.searchsorted(edges_ms, pieces.starts_ms, side="right") - 1
    if len(pieces) == k and np.array_equal(at, np.arange(k)):
        return _started(pieces, edges_ms[:-1])
    inside = (at >= 0) & (at < k)
    held = np.bincount(at[inside], pieces.count[inside], k)
    good = np.bincount(at[inside], pieces.good[inside], k)
    suspect = np.bincount(at[inside], pieces.suspect[inside], k)
    known = inside & (pieces.good > 0)
    some, which = pieces.where(known), at[known]
    made = {f.name: np.full(k, np.nan) for f in fields(Pieces) if f.type == "FloatArray"}
    if len(some):
        begins = np.flatnonzero(np.append(True, which[1:] != which[:-1]))
        ends = np.append(begins[1:], len(which)) - 1
        where = which[begins]
        made["total"][where] = np.add.reduceat(some.total, begins)
        made["minimum"][where] = np.minimum.reduceat(some.minimum, begins)
        made["maximum"][where] = np.maximum.reduceat(some.maximum, begins)
        made["first"][where] = some.first[begins]
        made["last"][where] = some.last[ends]
        made["delta"][where] = np.add.reduceat(some.delta, begins)
    return Pieces(
        edges_ms[:-1],
        held.astype(np.int64),
        good.astype(np.int64),
        suspect.astype(np.int64),
        **made,
    )


def _started(pieces: Pieces, starts_ms: IntArray) -> Pieces:
    rest = (getattr(pieces, f.name) for f in fields(Pieces) if f.name != "starts_ms")
    return Pieces(starts_ms, *rest)


def from_samples(
    times_ms: IntArray,
    values: FloatArray,
    quality: ByteArray,
    edges_ms: IntArray,
    rule: CounterRule | None = None,
    before: tuple[int, float] | None = None,
) -> Pieces:
    """One piece for each stretch between two edges that holds a sample.

    Args:
        times_ms: int64[m], strictly rising.
        values: float64[m].
        quality: uint8[m].
        edges_ms: int64[k + 1], rising; samples outside are left out.
        rule: of a counter; None for other points.
        before: when the last GOOD reading before was taken, and what it was; what the counter
            counted since then is in the piece of the first reading.
    """
    k = len(edges_ms) - 1
    at = np.searchsorted(edges_ms, times_ms, side="right") - 1
    grade = quality & 0b11
    inside = (at >= 0) & (at < k)
    good = inside & (grade == int(Grade.GOOD)) & np.isfinite(values)
    held = np.bincount(at[inside], minlength=k)
    filled = np.flatnonzero(held)
    made = {f.name: np.full(k, np.nan) for f in fields(Pieces) if f.type == "FloatArray"}
    which, taken_ms, read = at[good], times_ms[good], values[good]
    if len(read):
        begins = np.flatnonzero(np.append(True, which[1:] != which[:-1]))
        ends = np.append(begins[1:], len(which)) - 1
        where = which[begins]
        made["total"][where] = np.add.reduceat(read, begins)
        made["minimum"][where] = np.minimum.reduceat(read, begins)
        made["maximum"][where] = np.maximum.reduceat(read, begins)
        made["first"][where] = read[begins]
        made["last"][where] = read[ends]
        if rule is not None:
            if before is not None:
                taken_ms, read = np.append(before[0], taken_ms), np.append(before[1], read)
            done_ms, steps = climbs(rule, taken_ms, read)
            to = np.searchsorted(edges_ms, done_ms, side="right") - 1
            made["delta"][where] = np.bincount(to, steps, k)[where]
    every = Pieces(
        edges_ms[:-1],
        held.astype(np.int64),
        np.bincount(which, minlength=k).astype(np.int64),
        np.bincount(at[inside & (grade == int(Grade.SUSPECT))], minlength=k).astype(np.int64),
        **made,
    )
    return every.where(filled)
