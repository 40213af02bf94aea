"""The past as people ask for it."""

from __future__ import annotations

import numpy as np
import pytest
import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st

from facility.points import BAD_TIMEOUT, Flaw, Grade, PointId, quality
from facility.store import HistoryLimit, Store, open_store
from facility.store.past import question, raw
from facility.store.threads.writer import FLUSH_AFTER_S
from tests.facility.store.plant import START_MS, SteppedClock, layout, scan

SUSPECT = quality(Grade.SUSPECT, Flaw.IMPLAUSIBLE)
NAN = float("nan")
HOUR_MS = 3_600_000
PDU = layout()
POINT = PDU.points[1].id


def put(store: Store, second: float, value: float, grade: int = 0) -> None:
    at_ms = START_MS + round(second * 1000)
    store.put(scan(PDU, [0.0, value, 0.0, 0.0], [0, grade, 0, 0], at_ms=at_ms))


def test_buckets_keep_gaps_leave_out_bad_and_count_suspect_apart(store: Store) -> None:
    put(store, 0, 10.0)
    put(store, 1, 20.0)
    put(store, 2, 999.0, SUSPECT)
    put(store, 3, NAN, BAD_TIMEOUT)
    put(store, 24, NAN, BAD_TIMEOUT)
    got = store.history(POINT, START_MS, START_MS + 30_000, 10).result()
    assert got.step_s == 10.0
    assert got.times_ms.tolist() == [START_MS, START_MS + 10_000, START_MS + 20_000]
    assert got.mean[0] == 15.0
    assert got.minimum[0] == 10.0
    assert got.maximum[0] == 20.0
    assert np.isnan(got.mean[1:]).all()
    assert np.isnan(got.minimum[1:]).all()
    assert got.count.tolist() == [4, 0, 1]
    assert got.good.tolist() == [2, 0, 0]
    assert got.suspect.tolist() == [1, 0, 0]
    assert got.good_fraction[0] == 0.5
    assert np.isnan(got.good_fraction[1])
    assert got.good_fraction[2] == 0.0


