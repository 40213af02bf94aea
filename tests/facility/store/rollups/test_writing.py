"""Rows of quarters and days, however the samples arrive."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from facility.points import BAD_TIMEOUT, Flaw, Grade, PointId, quality
from facility.store.rollups import QUARTER_MS, CounterRule, PointRules, SiteDays, difference, rise
from facility.store.rows import rollups as rows
from facility.store.rows.tables import point, rollup_1d, rollup_15m, site_meta

HOUR_MS = 3_600_000
#: 2026-10-24T22:00Z: a day of 25 hours begins in Berlin.
LONG_DAY_MS = 1_792_879_200_000
NAN = float("nan")
SUSPECT = quality(Grade.SUSPECT, Flaw.IMPLAUSIBLE)
POINTS = [
    PointId("pdu", "total", "active_power"),
    PointId("pdu", "total", "energy"),
    PointId("pdu", "phase.1", "energy"),
]
RULES = PointRules(
    site=SiteDays("Europe/Berlin"),
    counter=lambda p: CounterRule(0.5, wraps_at=1000.0 if p.part == "total" else None),
)
Sample = tuple[tuple[float, ...], tuple[int, ...]]
Samples = dict[int, Sample]


@pytest.fixture
def ids(engine: sa.Engine) -> np.ndarray[Any, Any]:
    with engine.begin() as connection:
        connection.execute(sa.insert(point), [{"ref": str(p)} for p in POINTS])
        found = connection.execute(sa.select(point.c.id).order_by(point.c.id)).scalars()
        return np.array(list(found))


def write(engine: sa.Engine, ids: Any, samples: Samples, hours: Iterable[int]) -> None:
    """Sum up hours from all the samples that there are of them."""
    for hour_ms in hours:
        held = sorted(at for at in samples if hour_ms <= at < hour_ms + HOUR_MS)
        values = np.array([samples[at][0] for at in held], dtype=np.float64).reshape(-1, 3)
        grades = np.array([samples[at][1] for at in held], dtype=np.uint8).reshape(-1, 3)
        with engine.begin() as connection:
            summed = rows.sum_up(ids, POINTS, np.array(held), values, grades, RULES)
            rows.write(connection, summed, RULES.site)


def read(engine: sa.Engine, table: sa.Table) -> dict[tuple[int, int], Any]:
    with engine.begin() as connection:
        found = connection.execute(sa.select(table)).all()
    return {(row.point_id, row.start_ms): row for row in found}


def hour_of(at_ms: int) -> int:
    return at_ms - at_ms % HOUR_MS


def check(engine: sa.Engine, ids: Any, samples: Samples, edges: list[int], table: sa.Table) -> None:
    """Every row is what the plainest reckoning over all samples says, and none is missing."""
    found = read(engine, table)
    for column, (number, name) in enumerate(zip(ids.tolist(), POINTS, strict=True)):
        rule = RULES.counter(name)
        good_before: list[tuple[int, float]] = []
        for begin, end in pairwise(edges):
            inside = {at: s for at, s in samples.items() if begin <= at < end}
            row = found.pop((number, begin), None)
            if not inside:
                assert row is None
                continue
            assert row is not None, (name, begin)
            good = sorted(
                (at, v[column])
                for at, (v, g) in inside.items()
                if g[column] == 0 and not np.isnan(v[column])
            )
            assert row.count == len(inside)
            assert row.good == len(good)
            assert row.suspect == sum(g[column] == SUSPECT for _, g in inside.values())
            if not good:
                assert (row.total, row.minimum, row.first, row.delta) == (None,) * 4
                continue
            values = [v for _, v in good]
            assert row.total == pytest.approx(sum(values), abs=1e-6)
            assert (row.minimum, row.maximum) == (min(values), max(values))
            assert (row.first, row.last) == (values[0], values[-1])
            if column == 0:
                assert row.delta is None
                continue
            due = 0.0
            for quarter in range(begin, end, QUARTER_MS):
                some = [(at, v) for at, v in good if quarter <= at < quarter + QUARTER_MS]
                if not some:
                    continue
                if good_before:
                    (at, v), (next_at, next_v) = good_before[-1], some[0]
                    due += difference(rule, v, next_v, (next_at - at) / 1000)
                times, read_values = zip(*some, strict=True)
                due += rise(rule, np.array(times), np.array(read_values))
                good_before = some
            assert row.delta == pytest.approx(due, abs=1e-6)
    assert not found


def quarters(first_ms: int, hours: int) -> list[int]:
    return [first_ms + i * QUARTER_MS for i in range(4 * hours + 1)]


GRADES = st.sampled_from([0, 0, 0, SUSPECT, BAD_TIMEOUT])
VALUES = st.one_of(st.floats(0, 1000), st.floats(0, 1000), st.just(NAN))
SCANS = st.tuples(st.tuples(VALUES, VALUES, VALUES), st.tuples(GRADES, GRADES, GRADES))
TIMES = st.integers(0, 4 * 3600 - 1).map(lambda s: LONG_DAY_MS + 1000 * s)


@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    batches=st.lists(st.dictionaries(TIMES, SCANS, max_size=12), min_size=1, max_size=4),
    data=st.data(),
)
def test_quarters_equal_brute_force_in_whatever_order_late_data_reopens_their_hours(
    engine: sa.Engine, ids: Any, batches: list[Samples], data: st.DataObject
) -> None:
    with engine.begin() as connection:
        connection.execute(sa.delete(rollup_15m))
    samples: Samples = {}
    for batch in batches:
        samples |= batch
        touched = data.draw(st.permutations(sorted({hour_of(at) for at in batch})))
        write(engine, ids, samples, touched)
    check(engine, ids, samples, quarters(LONG_DAY_MS, 4), rollup_15m)


def test_a_quarter_whose_samples_all_turned_bad_counts_nothing_that_is_known(
    engine: sa.Engine, ids: Any
) -> None:
    samples: Samples = {
        LONG_DAY_MS: ((1.0, 10.0, 10.0), (0, 0, 0)),
        LONG_DAY_MS + QUARTER_MS: ((1.0, 12.0, 12.0), (0, 0, 0)),
        LONG_DAY_MS + 2 * QUARTER_MS: ((1.0, 15.0, 15.0), (0, 0, 0)),
    }
    write(engine, ids, samples, [LONG_DAY_MS])
    bad = ((NAN, NAN, NAN), (BAD_TIMEOUT, BAD_TIMEOUT, BAD_TIMEOUT))
    samples[LONG_DAY_MS + QUARTER_MS] = bad
    write(engine, ids, samples, [LONG_DAY_MS])
    check(engine, ids, samples, quarters(LONG_DAY_MS, 1), rollup_15m)
    samples[LONG_DAY_MS] = bad
    write(engine, ids, samples, [LONG_DAY_MS])
    check(engine, ids, samples, quarters(LONG_DAY_MS, 1), rollup_15m)


def a_day(first_ms: int, hours: int, every_s: int = 300) -> Samples:
    """A feed of 120 W, its two counters of Wh, one of which wraps at 1,000."""
    made: Samples = {}
    for i in range(hours * 3600 // every_s):
        wh = i * every_s * 120.0 / 3600.0
        made[first_ms + i * every_s * 1000] = ((120.0, wh % 1000.0, wh), (0, 0, 0))
    return made


def settle(engine: sa.Engine, over_ms: int) -> int:
    """Write the days that are over, as the store's upkeep does; how many."""
    for done in range(100):
        with engine.begin() as connection:
            day = rows.next_day(connection, RULES.site, over_ms)
            if day is None:
                return done
            rows.begin_day(connection, day[1])
            rows.write_day(connection, rows.point_numbers(connection, 0), *day)
            rows.end_day(connection, day[1])
    raise AssertionError("days without end")


