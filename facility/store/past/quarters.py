"""Reading quarters and days, the hours that are not compacted yet summed up on the way."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any, Final

import numpy as np
import sqlalchemy as sa

from facility.points import FloatArray, IntArray, PointId
from facility.store.errors import HistoryLimit
from facility.store.past import raw
from facility.store.past.places import Place
from facility.store.past.question import MAX_SAMPLES_READ
from facility.store.rollups import QUARTER_MS, CounterRule
from facility.store.rollups.counters import is_counter
from facility.store.rollups.edges import HOUR_MS
from facility.store.rollups.pieces import Pieces, from_samples, joined

_FLOATS: Final = tuple(f.name for f in fields(Pieces) if f.type == "FloatArray")
#: A transaction reads about so many rows at most.
_ROWS: Final = 50_000
_FETCHED: Final = 500


def nothing() -> Pieces:
    """No pieces."""
    none = np.zeros(0, dtype=np.int64)
    return Pieces(none, none, none, none, *(np.zeros(0) for _ in _FLOATS))


def read(
    engine: sa.Engine,
    table: str,
    numbers: Mapping[PointId, int],
    from_ms: int,
    to_ms: int,
    step_ms: int,
    wanted: frozenset[str],
) -> dict[PointId, Pieces]:
    """The rows of points that begin in [from_ms, to_ms); what is not wanted is NaN.

    Args:
        engine: reads only.
        table: `rollup_15m` or `rollup_1d`.
        numbers: of the points.
        from_ms: included.
        to_ms: not included.
        step_ms: about how far apart the rows of a point are.
        wanted: columns.
    """
    columns = [name for name in _FLOATS if name in wanted]
    each = max((to_ms - from_ms) // step_ms, 1)
    at_once = max(_ROWS // each, 1)
    found: dict[PointId, Pieces] = dict.fromkeys(numbers, nothing())
    names = {number: name for name, number in numbers.items()}
    ids = sorted(names)
    for start in range(0, len(ids), at_once):
        some = ids[start : start + at_once]
        statement = (
            f"SELECT point_id, start_ms, count, good, suspect{''.join(', ' + c for c in columns)} "
            f"FROM {table} WHERE point_id IN ({', '.join(map(str, some))}) "
            f"AND start_ms >= {from_ms} AND start_ms < {to_ms} ORDER BY point_id, start_ms"
        )
        with engine.begin() as connection:
            rows = _table(connection, statement, 5 + len(columns))
        for number, pieces in _by_point(rows, columns):
            found[names[number]] = pieces
    return found


def _table(connection: sa.Connection, statement: str, width: int) -> FloatArray:
    """float64[rows, width]: all rows; None becomes NaN, times stay exact below 2^53.

    The driver's own rows, some at a time: row objects would double the time, and so would the
    collector of garbage if all of them lived at once.
    """
    cursor: Any = connection.exec_driver_sql(statement).cursor
    parts = [np.zeros((0, width))]
    while rows := cursor.fetchmany(_FETCHED):
        parts.append(np.array(rows, dtype=np.float64))
    return np.concatenate(parts)


def _by_point(table: FloatArray, columns: Sequence[str]) -> list[tuple[int, Pieces]]:
    """The rows of each point; its number, start, count, good and suspect stand first in a row."""
    if not len(table):
        return []
    whole = table[:, :5].astype(np.int64)
    begins = np.flatnonzero(np.append(True, whole[1:, 0] != whole[:-1, 0]))
    found = []
    for begin, end in zip(begins, [*begins[1:], len(table)], strict=True):
        part = slice(begin, end)
        unknown = np.full(end - begin, np.nan)
        floats = {
            name: table[part, 5 + columns.index(name)] if name in columns else unknown
            for name in _FLOATS
        }
        starts_ms, count, good, suspect = (whole[part, i] for i in range(1, 5))
        pieces = Pieces(starts_ms, count, good, suspect, **floats)
        found.append((int(whole[begin, 0]), pieces))
    return found


def read_quarters(
    engine: sa.Engine,
    numbers: Mapping[PointId, int],
    places: Mapping[PointId, list[Place]],
    from_ms: int,
    to_ms: int,
    wanted: frozenset[str],
    rule_of: Callable[[PointId], CounterRule],
) -> dict[PointId, Pieces]:
    """The quarters of points in [from_ms, to_ms), also of hours that are not compacted yet.

    Raises:
        HistoryLimit: so much waits for compaction that it cannot be summed up here.
    """
    hours = _waiting(engine, places, from_ms, to_ms)
    if hours:
        wanted = wanted | {"last"}
    # An hour more in front, since counters go on from what stands before.
    early_ms = from_ms - HOUR_MS
    stored = read(engine, "rollup_15m", numbers, early_ms, to_ms, QUARTER_MS, wanted)
    tails = _tails(engine, places, hours, stored, rule_of if "delta" in wanted else None)
    found = {}
    for name, pieces in stored.items():
        begin, end = np.searchsorted(pieces.starts_ms, [from_ms, to_ms])
        part = pieces.where(slice(begin, end))
        if name in tails:
            part = _over(part, tails[name], from_ms, to_ms)
        found[name] = part
    return found


def _waiting(
    engine: sa.Engine, places: Mapping[PointId, list[Place]], from_ms: int, to_ms: int
) -> dict[int, list[int]]:
    """Layout -> its hours in the range that hold scans."""
    layouts = {place.layout for held in places.values() for place in held}
    found: dict[int, list[int]] = {}
    with engine.begin() as connection:
        for number in layouts:
            hours = raw.hours_with_scans(connection, number, from_ms, to_ms)
            if hours:
                found[number] = hours
    return found


def _tails(
    engine: sa.Engine,
    places: Mapping[PointId, list[Place]],
    hours: Mapping[int, list[int]],
    stored: Mapping[PointId, Pieces],
    rule_of: Callable[[PointId], CounterRule] | None,
) -> dict[PointId, Pieces]:
    """The quarters of hours that hold scans, summed up from all their samples."""
    alike: dict[tuple[int, ...], dict[PointId, list[Place]]] = {}
    for name, held in places.items():
        of_point = sorted({hour for place in held for hour in hours.get(place.layout, ())})
        if of_point:
            alike.setdefault(tuple(of_point), {})[name] = held
    found: dict[PointId, Pieces] = {}
    for some_hours, of_points in alike.items():
        parts: dict[PointId, list[Pieces]] = {name: [] for name in of_points}
        before: dict[PointId, tuple[int, float] | None] = {}
        for begin_ms, end_ms in _runs(some_hours):
            samples, more_ms = raw.read(engine, of_points, begin_ms, end_ms, MAX_SAMPLES_READ)
            if more_ms is not None:
                raise HistoryLimit("too much waits for compaction in this range: narrow it")
            edges = np.arange(begin_ms, end_ms + 1, QUARTER_MS, dtype=np.int64)
            for name, got in samples.items():
                rule = None
                if rule_of is not None and is_counter(name.kind):
                    rule = rule_of(name)
                    before[name] = _last(stored[name], parts[name], begin_ms)
                parts[name].append(from_samples(*got, edges, rule, before.get(name)))
        found |= {name: joined(some) for name, some in parts.items()}
    return found


def _runs(hours: Sequence[int]) -> list[tuple[int, int]]:
    """Hours that follow each other, as [begin, end)."""
    runs: list[tuple[int, int]] = []
    for hour_ms in hours:
        if runs and runs[-1][1] == hour_ms:
            runs[-1] = (runs[-1][0], hour_ms + HOUR_MS)
        else:
            runs.append((hour_ms, hour_ms + HOUR_MS))
    return runs


def _last(stored: Pieces, parts: Sequence[Pieces], at_ms: int) -> tuple[int, float] | None:
    """The last GOOD reading before a moment; as old as it may be, so that no rise is refused."""
    best: tuple[int, float] | None = None
    for pieces in (stored, *parts):
        known: IntArray = np.flatnonzero((pieces.good > 0) & (pieces.starts_ms < at_ms))
        if len(known):
            start_ms = int(pieces.starts_ms[known[-1]])
            if best is None or start_ms >= best[0]:
                best = (start_ms, float(pieces.last[known[-1]]))
    return best


def _over(part: Pieces, tail: Pieces, from_ms: int, to_ms: int) -> Pieces:
    """The tail's quarters in place of those that stand, except where more samples stand."""
    inside = (tail.starts_ms >= from_ms) & (tail.starts_ms < to_ms)
    at = np.searchsorted(part.starts_ms, tail.starts_ms)
    known = at < len(part)
    same = np.zeros(len(tail), dtype=bool)
    same[known] = part.starts_ms[at[known]] == tail.starts_ms[known]
    fewer = np.zeros(len(tail), dtype=bool)
    fewer[same] = part.count[at[same]] > tail.count[same]
    kept = tail.where(inside & ~fewer)
    replaced = np.isin(part.starts_ms, kept.starts_ms)
    return joined([part.where(~replaced), kept])


def mean_of(pieces: Pieces) -> FloatArray:
    """float64[k]: mean of GOOD samples, NaN without any."""
    with np.errstate(invalid="ignore", divide="ignore"):
        mean: FloatArray = np.where(pieces.good > 0, pieces.total / pieces.good, np.nan)
    return mean
