"""Answering a question about the past: from where, and how it is put together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Final

import numpy as np
import sqlalchemy as sa

from facility.points import Grade, IntArray, PointId
from facility.store.errors import HistoryLimit
from facility.store.past import heads, quarters, raw
from facility.store.past import places as placing
from facility.store.past import question as asking
from facility.store.past.places import Place
from facility.store.past.question import Answer, Question, Resolution
from facility.store.records import Series
from facility.store.rollups import QUARTER_MS, CounterRule, PointRules
from facility.store.rollups.counters import is_counter
from facility.store.rollups.edges import HOUR_MS
from facility.store.rollups.pieces import Pieces, combine, from_samples, joined
from facility.store.rows.chunks import next_hour, oldest_raw
from facility.store.rows.rollups import days_done
from facility.store.rows.tables import rollup_15m

_DAY_MS: Final = 86_400_000


def answer(engine: sa.Engine, question: Question, rules: PointRules) -> Answer:
    """What the store knows, each series with the resolution that it is answered at.

    Where a step of whole quarters or days is asked for, roll-ups answer; else raw samples do,
    unless those of one of the points are gone for a part of the range: then quarters answer for
    all of them, with a wider step.

    Raises:
        HistoryLimit: nothing, nonsense, or more than is given.
    """
    q = asking.check(question)
    with engine.begin() as connection:
        numbers = placing.numbers(connection, q.points)
        where = placing.places(connection, numbers)
        gone = _raw_is_gone(connection, q, numbers, where)
    if gone:
        q = replace(asking.coarser(q), resolution="15m")
    return _answer(engine, q, numbers, where, rules)


def _raw_is_gone(
    connection: sa.Connection,
    question: Question,
    numbers: Mapping[PointId, int],
    where: Mapping[PointId, list[Place]],
) -> bool:
    """Whether raw samples should answer, but are gone for a part of the range."""
    if question.resolution is not None or asking.is_quarters(question):
        return False
    first: dict[int, int | None] = {}
    for name, number in numbers.items():
        oldest_ms = question.to_ms
        for place in where[name]:
            if place.layout not in first:
                first[place.layout] = next_hour(connection, place.layout, question.from_ms)
            oldest_ms = min(oldest_ms, first[place.layout] or oldest_ms)
        begin_ms = question.from_ms - question.from_ms % QUARTER_MS
        end_ms = oldest_ms - oldest_ms % QUARTER_MS
        t = rollup_15m.c
        asked = sa.select(t.start_ms).where(
            t.point_id == number, t.start_ms >= begin_ms, t.start_ms < end_ms
        )
        if end_ms > begin_ms and connection.execute(asked.limit(1)).one_or_none() is not None:
            return True
    return False


def _answer(
    engine: sa.Engine,
    question: Question,
    numbers: Mapping[PointId, int],
    where: Mapping[PointId, list[Place]],
    rules: PointRules,
) -> Answer:
    mine = {p: numbers[p] for p in question.points if p in numbers}
    at = {p: where[p] for p in mine}
    if not question.days and question.step_s is None:
        return _raw(engine, question, at)
    edges, next_ms = asking.edges_of(question, rules.site)
    begin_ms, end_ms = int(edges[0]), int(edges[-1])
    if question.resolution != "raw" and asking.is_quarters(question):
        pieces = _rolled_up(engine, question, mine, at, edges, rules)
        resolution: Resolution = "1d" if question.days else "15m"
    else:
        pieces = _summed(engine, question, at, edges, rules.counter)
        resolution = "raw"
        begin_ms, end_ms = max(begin_ms, question.from_ms), min(end_ms, question.to_ms)
    step_s = asking.DAY_S if question.days else question.step_s
    series = tuple(
        _series(
            p,
            combine(pieces.get(p, quarters.nothing()), edges),
            resolution,
            step_s,
            begin_ms,
            end_ms,
        )
        for p in question.points
    )
    return Answer(series, next_ms)


def _rolled_up(
    engine: sa.Engine,
    question: Question,
    numbers: Mapping[PointId, int],
    where: Mapping[PointId, list[Place]],
    edges: IntArray,
    rules: PointRules,
) -> dict[PointId, Pieces]:
    begin_ms, end_ms = int(edges[0]), int(edges[-1])
    whole: dict[PointId, Pieces] = {}
    if question.days and question.resolution != "15m":
        layouts = {place.layout for at in where.values() for place in at}
        with engine.begin() as connection:
            done_ms = days_done(connection)
            # A day that late data waits for is summed up from its quarters meanwhile.
            waiting = [oldest_raw(connection, number, begin_ms) for number in layouts]
        done_ms = min([done_ms, *(at_ms for at_ms in waiting if at_ms is not None)])
        held = edges[np.flatnonzero(edges <= done_ms)]
        if len(held) > 1:
            whole = quarters.read(
                engine, "rollup_1d", numbers, begin_ms, int(held[-1]), _DAY_MS, question.wanted
            )
            whole = {
                name: days.where(np.isin(days.starts_ms, held)) for name, days in whole.items()
            }
            begin_ms = int(held[-1])
    if begin_ms >= end_ms:
        return whole
    rest = quarters.read_quarters(
        engine, numbers, where, begin_ms, end_ms, question.wanted, rules.counter
    )
    return {name: joined([whole.get(name, quarters.nothing()), rest[name]]) for name in rest}


def _summed(
    engine: sa.Engine,
    question: Question,
    where: dict[PointId, list[Place]],
    edges: IntArray,
    rule_of: Callable[[PointId], CounterRule],
) -> dict[PointId, Pieces]:
    """Buckets of raw samples, of those inside the range asked for."""
    begin_ms = max(int(edges[0]), question.from_ms)
    end_ms = min(int(edges[-1]), question.to_ms)
    stretches = [(begin_ms, end_ms)]
    parts: dict[PointId, list[Pieces]] = {name: [] for name in where}
    if _heads_suffice(question, where):
        first_ms, last_ms = -(-begin_ms // HOUR_MS) * HOUR_MS, end_ms - end_ms % HOUR_MS
        if first_ms < last_ms:
            known, rest = heads.read(engine, where, first_ms, last_ms)
            for name, pieces in known.items():
                parts[name].append(pieces)
            stretches = [(begin_ms, first_ms), *rest, (last_ms, end_ms)]
    left = asking.MAX_SAMPLES_READ
    # What a counter counts in the first bucket begins with the reading before it.
    early_ms = QUARTER_MS if _counts(question, where) else 0
    for some_ms, until_ms in stretches:
        samples, more_ms = raw.read(engine, where, some_ms - early_ms, until_ms, left)
        left -= sum(len(got.times_ms) for got in samples.values())
        if more_ms is not None or left < 0:
            raise HistoryLimit(
                f"more than {asking.MAX_SAMPLES_READ} samples in this range: narrow it, or ask "
                "with a wider step"
            )
        for name, got in samples.items():
            rule = rule_of(name) if early_ms and is_counter(name.kind) else None
            before, inside = raw.split(got, some_ms)
            parts[name].append(from_samples(*inside, edges, rule, before))
    return {name: joined(some) for name, some in parts.items() if some}


def _counts(question: Question, points: Iterable[PointId]) -> bool:
    """Whether it is asked what counters counted."""
    return "delta" in question.wanted and any(is_counter(p.kind) for p in points)


def _heads_suffice(question: Question, where: Mapping[PointId, list[Place]]) -> bool:
    """Whether what chunks say of whole hours answers: no difference between samples is asked for.

    A point of several layouts may have an hour in two of them, which only its samples can join.
    """
    whole = question.step_s is not None and question.step_s % (HOUR_MS / 1000) == 0.0
    return whole and not _counts(question, where) and all(len(held) == 1 for held in where.values())


def _raw(engine: sa.Engine, question: Question, where: dict[PointId, list[Place]]) -> Answer:
    limit = question.most or asking.MAX_RAW_SAMPLES
    samples, next_ms = raw.read(engine, where, question.from_ms, question.to_ms, limit)
    if next_ms is not None and question.most is None:
        raise HistoryLimit(
            f"more than {limit} samples in this range: narrow it, or ask with a wider step"
        )
    none = raw.Samples(np.zeros(0, np.int64), np.zeros(0), np.zeros(0, np.uint8))
    end_ms = next_ms or question.to_ms
    return Answer(
        tuple(
            _raw_series(p, samples.get(p, none), question.from_ms, end_ms) for p in question.points
        ),
        next_ms,
    )


def _raw_series(point: PointId, samples: raw.Samples, from_ms: int, to_ms: int) -> Series:
    grade = samples.quality & 0b11
    shown = np.where(grade == int(Grade.BAD), np.nan, samples.values)
    n = len(shown)
    return Series(
        point,
        from_ms,
        to_ms,
        None,
        samples.times_ms,
        mean=shown,
        minimum=shown,
        maximum=shown,
        count=np.ones(n, dtype=np.int64),
        good=(grade == int(Grade.GOOD)).astype(np.int64),
        suspect=(grade == int(Grade.SUSPECT)).astype(np.int64),
        quality=samples.quality,
        total=shown,
        first=shown,
        last=shown,
        delta=np.full(n, np.nan),
    )


def _series(
    point: PointId,
    pieces: Pieces,
    resolution: Resolution,
    step_s: float | None,
    from_ms: int,
    to_ms: int,
) -> Series:
    return Series(
        point,
        from_ms,
        to_ms,
        step_s,
        pieces.starts_ms,
        mean=quarters.mean_of(pieces),
        minimum=pieces.minimum,
        maximum=pieces.maximum,
        count=pieces.count,
        good=pieces.good,
        suspect=pieces.suspect,
        resolution=resolution,
        total=pieces.total,
        first=pieces.first,
        last=pieces.last,
        delta=pieces.delta,
    )
