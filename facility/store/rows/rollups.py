"""Writing roll-ups: quarters when an hour was compacted, days when they are over.

Everything here may be done again: an hour that late data reopened is summed up anew from all of
its samples and takes the place of what stood there, unless it holds fewer samples than what
stands there, which means that its raw samples are gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import sqlalchemy as sa

from facility.points import ByteArray, FloatArray, IntArray, PointId
from facility.store.rollups import QUARTER_MS, Buckets, CounterRule, PointRules, SiteDays
from facility.store.rollups.counters import difference, is_counter
from facility.store.rollups.summing import summarise
from facility.store.rows import meta
from facility.store.rows.tables import point, rollup_15m

#: Days that end up to this moment have their rows, or are getting them now: whoever changes a
#: quarter of such a day reckons the day again.
DAYS_BEGUN: Final = "rollup_days_begun"
#: Days that end up to this moment have their rows.
DAYS_DONE: Final = "rollup_days_done"

_COLUMNS: Final = {
    "start_ms": "int8",
    "total": "float8",
    "minimum": "float8",
    "maximum": "float8",
    "first": "float8",
    "last": "float8",
    "inside": "float8",
    "first_ms": "int8",
    "last_ms": "int8",
    "point_id": "int4",
    "count": "int4",
    "good": "int4",
    "suspect": "int4",
}
_KEY: Final = ("point_id", "start_ms")
_MANY: Final = 500
#: Points of a day that are written in one transaction: about 20,000 quarters are read for them.
DAY_POINTS: Final = 200


def _upsert(table: str, columns: Iterable[str], *also: str) -> str:
    """What to do where a row stands: replace it, never by one of fewer samples."""
    sets = ", ".join((*(f"{c} = excluded.{c}" for c in columns if c not in _KEY), *also))
    return (
        f"ON CONFLICT (point_id, start_ms) DO UPDATE SET {sets} "
        f"WHERE excluded.count >= {table}.count"
    )


_NAMES: Final = ", ".join(_COLUMNS)
#: A quarter that lost its last GOOD sample counted nothing that anyone knows of.
_NO_DELTA: Final = "delta = CASE WHEN excluded.good > 0 THEN rollup_15m.delta END"
_QUARTERS_SQLITE: Final = (
    f"INSERT INTO rollup_15m ({_NAMES}) VALUES ({', '.join('?' for _ in _COLUMNS)}) "
    + _upsert("rollup_15m", _COLUMNS, _NO_DELTA)
)
_QUARTERS_POSTGRESQL: Final = (
    f"INSERT INTO rollup_15m ({_NAMES}) SELECT * FROM unnest("
    + ", ".join(f"CAST(%s AS {kind}[])" for kind in _COLUMNS.values())
    + ") "
    + _upsert("rollup_15m", _COLUMNS, _NO_DELTA)
)
_DAY_COLUMNS: Final = (
    *("start_ms", "point_id", "count", "good", "suspect"),
    *("total", "minimum", "maximum", "delta", "first", "last"),
)
_EDGE: Final = (
    "(SELECT q.{0} FROM rollup_15m q WHERE q.point_id = r.point_id AND q.good > 0 "
    "AND q.start_ms >= :begin AND q.start_ms < :end ORDER BY q.start_ms {1} LIMIT 1)"
)
_DAY: Final = sa.text(
    f"INSERT INTO rollup_1d ({', '.join(_DAY_COLUMNS)}) "
    "SELECT CAST(:begin AS BIGINT), r.point_id, sum(r.count), sum(r.good), sum(r.suspect), "
    "sum(r.total), min(r.minimum), max(r.maximum), sum(r.delta), "
    f"{_EDGE.format('first', 'ASC')}, {_EDGE.format('last', 'DESC')} "
    "FROM rollup_15m r WHERE r.point_id IN :points "
    "AND r.start_ms >= :begin AND r.start_ms < :end GROUP BY r.point_id "
    + _upsert("rollup_1d", _DAY_COLUMNS)
).bindparams(sa.bindparam("points", expanding=True))

_NEIGHBOURS: Final = sa.text(
    "SELECT p.id, "
    "(SELECT max(r.start_ms) FROM rollup_15m r WHERE r.point_id = p.id AND r.good > 0 "
    "AND r.start_ms < :begin) AS before_ms, "
    "(SELECT min(r.start_ms) FROM rollup_15m r WHERE r.point_id = p.id AND r.good > 0 "
    "AND r.start_ms >= :end) AS after_ms "
    "FROM point p WHERE p.id IN :points"
).bindparams(sa.bindparam("points", expanding=True))


@dataclass(frozen=True)
class Summed:
    """Quarters of some points that were summed up, and are to be written.

    Attributes:
        ids: int64[n], the permanent numbers of the points.
        counters: number -> rule, of those that count.
    """

    ids: IntArray
    counters: Mapping[int, CounterRule]
    made: Buckets


def sum_up(
    ids: IntArray,
    points: Sequence[PointId],
    times_ms: IntArray,
    values: FloatArray,
    quality: ByteArray | None,
    rules: PointRules,
) -> Summed:
    """The quarters of a stretch of whole hours.

    Args:
        ids: int64[n], the permanent numbers of the points.
        points: n, in the same order.
        times_ms: int64[m], strictly rising; every sample that there is of these hours.
        values: float64[m, n].
        quality: uint8[m, n]; None where all are GOOD.
        rules: of the counters.
    """
    counters = {j: rules.counter(p) for j, p in enumerate(points) if is_counter(p.kind)}
    made = summarise(times_ms, values, quality, QUARTER_MS, counters)
    return Summed(ids, {int(ids[j]): rule for j, rule in counters.items()}, made)


def write(connection: sa.Connection, summed: Summed, site: SiteDays) -> None:
    """Write quarters, and the days that this changes if they were summed up before."""
    made = summed.made
    if not made.good.size:
        return
    _write_quarters(connection, summed.ids, made)
    changed = set(made.starts_ms.tolist())
    if summed.counters:
        begin_ms, end_ms = int(made.starts_ms[0]), int(made.starts_ms[-1]) + QUARTER_MS
        changed |= _reckon_deltas(connection, summed.counters, begin_ms, end_ms)
    begun = meta.get(connection, DAYS_BEGUN)
    if begun is not None:
        for begin_ms, end_ms in sorted({site.day_of(at_ms) for at_ms in changed}):
            if end_ms <= int(begun):
                write_day(connection, summed.ids.tolist(), begin_ms, end_ms)


def _write_quarters(connection: sa.Connection, ids: IntArray, made: Buckets) -> None:
    k, n = made.good.shape
    columns: dict[str, list[Any]] = {
        "start_ms": np.repeat(made.starts_ms, n).tolist(),
        "total": _known(made.total),
        "minimum": _known(made.minimum),
        "maximum": _known(made.maximum),
        "first": _known(made.first),
        "last": _known(made.last),
        "inside": _known(made.inside),
        "first_ms": _taken(made.first_ms),
        "last_ms": _taken(made.last_ms),
        "point_id": np.tile(ids, k).tolist(),
        "count": np.repeat(made.count, n).tolist(),
        "good": made.good.ravel().tolist(),
        "suspect": made.suspect.ravel().tolist(),
    }
    lists = [columns[name] for name in _COLUMNS]
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql(_QUARTERS_POSTGRESQL, tuple(lists))
    else:
        connection.exec_driver_sql(_QUARTERS_SQLITE, list(zip(*lists, strict=True)))


def _known(values: FloatArray) -> list[Any]:
    """The numbers in order, None for what is unknown."""
    flat = values.ravel()
    return _without(flat.tolist(), np.flatnonzero(np.isnan(flat)))


def _taken(times_ms: IntArray) -> list[Any]:
    """The moments in order, None where there is none."""
    flat = times_ms.ravel()
    return _without(flat.tolist(), np.flatnonzero(flat < 0))


def _without(numbers: list[Any], unknown: IntArray) -> list[Any]:
    for i in unknown.tolist():
        numbers[i] = None
    return numbers


class _Stretch(NamedTuple):
    """What the neighbours of a counter's bucket need to know of it."""

    start_ms: int
    first: float
    last: float
    first_ms: int
    last_ms: int
    inside: float
    delta: float | None