def test_a_day_of_25_hours_is_the_sum_of_its_100_quarters(engine: sa.Engine, ids: Any) -> None:
    samples = a_day(LONG_DAY_MS - HOUR_MS, 28)
    write(engine, ids, samples, sorted({hour_of(at) for at in samples}))
    edges = RULES.site.edges(LONG_DAY_MS - HOUR_MS, LONG_DAY_MS + 27 * HOUR_MS)
    assert [b - a for a, b in pairwise(edges)] == [24 * HOUR_MS, 25 * HOUR_MS, 24 * HOUR_MS]
    assert settle(engine, edges[-2]) == 2
    day = read(engine, rollup_1d)[int(ids[2]), LONG_DAY_MS]
    assert day.count == 300
    assert day.delta == pytest.approx(25 * 120.0)
    assert read(engine, rollup_1d)[int(ids[1]), LONG_DAY_MS].delta == pytest.approx(25 * 120.0)
    past = {at: s for at, s in samples.items() if at < edges[-2]}
    check(engine, ids, past, edges[:-1], rollup_1d)


def test_late_data_of_a_day_that_was_summed_up_changes_it_and_the_next(
    engine: sa.Engine, ids: Any
) -> None:
    samples = a_day(LONG_DAY_MS, 50)
    late = {at for at in samples if LONG_DAY_MS + 24 * HOUR_MS <= at < LONG_DAY_MS + 25 * HOUR_MS}
    early = {at: s for at, s in samples.items() if at not in late}
    write(engine, ids, early, sorted({hour_of(at) for at in early}))
    edges = RULES.site.edges(LONG_DAY_MS, LONG_DAY_MS + 49 * HOUR_MS)
    assert settle(engine, edges[-1]) == 2
    check(engine, ids, early, edges, rollup_1d)
    write(engine, ids, samples, {hour_of(at) for at in late})
    in_days = {at: s for at, s in samples.items() if at < edges[-1]}
    check(engine, ids, in_days, edges, rollup_1d)


