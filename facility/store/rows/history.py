"""Reading samples back: the newest, a raw stretch, or buckets.

Reads go page by page, each page in a transaction of its own, so that a long question never holds
back SQLite's checkpoint or PostgreSQL's vacuum.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np
import sqlalchemy as sa

from facility.points import BAD_TIMEOUT, ByteArray, FloatArray, Grade, IntArray, PointId
from facility.store.errors import HistoryLimit
from facility.store.records import Sample, Series
from facility.store.rows.packing import unpack
from facility.store.rows.tables import layout, point, scan

MAX_RAW_SAMPLES: Final = 100_000
MAX_BUCKETS: Final = 20_000
MAX_SCANS_READ: Final = 1_000_000
_PAGE: Final = 5_000


#: (layout id, position of the point in it, its number of points)
_Place = tuple[int, int, int]


def _places(connection: sa.Connection, points: Sequence[PointId]) -> dict[PointId, list[_Place]]:
    """Where each point stands in every layout that ever held it."""
    numbers: dict[str, int] = {}
    refs = [str(p) for p in points]
    for start in range(0, len(refs), 500):
        asked = sa.select(point.c.ref, point.c.id).where(point.c.ref.in_(refs[start : start + 500]))
        numbers.update((row.ref, row.id) for row in connection.execute(asked))
    layouts: dict[str, list[tuple[int, IntArray]]] = {p.device: [] for p in points}
    devices = list(layouts)
    for start in range(0, len(devices), 500):
        asked = sa.select(layout.c.id, layout.c.device, layout.c.point_ids).where(
            layout.c.device.in_(devices[start : start + 500])
        )
        for row in connection.execute(asked):
            layouts[row.device].append((row.id, np.frombuffer(row.point_ids, "<i8")))
    places: dict[PointId, list[_Place]] = {p: [] for p in points}
    for wanted, found in places.items():
        number = numbers.get(str(wanted))
        for layout_id, ids in layouts[wanted.device] if number is not None else ():
            at = np.flatnonzero(ids == number)
            if len(at):
                found.append((layout_id, int(at[0]), len(ids)))
    return places


def latest(connection: sa.Connection, points: Sequence[PointId]) -> list[Sample]:
    """The newest stored sample of each point, in the order asked; each layout is read once."""
    places = _places(connection, points)
    lengths = {number: n for found in places.values() for number, _, n in found}
    newest: dict[int, tuple[int, int, FloatArray, ByteArray]] = {}
    for number, length in lengths.items():
        row = connection.execute(
            sa.select(scan.c.source_ms, scan.c.received_ms, scan.c.data)
            .where(scan.c.layout_id == number)
            .order_by(scan.c.source_ms.desc())
            .limit(1)
        ).one_or_none()
        if row is not None:
            newest[number] = (row.source_ms, row.received_ms, *unpack(row.data, length))
    return [_sample(wanted, places[wanted], newest) for wanted in points]


def _sample(
    wanted: PointId,
    places: Sequence[_Place],
    newest: Mapping[int, tuple[int, int, FloatArray, ByteArray]],
) -> Sample:
    held = [(newest[number], position) for number, position, _ in places if number in newest]
    if not held:
        return Sample(wanted, None, None, BAD_TIMEOUT)
    (_, received_ms, values, quality), position = max(held, key=lambda h: h[0][0])
    value = float(values[position])
    return Sample(
        wanted, received_ms, value if math.isfinite(value) else None, int(quality[position])
    )


def _check(from_ms: int, to_ms: int, step_s: float | None) -> int | None:
    """The step in ms; refuses nonsense."""
    if to_ms <= from_ms:
        raise HistoryLimit("the range is empty: `to` must be after `from`")
    if step_s is None:
        return None
    if not math.isfinite(step_s) or step_s < 1.0 or step_s != int(step_s):
        raise HistoryLimit("the step must be a whole number of seconds, at least 1")
    step_ms = int(step_s) * 1000
    buckets = -(-to_ms // step_ms) - from_ms // step_ms
    if buckets > MAX_BUCKETS:
        raise HistoryLimit(
            f"{buckets} buckets asked for, at most {MAX_BUCKETS} are given: "
            "widen the step or narrow the range"
        )
    return step_ms


def _pages(
    engine: sa.Engine, place: _Place, from_ms: int, to_ms: int
) -> Iterator[tuple[list[int], list[float], list[int]]]:
    """Times, values and quality bytes of one layout's scans, a page at a time."""
    number, position, length = place
    after = from_ms
    while True:
        with engine.begin() as connection:
            rows = connection.execute(
                sa.select(scan.c.source_ms, scan.c.data)
                .where(
                    scan.c.layout_id == number,
                    scan.c.source_ms >= after,
                    scan.c.source_ms < to_ms,
                )
                .order_by(scan.c.source_ms)
                .limit(_PAGE)
            ).all()
        times: list[int] = []
        values: list[float] = []
        grades: list[int] = []
        for at_ms, data in rows:
            some, quality = unpack(data, length)
            times.append(at_ms)
            values.append(float(some[position]))
            grades.append(int(quality[position]))
        yield times, values, grades
        if len(rows) < _PAGE:
            return
        after = rows[-1].source_ms + 1