def _reckon_deltas(
    connection: sa.Connection, rules: Mapping[int, CounterRule], begin_ms: int, end_ms: int
) -> set[int]:
    """Set `delta` of the buckets from `begin_ms` to the first after `end_ms`, from what stands.

    Args:
        connection: in a transaction.
        rules: point number -> rule.
        begin_ms: of the first bucket that was written.
        end_ms: of the last one.

    Returns:
        starts of the buckets that changed.
    """
    changed: set[int] = set()
    ids = list(rules)
    for chosen in (ids[i : i + _MANY] for i in range(0, len(ids), _MANY)):
        span = {
            row.id: (row.before_ms, row.after_ms)
            for row in connection.execute(
                _NEIGHBOURS, {"points": chosen, "begin": begin_ms, "end": end_ms}
            )
        }
        starts = {at for pair in span.values() for at in pair if at is not None}
        starts.update(range(begin_ms, end_ms, QUARTER_MS))
        fixed: list[dict[str, Any]] = []
        for number, stretches in _stretches(connection, chosen, sorted(starts)).items():
            low_ms, high_ms = span[number]
            one: _Stretch | None = None
            for other in stretches:
                if low_ms is not None and other.start_ms < low_ms:
                    continue
                if other.start_ms > (end_ms if high_ms is None else high_ms):
                    break
                delta = other.inside + _across(rules[number], one, other)
                if delta != other.delta and other.start_ms >= begin_ms:
                    fixed.append({"d": delta, "p": number, "s": other.start_ms})
                one = other
        if fixed:
            connection.execute(_SET_DELTA, fixed)
            changed.update(row["s"] for row in fixed)
    return changed


