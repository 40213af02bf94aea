"""Hours become chunks: once, whole, and without anybody noticing who asks for the past."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st

from facility.points import BAD_TIMEOUT
from facility.store import Store, StoreUnavailable, compaction, open_store
from facility.store.engine import reading_engine
from facility.store.rows import chunks
from facility.store.rows.chunks import HOUR_MS, Hour, hour_of
from tests.facility.store.plant import START_MS, SteppedClock, layout, scan

NAN = float("nan")
PDU = layout()
POINT = PDU.points[1].id
HOUR = hour_of(START_MS) + HOUR_MS


def put(store: Store, at_ms: int, value: float, grade: int = 0) -> None:
    store.put(scan(PDU, [1.0, value, 2.5, 0.0], [0, grade, 0, 0], at_ms=at_ms))


def fill(store: Store, hour_ms: int, every_s: int = 60, offset: float = 0.0) -> None:
    for at_ms in range(hour_ms, hour_ms + HOUR_MS, every_s * 1000):
        put(store, at_ms, offset + (at_ms - HOUR) / 1000)


def all_of(store: Store) -> list[tuple[int, float, int]]:
    got = store.history(POINT, HOUR - 10 * HOUR_MS, HOUR + 30 * HOUR_MS).result()
    assert got.quality is not None
    return list(zip(got.times_ms.tolist(), got.mean.tolist(), got.quality.tolist(), strict=True))


def rows_in(url: str, table: str) -> int:
    engine = reading_engine(url)
    with engine.begin() as connection:
        found = connection.exec_driver_sql(f"SELECT count(*) FROM {table}").scalar_one()
    engine.dispose()
    return int(found)


def test_hours_that_are_over_become_chunks_and_the_past_stays_the_same(
    store: Store, url: str, clock: SteppedClock
) -> None:
    fill(store, HOUR)
    fill(store, HOUR + HOUR_MS, offset=0.1)
    put(store, HOUR + 2 * HOUR_MS, NAN, BAD_TIMEOUT)
    clock.ms = HOUR + 2 * HOUR_MS + 1
    before, newest = all_of(store), store.latest([POINT]).result()
    done = store.compact(settle_ms=0).result()
    assert (done.hours, done.scans, done.samples) == (2, 120, 480)
    assert (rows_in(url, "chunk"), rows_in(url, "scan")) == (2, 1)
    assert all_of(store)[:-1] == before[:-1]
    assert np.isnan(all_of(store)[-1][1])
    assert store.latest([POINT]).result() == newest
    assert store.counts().result().scans == 121
    again = store.compact(settle_ms=0).result()
    assert again == compaction.Compacted()


def test_an_hour_is_left_alone_while_something_comes_to_it(
    store: Store, clock: SteppedClock
) -> None:
    fill(store, HOUR)
    clock.ms = HOUR + HOUR_MS - 1
    assert store.compact().result().waiting == 0
    clock.ms = HOUR + HOUR_MS + 60_000
    assert store.compact().result() == compaction.Compacted(waiting=1)
    clock.ms = HOUR + HOUR_MS + compaction.SETTLE_MS
    assert store.compact().result().hours == 1


def test_late_data_reopens_its_chunk_and_replaces_what_stands_at_its_time(
    store: Store, url: str, clock: SteppedClock
) -> None:
    fill(store, HOUR)
    clock.ms = HOUR + 2 * HOUR_MS
    store.compact().result()
    expected = {at: (value, grade) for at, value, grade in all_of(store)}
    for at_ms, value in ((HOUR + 120_000, -1.0), (HOUR + 130_500, -2.0), (HOUR + 120_000, -3.0)):
        store.put(scan(PDU, [1.0, value, 2.5, 0.0], at_ms=at_ms, received_ms=clock.ms))
        expected[at_ms] = (value, 0)
    assert {at: (v, g) for at, v, g in all_of(store)} == expected
    clock.step(600)
    done = store.compact().result()
    assert (done.hours, done.scans) == (1, 2)
    assert (rows_in(url, "chunk"), rows_in(url, "scan")) == (1, 0)
    assert {at: (v, g) for at, v, g in all_of(store)} == expected


def test_a_clock_that_steps_back_stops_neither_writing_nor_compacting(
    store: Store, clock: SteppedClock
) -> None:
    fill(store, HOUR)
    fill(store, HOUR + 24 * HOUR_MS)
    clock.ms = HOUR + 24 * HOUR_MS + 1000
    assert store.compact(settle_ms=0).result().hours == 1
    clock.ms = HOUR + HOUR_MS  # a day back: what was written "tomorrow" waits for its hour
    fill(store, HOUR + HOUR_MS)
    clock.ms = HOUR + 3 * HOUR_MS
    assert store.compact().result().hours == 1
    assert len(all_of(store)) == 180
    clock.ms = HOUR + 26 * HOUR_MS
    assert store.compact().result().hours == 1
    assert len(all_of(store)) == 180


def test_what_comes_between_reading_and_writing_is_not_lost_but_waits_for_the_next_round(
    store: Store, url: str, clock: SteppedClock
) -> None:
    fill(store, HOUR)
    clock.ms = HOUR + 2 * HOUR_MS
    late: list[Callable[[], None]] = [
        lambda: put(store, HOUR + 1, -1.0),  # a new one
        lambda: put(store, HOUR + 60_000, -2.0),  # one that replaces, received in the same ms
    ]

    def beside(_hour: Hour, _ids: Any) -> Callable[[sa.Connection], None]:
        if late:
            late.pop()()
            store.flush().result()
        return lambda _: None

    for waiting, hours in ((1, 0), (1, 0), (0, 1)):
        done = store.compact(beside).result()
        assert (done.waiting, done.hours) == (waiting, hours)
    assert rows_in(url, "scan") == 0
    held = {at: value for at, value, _ in all_of(store)}
    assert (len(held), held[HOUR + 1], held[HOUR + 60_000]) == (61, -1.0, -2.0)


def test_two_that_compact_the_same_hour_make_one_chunk(store: Store, clock: SteppedClock) -> None:
    fill(store, HOUR)
    clock.ms = HOUR + 2 * HOUR_MS
    inner: list[int] = []

    def beside(_hour: Hour, _ids: Any) -> Callable[[sa.Connection], None]:
        inner.append(store.compact().result().hours)
        return lambda _: None

    done = store.compact(beside).result()
    assert (inner, done.hours, done.waiting) == ([1], 0, 1)
    assert len(all_of(store)) == 60


def test_what_belongs_to_an_hour_is_written_with_it_or_not_at_all(
    store: Store, url: str, clock: SteppedClock
) -> None:
    fill(store, HOUR)
    clock.ms = HOUR + 2 * HOUR_MS

    def failing(_: sa.Connection) -> None:
        raise LookupError("no roll-up")

    with pytest.raises(LookupError):
        store.compact(lambda _hour, _ids: failing).result()
    assert (rows_in(url, "chunk"), rows_in(url, "scan")) == (0, 60)
    told: list[Hour] = []

    def beside(hour: Hour, ids: Any) -> Callable[[sa.Connection], None]:
        assert len(ids) == len(PDU)
        told.append(hour)
        return lambda c: c.execute(
            sa.text("INSERT INTO site_meta (key, value) VALUES ('with', 'it')")
        ).close()

    store.compact(beside).result()
    assert [len(hour.columns) for hour in told] == [60]
    assert store.meta("with").result() == "it"


def test_an_hour_that_cannot_be_read_is_left_as_it_is_and_does_not_stop_the_others(
    store: Store, url: str, clock: SteppedClock
) -> None:
    fill(store, HOUR)
    fill(store, HOUR + HOUR_MS)
    clock.ms = HOUR + 3 * HOUR_MS
    store.flush().result()
    store._write(
        lambda c: c.execute(
            sa.text("UPDATE scan SET data = :d WHERE source_ms = :t"), {"d": b"\x12", "t": HOUR}
        )
    ).result()
    done = store.compact().result()
    assert (done.hours, done.damaged) == (1, 1)
    assert (rows_in(url, "chunk"), rows_in(url, "scan")) == (1, 60)


def test_compaction_during_an_outage_says_so_and_goes_on_later(
    store: Store, url: str, clock: SteppedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(store, HOUR)
    store.flush().result()
    clock.ms = HOUR + 2 * HOUR_MS
    real = chunks.write_hour

    def away(*_: Any) -> None:
        raise sa.exc.OperationalError("DELETE", None, OSError("away"))

    monkeypatch.setattr(chunks, "write_hour", away)
    with pytest.raises(StoreUnavailable):
        store.compact().result()
    monkeypatch.setattr(chunks, "write_hour", real)
    clock.step(10)
    assert store.compact().result().hours == 1
    assert len(all_of(store)) == 60


def test_in_threads_journal_and_scans_go_on_beside_it(url: str) -> None:
    clock = SteppedClock()
    opened = open_store(url, clock, inline=True)
    opened.close()
    store = open_store(url, clock)
    fill(store, HOUR, every_s=2)
    store.flush().result()
    clock.ms = HOUR + 2 * HOUR_MS
    running = store.compact()
    while not running.done():
        put(store, HOUR + HOUR_MS + 1, 1.0)
        store.set_meta("k", "v").result(30)
    assert running.result().scans == 1800
    assert store.tidy().result() is not None
    store.close()


SECOND = st.integers(0, 7199)


@settings(max_examples=25, deadline=None)
@given(
    rounds=st.lists(
        st.tuples(st.lists(st.tuples(SECOND, st.floats(-1e6, 1e6)), max_size=12), st.booleans()),
        max_size=5,
    )
)
def test_in_whatever_order_samples_come_each_is_kept_once(
    rounds: list[tuple[list[tuple[int, float]], bool]],
) -> None:
    clock = SteppedClock(HOUR + 4 * HOUR_MS)
    store = open_store("sqlite://", clock, inline=True)
    expected: dict[int, float] = {}
    for samples, compacted in rounds:
        for second, value in samples:
            put(store, HOUR + 1000 * second, value)
            expected[HOUR + 1000 * second] = value
        if compacted:
            clock.step(600)
            store.compact().result()
        assert {at: value for at, value, _ in all_of(store)} == expected
        assert store.counts().result().scans >= len(expected)
    clock.step(600)
    store.compact().result()
    assert store.counts().result().scans == len(expected)
    store.close()