def test_raw_has_every_sample_in_order_of_time_with_its_quality(store: Store) -> None:
    put(store, 2, 30.0)
    put(store, 0, 10.0)
    put(store, 1, NAN, BAD_TIMEOUT)
    put(store, 3, 40.0, SUSPECT)
    put(store, 9, 90.0)
    got = store.history(POINT, START_MS, START_MS + 9_000).result()
    assert ((got.times_ms - START_MS) // 1000).tolist() == [0, 1, 2, 3]
    assert np.array_equal(got.mean, [10.0, NAN, 30.0, 40.0], equal_nan=True)
    assert got.quality is not None
    assert got.quality.tolist() == [0, BAD_TIMEOUT, 0, SUSPECT]
    assert got.step_s is None


def test_of_two_samples_at_one_time_the_later_written_replaces(store: Store) -> None:
    put(store, 1, 10.0)
    store.flush().result()
    put(store, 1, 11.0)
    got = store.history(POINT, START_MS, START_MS + 5_000).result()
    assert got.mean.tolist() == [11.0]


def test_a_point_keeps_its_past_when_its_layout_changes(store: Store) -> None:
    put(store, 0, 10.0)
    wider = layout(points=6)
    store.put(scan(wider, [0, 20.0, 0, 0, 0, 0], at_ms=START_MS + 1000))
    got = store.history(POINT, START_MS, START_MS + 5_000).result()
    assert got.mean.tolist() == [10.0, 20.0]
    assert store.latest([POINT]).result()[0].value == 20.0


def test_a_long_stretch_is_read_in_pages_without_loss(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(raw, "STRETCH_MS", HOUR_MS)
    for i in range(50):
        put(store, 1800 * (i // 2), float(i))
    got = store.history(POINT, START_MS, START_MS + 25 * 1_800_000).result()
    assert got.mean.tolist() == [float(i) for i in range(1, 50, 2)]


def test_limits_are_refused_with_what_to_do(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    for i in range(12):
        put(store, i, 1.0)
    with pytest.raises(HistoryLimit, match="empty"):
        store.history(POINT, START_MS, START_MS).result()
    for step in (0.5, 0.0, -1.0, NAN, 1.5):
        with pytest.raises(HistoryLimit, match="whole number"):
            store.history(POINT, START_MS, START_MS + 1000, step).result()
    with pytest.raises(HistoryLimit, match="widen the step"):
        store.history(POINT, 0, START_MS, 1).result()
    monkeypatch.setattr(question, "MAX_RAW_SAMPLES", 10)
    with pytest.raises(HistoryLimit, match="wider step"):
        store.history(POINT, START_MS, START_MS + 60_000).result()
    assert store.history(POINT, START_MS, START_MS + 60_000, 60).result().good.sum() == 12


def test_an_unknown_point_has_no_past_and_no_value(store: Store) -> None:
    nobody = PointId("ghost", "total", "active_power")
    assert len(store.history(nobody, START_MS, START_MS + 1000).result()) == 0
    sample = store.latest([nobody]).result()[0]
    assert sample.received_ms is None
    assert sample.value is None
    assert sample.quality & 0b11 == Grade.BAD


def test_latest_is_the_newest_by_time_and_missing_is_none(store: Store) -> None:
    put(store, 5, 50.0)
    put(store, 4, 40.0)
    first, second = store.latest([POINT, PDU.points[0].id]).result()
    assert (first.value, first.received_ms) == (50.0, START_MS + 5000)
    assert second.value == 0.0
    put(store, 6, NAN, BAD_TIMEOUT)
    assert store.latest([POINT]).result()[0].value is None


def test_a_device_whose_clock_is_out_of_the_world_is_filed_under_our_time(store: Store) -> None:
    store.put(scan(PDU, [1.0] * 4, at_ms=0, received_ms=START_MS))
    store.put(scan(PDU, [2.0] * 4, at_ms=START_MS * 2, received_ms=START_MS + 1000))
    store.put(scan(PDU, [3.0] * 4, at_ms=START_MS - 3_600_000, received_ms=START_MS + 2000))
    got = store.history(POINT, START_MS, START_MS + 5_000).result()
    assert got.mean.tolist() == [1.0, 2.0]
    assert len(store.history(POINT, START_MS - 4_000_000, START_MS).result()) == 1


def test_scans_wait_for_company_but_not_long(store: Store, clock: SteppedClock) -> None:
    put(store, 0, 1.0)
    assert store.stats().queued_scans == 1
    clock.step(FLUSH_AFTER_S - 0.1)
    put(store, 1, 1.0)
    assert store.stats().queued_scans == 2
    clock.step(0.1)
    put(store, 2, 1.0)
    assert store.stats().queued_scans == 0
    assert store.stats().samples == 12


SECONDS = st.integers(0, 59)
GRADES = st.sampled_from([0, SUSPECT, BAD_TIMEOUT])


@settings(max_examples=25)
@given(
    written=st.lists(st.tuples(SECONDS, st.floats(-1e6, 1e6), GRADES), max_size=25),
    step=st.sampled_from([1, 7, 10, 60]),
    start=SECONDS,
)
def test_buckets_are_those_of_the_plainest_reckoning(
    written: list[tuple[int, float, int]], step: int, start: int
) -> None:
    store = open_store("sqlite://", SteppedClock(), inline=True)
    for second, value, grade in written:
        put(store, second, NAN if grade == BAD_TIMEOUT else value, grade)
    from_ms, to_ms = START_MS + start * 1000, START_MS + 60_000
    got = store.history(POINT, from_ms, to_ms, step).result()
    store.close()
    last = {START_MS + 1000 * s: (v, g) for s, v, g in written if s >= start}
    for i, bucket_ms in enumerate(got.times_ms.tolist()):
        inside = [x for at, x in last.items() if bucket_ms <= at < bucket_ms + 1000 * step]
        good = [v for v, g in inside if g == 0]
        assert got.count[i] == len(inside)
        assert got.good[i] == len(good)
        assert got.suspect[i] == sum(g == SUSPECT for _, g in inside)
        if good:
            assert got.mean[i] == pytest.approx(sum(good) / len(good), rel=1e-9, abs=1e-6)
            assert (got.minimum[i], got.maximum[i]) == (min(good), max(good))
        else:
            assert np.isnan([got.mean[i], got.minimum[i], got.maximum[i]]).all()
    assert got.count.sum() == len(last)


def test_an_error_while_rows_are_read_left_its_connection_at_that_moment(
    store: Store, clock: SteppedClock
) -> None:
    """What a question raises on the way through its rows, whatever question it is."""
    put(store, 0, 1.0)
    put(store, 1, 2.0)
    store.flush().result()

    def stumbles(connection: sa.Connection) -> None:
        rows = connection.execute(sa.text("SELECT source_ms FROM scan"))
        assert rows.fetchone() is not None
        raise ValueError("a row that cannot be read")

    told = store._readers.ask(stumbles).exception()
    put(store, 2, 3.0)
    store.flush().result()
    assert store.history(POINT, START_MS, START_MS + 9000).result().mean.tolist() == [1.0, 2.0, 3.0]
    assert str(told) == "a row that cannot be read"
