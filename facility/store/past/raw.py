"""Reading samples back, a stretch of hours at a time.

Each stretch is read in a transaction of its own, so that a long question never holds back
SQLite's checkpoint or PostgreSQL's vacuum, and sees compaction either before or after it moved an
hour, never between.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import sqlalchemy as sa

from facility.points import ByteArray, FloatArray, Grade, IntArray, PointId
from facility.store.chunks import Columns
from facility.store.errors import StoreCorrupt
from facility.store.past.places import Place
from facility.store.rollups.edges import HOUR_MS
from facility.store.rows import chunks as rows

#: What one transaction reads at most.
STRETCH_MS: Final = 8 * HOUR_MS


class Samples(NamedTuple):
    """Samples of one point by time: int64[m], float64[m], uint8[m]."""

    times_ms: IntArray
    values: FloatArray
    quality: ByteArray


def read(
    engine: sa.Engine,
    places: dict[PointId, list[Place]],
    from_ms: int,
    to_ms: int,
    most: int,
) -> tuple[dict[PointId, Samples], int | None]:
    """Every sample of the points in [from_ms, to_ms), the oldest ones where there are too many.

    Args:
        engine: reads only.
        places: where each point stands.
        from_ms: included.
        to_ms: not included.
        most: samples in all, about.

    Returns:
        each point's samples by time (of two layouts at one time those of the newer one), and the
        moment from which on there are more; None when this is all.
    """
    wanted: dict[tuple[int, int], dict[PointId, int]] = {}
    for name, held in places.items():
        for place in held:
            wanted.setdefault((place.layout, place.length), {})[name] = place.position
    each = max(most // max(len(places), 1), 1)
    parts: dict[PointId, list[Samples]] = {name: [] for name in places}
    cut_ms: int | None = None
    # Layouts in the order of their numbers, whichever point named them first: the newer one counts.
    for (number, length), positions in sorted(wanted.items()):
        at = list(positions.values())
        got, more_ms = _read_layout(engine, number, length, at, from_ms, to_ms, each)
        if more_ms is not None:
            cut_ms = more_ms if cut_ms is None else min(cut_ms, more_ms)
        for column, name in enumerate(positions):
            parts[name].append(Samples(got.times_ms, got.values[column], got.quality[column]))
    return {name: _before(_merged(some), cut_ms) for name, some in parts.items()}, cut_ms


def _merged(parts: Sequence[Samples]) -> Samples:
    """All parts by time; of two samples at one time that of the later part."""
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return Samples(np.zeros(0, np.int64), np.zeros(0), np.zeros(0, np.uint8))
    times_ms = np.concatenate([p.times_ms for p in parts])
    order = np.argsort(times_ms, kind="stable")
    times_ms = times_ms[order]
    keep = np.append(times_ms[1:] != times_ms[:-1], np.full(min(len(times_ms), 1), True))
    chosen = order[keep]
    return Samples(
        times_ms[keep],
        np.concatenate([p.values for p in parts])[chosen],
        np.concatenate([p.quality for p in parts])[chosen],
    )


def _before(samples: Samples, cut_ms: int | None) -> Samples:
    if cut_ms is None:
        return samples
    end = int(np.searchsorted(samples.times_ms, cut_ms))
    return Samples(samples.times_ms[:end], samples.values[:end], samples.quality[:end])


def _read_layout(
    engine: sa.Engine,
    number: int,
    length: int,
    positions: list[int],
    from_ms: int,
    to_ms: int,
    most: int,
) -> tuple[Columns, int | None]:
    """The oldest `most` samples of each of those positions; from when on there are more."""
    parts: list[Columns] = []
    held, begin_ms = 0, from_ms
    while begin_ms < to_ms and held <= most:
        with engine.begin() as connection:
            next_ms = rows.next_hour(connection, number, begin_ms)
            if next_ms is None or next_ms >= to_ms:
                break
            begin_ms = max(begin_ms, rows.hour_of(next_ms))
            end_ms = min(rows.hour_of(begin_ms) + STRETCH_MS, to_ms)
            try:
                part = rows.read(connection, number, length, begin_ms, end_ms, positions)
            except ValueError as error:
                raise StoreCorrupt(f"layout {number}, from {begin_ms}: {error}") from error
        parts.append(part)
        held += len(part)
        begin_ms = end_ms
    got = rows.end_to_end(parts) if parts else Columns.none(len(positions))
    if held <= most:
        return got, None
    more_ms = int(got.times_ms[most])
    return got.between(int(got.times_ms[0]), more_ms), more_ms


def split(samples: Samples, at_ms: int) -> tuple[tuple[int, float] | None, Samples]:
    """The last GOOD reading before a moment, and the samples from then on."""
    first = int(np.searchsorted(samples.times_ms, at_ms))
    early = Samples(samples.times_ms[:first], samples.values[:first], samples.quality[:first])
    good = np.flatnonzero((early.quality & 0b11 == int(Grade.GOOD)) & np.isfinite(early.values))
    rest = Samples(samples.times_ms[first:], samples.values[first:], samples.quality[first:])
    if not len(good):
        return None, rest
    return (int(early.times_ms[good[-1]]), float(early.values[good[-1]])), rest


def hours_with_scans(connection: sa.Connection, number: int, from_ms: int, to_ms: int) -> list[int]:
    """The hours of a layout that touch the range and hold samples that are not compacted yet."""
    found: list[int] = []
    at_ms = rows.hour_of(from_ms)
    while (next_ms := rows.oldest_raw(connection, number, at_ms)) is not None and next_ms < to_ms:
        found.append(rows.hour_of(next_ms))
        at_ms = found[-1] + HOUR_MS
    return found