_SET_DELTA: Final = sa.text(
    "UPDATE rollup_15m SET delta = :d WHERE point_id = :p AND start_ms = :s"
)


def _across(rule: CounterRule, one: _Stretch | None, other: _Stretch) -> float:
    """What was counted between two buckets; nothing is known of before the first."""
    if one is None:
        return 0.0
    return difference(rule, one.last, other.first, (other.first_ms - one.last_ms) / 1000.0)


def _stretches(
    connection: sa.Connection, ids: Sequence[int], starts_ms: Sequence[int]
) -> dict[int, list[_Stretch]]:
    """The buckets with a GOOD sample, by point and time."""
    t = rollup_15m.c
    asked = (
        sa.select(t.point_id, t.start_ms, t.first, t.last, t.first_ms, t.last_ms, t.inside, t.delta)
        .where(t.point_id.in_(ids), t.start_ms.in_(starts_ms), t.good > 0)
        .order_by(t.point_id, t.start_ms)
    )
    found: dict[int, list[_Stretch]] = {}
    for number, *rest in connection.execute(asked):
        found.setdefault(number, []).append(_Stretch(*rest))
    return found


def write_day(connection: sa.Connection, ids: Sequence[int], begin_ms: int, end_ms: int) -> None:
    """Sum up a day of points from its quarters; a day that stands with more samples stays."""
    for some in (ids[i : i + _MANY] for i in range(0, len(ids), _MANY)):
        connection.execute(_DAY, {"points": list(some), "begin": begin_ms, "end": end_ms})


def next_day(connection: sa.Connection, site: SiteDays, over_ms: int) -> tuple[int, int] | None:
    """The oldest day that has no rows yet and ended at or before `over_ms`; None: all have.

    The caller writes it with `begin_day`, `write_day` for every point, `end_day`. To be asked of a
    reader: until the first day is over it goes through all quarters.
    """
    done = meta.get(connection, DAYS_DONE)
    if done is None:
        oldest: int | None = connection.execute(
            sa.select(sa.func.min(rollup_15m.c.start_ms))
        ).scalar()
        if oldest is None:
            return None
        day = site.day_of(oldest)
    else:
        day = site.day_of(int(done))
    return day if day[1] <= over_ms else None


def begin_day(connection: sa.Connection, end_ms: int) -> None:
    """From now on, whoever changes a quarter of days up to `end_ms` writes the day again."""
    meta.put(connection, DAYS_BEGUN, str(end_ms))


def end_day(connection: sa.Connection, end_ms: int) -> None:
    """All points have their rows of the days up to `end_ms`."""
    meta.put(connection, DAYS_DONE, str(end_ms))


def days_done(connection: sa.Connection) -> int:
    """Days that end at or before this moment have rows; 0: none has."""
    return int(meta.get(connection, DAYS_DONE) or 0)


def point_numbers(connection: sa.Connection, after: int, limit: int = DAY_POINTS) -> list[int]:
    """The numbers of points that follow `after`, rising."""
    asked = sa.select(point.c.id).where(point.c.id > after).order_by(point.c.id).limit(limit)
    return list(connection.execute(asked).scalars())
