"""The same past, whether it lies in raw scans, in chunks, in roll-ups, or only there."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import sqlalchemy as sa

from facility.points import BAD_TIMEOUT, Layout, PointId, PointSpec
from facility.store import HistoryLimit, Store
from facility.store.chunks import Head
from facility.store.past import Question
from facility.store.past import question as asking
from facility.store.rollups import CounterRule, PointRules, SiteDays
from facility.store.rows.tables import chunk, rollup_15m
from tests.facility.store.plant import SteppedClock, scan

HOUR_MS = 3_600_000
QUARTER_MS = 900_000
#: 2026-10-24T22:00Z: a day of 25 hours begins in Berlin.
DAY_MS = 1_792_879_200_000
POWER = PointId("pdu", "total", "active_power")
ENERGY = PointId("pdu", "total", "energy")
NAN = float("nan")


def layout_of(*points: PointId) -> Layout:
    return Layout("pdu", "fast", tuple(PointSpec(p, 0.0, 1e12) for p in points))


PDU = layout_of(POWER, ENERGY)


@pytest.fixture
def store(store: Store, clock: SteppedClock) -> Store:
    clock.ms = DAY_MS
    store.rules = PointRules(
        site=SiteDays("Europe/Berlin"), counter=lambda _: CounterRule(1.0, resolution=1.0)
    )
    return store


def feed(
    store: Store, clock: SteppedClock, hours: float, every_s: int = 60, first_ms: int = DAY_MS
) -> None:
    """A feed whose power is the minute of the hour times 10 W; each fifth reading is lost."""
    for i in range(round(hours * 3600 / every_s)):
        at_ms = first_ms + i * every_s * 1000
        power = 10.0 * (at_ms // 60_000 % 60)
        wh = (at_ms - DAY_MS) / 60_000 * 5.0
        lost = [BAD_TIMEOUT, 0] if i % 5 == 4 else None
        store.put(scan(PDU, [NAN if lost else power, wh], lost, at_ms=at_ms))
    clock.ms = max(clock.ms, first_ms + round(hours * HOUR_MS))
    store.flush().result()


def quarters(store: Store, hours: int) -> dict[str, np.ndarray]:
    q = Question((POWER, ENERGY), DAY_MS, DAY_MS + hours * HOUR_MS, 900.0)
    answer = store.past(q).result()
    assert answer.next_ms is None
    assert [s.resolution for s in answer.series] == ["15m", "15m"]
    power, energy = answer.series
    return {
        "times": power.times_ms,
        "mean": power.mean,
        "low": power.minimum,
        "high": power.maximum,
        "good": power.good,
        "count": power.count,
        "delta": energy.delta,
        "last": energy.last,
    }


def compact(store: Store) -> int:
    return store.compact(settle_ms=0).result().hours


def same(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> None:
    for name in one:
        np.testing.assert_allclose(one[name], other[name], rtol=1e-12, err_msg=name)


def test_quarters_are_the_same_before_and_after_compaction(
    store: Store, clock: SteppedClock
) -> None:
    feed(store, clock, 3.5)
    before = quarters(store, 4)
    assert before["count"].tolist() == [15] * 14 + [0] * 2
    assert before["mean"][0] == pytest.approx(np.mean([10 * m for m in range(15) if m % 5 != 4]))
    assert np.isnan(before["mean"][14:]).all()
    assert before["delta"][:14].sum() == pytest.approx(209 * 5.0)
    assert compact(store) == 3
    same(quarters(store, 4), before)


def test_late_data_counts_at_once_and_reopens_its_hour(store: Store, clock: SteppedClock) -> None:
    feed(store, clock, 1)
    feed(store, clock, 1, first_ms=DAY_MS + 2 * HOUR_MS)
    assert compact(store) == 2
    assert quarters(store, 3)["count"].tolist() == [15] * 4 + [0] * 4 + [15] * 4
    feed(store, clock, 1, first_ms=DAY_MS + HOUR_MS)
    late = quarters(store, 3)
    assert late["count"].tolist() == [15] * 12
    assert compact(store) == 1
    after = quarters(store, 3)
    assert after["delta"].sum() == pytest.approx(179 * 5.0)
    # What the counter ran on in the gap belongs to the late hour now, no longer to the next one.
    assert after["delta"][1:].tolist() == pytest.approx([75.0] * 11)
    same(
        {k: v for k, v in late.items() if k != "delta"}, {k: after[k] for k in late if k != "delta"}
    )


def test_days_of_the_site_are_those_of_its_clocks(store: Store, clock: SteppedClock) -> None:
    feed(store, clock, 50, every_s=300)
    compact(store)
    asked = Question((POWER, ENERGY), DAY_MS, clock.ms, days=True)
    answer = store.past(asked).result()
    edges = store.rules.site.edges(DAY_MS, clock.ms)
    power, energy = answer.series
    assert power.resolution == "1d"
    assert power.times_ms.tolist() == edges[:-1]
    assert [b - a for a, b in pairwise(edges)] == [25 * HOUR_MS, 24 * HOUR_MS, 24 * HOUR_MS]
    assert power.count.tolist() == [300, 288, 12]
    assert energy.delta.tolist() == pytest.approx([299 * 25.0, 288 * 25.0, 12 * 25.0])
    assert store.settle_days().result() == 1
    clock.step(2 * 3600)
    assert store.settle_days().result() == 1
    again = store.past(asked).result()
    for one, other in zip(answer.series, again.series, strict=True):
        for name in ("mean", "minimum", "maximum", "delta", "first", "last", "count", "good"):
            np.testing.assert_allclose(getattr(one, name), getattr(other, name), err_msg=name)


def drop_raw(store: Store) -> None:
    with store._engine.begin() as connection:
        connection.execute(sa.delete(chunk))


def test_where_raw_samples_are_gone_quarters_answer_and_the_answer_says_so(
    store: Store, clock: SteppedClock
) -> None:
    feed(store, clock, 4)
    raw = store.history(POWER, DAY_MS, DAY_MS + HOUR_MS).result()
    assert (raw.resolution, raw.step_s, len(raw)) == ("raw", None, 60)
    compact(store)
    still = store.history(POWER, DAY_MS, DAY_MS + HOUR_MS).result()
    assert np.array_equal(still.mean, raw.mean, equal_nan=True)
    drop_raw(store)
    for step_s in (None, 60.0, 300.0, 900.0):
        got = store.history(POWER, DAY_MS, DAY_MS + HOUR_MS, step_s).result()
        assert (got.resolution, got.step_s, len(got)) == ("15m", 900.0, 4)
        assert got.maximum.tolist() == [130.0, 280.0, 430.0, 580.0]
    wide = store.history(POWER, DAY_MS, DAY_MS + 4 * HOUR_MS, 1000.0).result()
    assert (wide.step_s, wide.resolution) == (1800.0, "15m")


def test_who_insists_on_raw_gets_what_is_left_of_it(store: Store, clock: SteppedClock) -> None:
    feed(store, clock, 2)
    compact(store)
    drop_raw(store)
    q = Question((POWER,), DAY_MS, clock.ms, 600.0, resolution="raw")
    got = store.past(q).result().series[0]
    assert (got.resolution, got.step_s) == ("raw", 600.0)
    assert got.count.sum() == 0


def test_where_the_samples_of_one_point_are_gone_all_answer_in_quarters(
    store: Store, clock: SteppedClock
) -> None:
    other = PointId("ups", "total", "load")
    ups = Layout("ups", "fast", (PointSpec(other, 0.0, 10.0),))
    feed(store, clock, 2)
    store.put(scan(ups, [0.5], at_ms=DAY_MS + 1000))
    compact(store)
    with store._engine.begin() as connection:
        connection.execute(sa.delete(chunk).where(chunk.c.scans > 1))
    got = store.past(Question((POWER, other), DAY_MS, DAY_MS + HOUR_MS)).result().series
    assert got[1].count.tolist() == [1, 0, 0, 0]
    assert [(s.point, s.resolution, len(s)) for s in got] == [(POWER, "15m", 4), (other, "15m", 4)]


def test_a_point_whose_layout_changed_within_a_quarter_keeps_all_its_samples(
    store: Store, clock: SteppedClock
) -> None:
    feed(store, clock, 0.25)
    wider = layout_of(POWER, PointId("pdu", "total", "current"), ENERGY)
    for minute in range(8, 60):
        at_ms = DAY_MS + minute * 60_000
        store.put(scan(wider, [10.0 * minute, 1.0, minute * 5.0], at_ms=at_ms))
    clock.ms = DAY_MS + HOUR_MS
    before = quarters(store, 1)
    assert before["count"].tolist() == [15] * 4
    assert before["good"].tolist() == [14, 15, 15, 15]
    assert compact(store) == 2
    same(quarters(store, 1), before)
    with store._engine.begin() as connection:
        held = connection.execute(sa.select(rollup_15m.c.point_id)).scalars().all()
    assert len(held) == 12


def test_an_answer_in_parts_is_the_answer(store: Store, clock: SteppedClock) -> None:
    feed(store, clock, 3)
    compact(store)
    for step_s in (None, 300.0, 900.0):
        whole = store.past(Question((POWER, ENERGY), DAY_MS, clock.ms, step_s)).result()
        times: list[int] = []
        means: list[float] = []
        deltas: list[float] = []
        from_ms: int | None = DAY_MS
        parts = 0
        while from_ms is not None:
            q = Question((POWER, ENERGY), from_ms, clock.ms, step_s, most=7)
            part = store.past(q).result()
            times += part.series[0].times_ms.tolist()
            means += part.series[0].mean.tolist()
            deltas += part.series[1].delta.tolist()
            from_ms = part.next_ms
            parts += 1
        assert parts > 1
        assert times == whole.series[0].times_ms.tolist()
        assert np.array_equal(means, whole.series[0].mean, equal_nan=True)
        assert np.array_equal(deltas, whole.series[1].delta, equal_nan=True)


def test_more_than_is_given_is_refused_with_what_to_do(
    store: Store, clock: SteppedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = tuple(PointId("pdu", f"outlet.{i}", "current") for i in range(501))
    with pytest.raises(HistoryLimit, match="at most 500"):
        store.past(Question(many, 0, 1)).result()
    with pytest.raises(HistoryLimit, match="of each of 500 points asked for, at most 2000"):
        store.past(Question(many[:500], 0, 2001 * HOUR_MS, 3600.0)).result()
    with pytest.raises(HistoryLimit, match="multiple of 900 s"):
        store.past(Question(many[:1], 0, HOUR_MS, 60.0, resolution="15m")).result()
    with pytest.raises(HistoryLimit, match="ask for step 1d"):
        store.past(Question(many[:1], 0, HOUR_MS, 60.0, resolution="1d")).result()
    monkeypatch.setattr(asking, "MAX_SAMPLES_READ", 3)
    feed(store, clock, 1)
    with pytest.raises(HistoryLimit, match="more than 3 samples"):
        store.past(Question((POWER,), DAY_MS, clock.ms, 60.0)).result()


def test_the_newest_value_is_found_in_a_chunk_when_nothing_is_raw(
    store: Store, clock: SteppedClock
) -> None:
    feed(store, clock, 1)
    compact(store)
    newest = store.latest([ENERGY]).result()[0]
    assert (newest.value, newest.received_ms) == (59 * 5.0, DAY_MS + 59 * 60_000)


def test_hours_of_raw_samples_are_told_by_what_chunks_say_without_decoding_one(
    store: Store, clock: SteppedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed(store, clock, 6)
    ranges = [(DAY_MS, DAY_MS + 6 * HOUR_MS), (DAY_MS + 600_000, DAY_MS + 5 * HOUR_MS + 900_000)]
    wanted = frozenset({"total", "minimum", "maximum", "first", "last"})
    asked = [
        Question((POWER, ENERGY), a, b, 7200.0, resolution="raw", wanted=wanted) for a, b in ranges
    ]
    before = [store.past(q).result() for q in asked]
    compact(store)
    late = scan(PDU, [5000.0, 0.0], at_ms=DAY_MS + 2 * HOUR_MS + 30_000)
    after = [store.past(q).result() for q in asked]
    for one, other in zip(before, after, strict=True):
        for a, b in zip(one.series, other.series, strict=True):
            assert b.resolution == "raw"
            for name in ("times_ms", "count", "good", "mean", "minimum", "maximum", "last"):
                np.testing.assert_allclose(getattr(a, name), getattr(b, name), err_msg=name)
    store.put(late)
    assert store.past(asked[0]).result().series[0].maximum.tolist() == [580.0, 5000.0, 580.0]
    compact(store)

    def never(*_: object) -> None:
        raise AssertionError("a column was decoded")

    monkeypatch.setattr(Head, "columns", never)
    assert store.past(asked[0]).result().series[0].maximum.tolist() == [580.0, 5000.0, 580.0]