def _samples(
    engine: sa.Engine, wanted: PointId, from_ms: int, to_ms: int, limit: int
) -> tuple[IntArray, FloatArray, ByteArray]:
    """All samples in the range by time; of two at one time the later written one."""
    with engine.begin() as connection:
        places = _places(connection, [wanted])[wanted]
    times: list[int] = []
    values: list[float] = []
    grades: list[int] = []
    for place in places:
        for some_times, some_values, some_grades in _pages(engine, place, from_ms, to_ms):
            times += some_times
            values += some_values
            grades += some_grades
            if len(times) > limit:
                raise HistoryLimit(
                    f"more than {limit} samples in this range: narrow it, or ask with a wider step"
                )
    at = np.array(times, dtype=np.int64)
    order = np.argsort(at, kind="stable")
    at = at[order]
    keep = np.append(at[1:] != at[:-1], True) if len(at) else np.zeros(0, dtype=bool)
    chosen = order[keep]
    return (
        at[keep],
        np.array(values, dtype=np.float64)[chosen],
        np.array(grades, dtype=np.uint8)[chosen],
    )


def history(
    engine: sa.Engine, wanted: PointId, from_ms: int, to_ms: int, step_s: float | None
) -> Series:
    """The point's past in [from_ms, to_ms), raw or in buckets of `step_s`.

    Raises:
        HistoryLimit: an empty range, a bad step, or more than is given at once.
    """
    step_ms = _check(from_ms, to_ms, step_s)
    limit = MAX_RAW_SAMPLES if step_ms is None else MAX_SCANS_READ
    times, values, quality = _samples(engine, wanted, from_ms, to_ms, limit)
    grade = quality & 0b11
    good, suspect = grade == int(Grade.GOOD), grade == int(Grade.SUSPECT)
    if step_ms is None:
        shown = np.where(grade == int(Grade.BAD), np.nan, values)
        return Series(
            wanted,
            from_ms,
            to_ms,
            None,
            times,
            shown,
            shown,
            shown,
            np.ones(len(times), dtype=np.int64),
            good.astype(np.int64),
            suspect.astype(np.int64),
            quality,
        )
    first = from_ms // step_ms
    n = -(-to_ms // step_ms) - first
    bucket = times // step_ms - first
    usable = good & np.isfinite(values)
    where, what = bucket[usable], values[usable]
    held = np.bincount(where, minlength=n)
    total = np.bincount(where, weights=what, minlength=n)
    low, high = np.full(n, np.inf), np.full(n, -np.inf)
    np.minimum.at(low, where, what)
    np.maximum.at(high, where, what)
    empty = held == 0
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.where(empty, np.nan, total / held)
    return Series(
        wanted,
        from_ms,
        to_ms,
        float(step_ms) / 1000.0,
        (np.arange(n, dtype=np.int64) + first) * step_ms,
        mean,
        np.where(empty, np.nan, low),
        np.where(empty, np.nan, high),
        np.bincount(bucket, minlength=n).astype(np.int64),
        np.bincount(bucket[good], minlength=n).astype(np.int64),
        np.bincount(bucket[suspect], minlength=n).astype(np.int64),
    )