def test_an_hour_whose_samples_are_gone_is_not_summed_up_again_from_the_few_that_came_late(
    engine: sa.Engine, ids: Any
) -> None:
    samples = a_day(LONG_DAY_MS, 25)
    write(engine, ids, samples, sorted({hour_of(at) for at in samples}))
    settle(engine, LONG_DAY_MS + 25 * HOUR_MS)
    before = read(engine, rollup_15m), read(engine, rollup_1d)
    late: Samples = {LONG_DAY_MS + 5000: ((7.0, 7.0, 7.0), (0, 0, 0))}
    write(engine, ids, late, [LONG_DAY_MS])
    assert (read(engine, rollup_15m), read(engine, rollup_1d)) == before


def test_summing_up_twice_changes_nothing(engine: sa.Engine, ids: Any) -> None:
    samples = a_day(LONG_DAY_MS, 3)
    hours = sorted({hour_of(at) for at in samples})
    write(engine, ids, samples, hours)
    once = read(engine, rollup_15m)
    write(engine, ids, samples, hours)
    assert read(engine, rollup_15m) == once


def test_a_gap_of_hours_counts_what_the_counter_ran_on(engine: sa.Engine, ids: Any) -> None:
    samples = {
        LONG_DAY_MS: ((120.0, 0.0, 5000.0), (0, 0, 0)),
        LONG_DAY_MS + 3 * HOUR_MS: ((120.0, 360.0, 5360.0), (0, 0, 0)),
    }
    write(engine, ids, samples, sorted(samples))
    found = read(engine, rollup_15m)
    assert found[int(ids[2]), LONG_DAY_MS + 3 * HOUR_MS].delta == 360.0
    assert len(found) == 6


def test_days_wait_until_they_are_over(engine: sa.Engine, ids: Any) -> None:
    assert settle(engine, LONG_DAY_MS) == 0
    write(engine, ids, a_day(LONG_DAY_MS, 2), [LONG_DAY_MS, LONG_DAY_MS + HOUR_MS])
    assert settle(engine, LONG_DAY_MS + 24 * HOUR_MS) == 0
    with engine.begin() as connection:
        assert rows.days_done(connection) == 0
        assert not connection.execute(sa.select(site_meta)).all()
    assert settle(engine, LONG_DAY_MS + 25 * HOUR_MS) == 1
    with engine.begin() as connection:
        assert rows.days_done(connection) == LONG_DAY_MS + 25 * HOUR_MS
