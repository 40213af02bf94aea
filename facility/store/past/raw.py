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

from facility.points import ByteArray, FloatArray, IntArray, PointId
from facility.store.past.places import Place
from facility.store.rollups.edges import HOUR_MS
from facility.store.rows.packing import unpack_all
from facility.store.rows.tables import scan

#: What one transaction reads at most.
STRETCH_MS: Final = 8 * HOUR_MS


class Samples(NamedTuple):
    """Samples of one point by time: int64[m], float64[m], uint8[m]."""

    times_ms: IntArray
    values: FloatArray
    quality: ByteArray


class Columns(NamedTuple):
    """Samples of several points of one layout: int64[m], float64[m, c], uint8[m, c]."""

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
    rows = max(most // max(len(places), 1), 1)
    parts: dict[PointId, list[Samples]] = {name: [] for name in places}
    cut_ms: int | None = None
    for (number, length), positions in wanted.items():
        at = np.array(list(positions.values()), dtype=np.int64)
        got, more_ms = _read_layout(engine, number, length, at, from_ms, to_ms, rows)
        if more_ms is not None:
            cut_ms = more_ms if cut_ms is None else min(cut_ms, more_ms)
        for column, name in enumerate(positions):
            parts[name].append(Samples(got.times_ms, got.values[:, column], got.quality[:, column]))
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
    positions: IntArray,
    from_ms: int,
    to_ms: int,
    rows: int,
) -> tuple[Columns, int | None]:
    """At least `rows` samples of the columns if there are so many; where there are more."""
    parts: list[Columns] = []
    held, begin_ms, more_ms = 0, from_ms, None
    while begin_ms < to_ms:
        with engine.begin() as connection:
            next_ms = next_of(connection, number, begin_ms)
            if next_ms is None or next_ms >= to_ms:
                break
            begin_ms = max(begin_ms, next_ms - next_ms % HOUR_MS)
            end_ms = min(begin_ms - begin_ms % HOUR_MS + STRETCH_MS, to_ms)
            part = _stretch(connection, number, length, positions, begin_ms, end_ms)
        parts.append(part)
        held += len(part.times_ms)
        begin_ms = end_ms
        if held > rows:
            break
    got = _stacked(parts, len(positions))
    if held > rows:
        more_ms = int(got.times_ms[rows])
        got = Columns(got.times_ms[:rows], got.values[:rows], got.quality[:rows])
    return got, more_ms


def _stacked(parts: Sequence[Columns], width: int) -> Columns:
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return Columns(np.zeros(0, np.int64), np.zeros((0, width)), np.zeros((0, width), np.uint8))
    return Columns(
        np.concatenate([p.times_ms for p in parts]),
        np.concatenate([p.values for p in parts]),
        np.concatenate([p.quality for p in parts]),
    )


def next_of(connection: sa.Connection, number: int, from_ms: int) -> int | None:
    """When the layout's next sample stands, or the hour of it; None: there is none."""
    found: int | None = connection.execute(
        sa.select(sa.func.min(scan.c.source_ms)).where(
            scan.c.layout_id == number, scan.c.source_ms >= from_ms
        )
    ).scalar()
    return found


def _stretch(
    connection: sa.Connection,
    number: int,
    length: int,
    positions: IntArray,
    from_ms: int,
    to_ms: int,
) -> Columns:
    """The samples of the columns in [from_ms, to_ms), by time."""
    rows = connection.execute(
        sa.select(scan.c.source_ms, scan.c.data)
        .where(scan.c.layout_id == number, scan.c.source_ms >= from_ms, scan.c.source_ms < to_ms)
        .order_by(scan.c.source_ms)
    ).all()
    values, quality = unpack_all([row.data for row in rows], length)
    return Columns(
        np.array([row.source_ms for row in rows], dtype=np.int64),
        values[:, positions],
        quality[:, positions],
    )


def hours_with_scans(connection: sa.Connection, number: int, from_ms: int, to_ms: int) -> list[int]:
    """The hours of a layout that touch the range and hold samples that are not compacted yet."""
    found: list[int] = []
    at_ms = from_ms - from_ms % HOUR_MS
    while at_ms < to_ms:
        next_ms: int | None = connection.execute(
            sa.select(sa.func.min(scan.c.source_ms)).where(
                scan.c.layout_id == number, scan.c.source_ms >= at_ms, scan.c.source_ms < to_ms
            )
        ).scalar()
        if next_ms is None:
            break
        hour_ms = next_ms - next_ms % HOUR_MS
        found.append(hour_ms)
        at_ms = hour_ms + HOUR_MS
    return found
