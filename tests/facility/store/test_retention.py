"""What is too old goes, by class, and nothing else does."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlalchemy as sa

from facility.points import Layout, PointId, PointSpec
from facility.store import Store, open_store, retention
from facility.store.engine import writing_engine
from facility.store.past import Question
from facility.store.rollups import PointRules, RetentionDays
from facility.store.rows import partitions
from facility.store.rows.tables import chunk, rollup_1d, rollup_15m, scan
from tests.facility.store.plant import SteppedClock
from tests.facility.store.plant import scan as look

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
#: 2026-11-30T00:00Z
NOW_MS = 1_795_996_800_000
GPU = PointId("n01", "total", "active_power")
METER = PointId("pdu", "total", "active_power")
KEEP = {
    "n01": RetentionDays(raw=2, quarters=20, days=40),
    "pdu": RetentionDays(raw=4, quarters=40, days=400),
}


def layout_of(point: PointId) -> Layout:
    return Layout(point.device, "fast", (PointSpec(point, 0.0, 1e6),))


@pytest.fixture
def store(store: Store, clock: SteppedClock) -> Store:
    store.rules = PointRules(keep=lambda point: KEEP[point.device])
    return store


def fill(store: Store, clock: SteppedClock, days: int, each_hours: int = 24) -> None:
    """A sample every few hours of the days before `NOW_MS`, all compacted."""
    clock.ms = NOW_MS
    for at_ms in range(NOW_MS - days * DAY_MS, NOW_MS, each_hours * HOUR_MS):
        for point in (GPU, METER):
            store.put(look(layout_of(point), [7.0], at_ms=at_ms))
    store.flush().result()
    store.compact(settle_ms=0).result()
    clock.ms = NOW_MS + 3 * HOUR_MS
    store.settle_days().result()
    clock.ms = NOW_MS


def ages(store: Store, table: sa.Table, column: str) -> dict[str, tuple[float, int]]:
    """Age in days of the oldest row of each device, and how many rows there are."""
    by = table.c.layout_id if "layout_id" in table.c else table.c.point_id
    asked = sa.select(by, sa.func.min(table.c[column]), sa.func.count()).group_by(by)
    with store._engine.begin() as connection:
        rows = connection.execute(asked).all()
    return {
        {1: "n01", 2: "pdu"}[number]: ((NOW_MS - oldest) / DAY_MS, n) for number, oldest, n in rows
    }


def test_each_class_goes_at_its_own_age(store: Store, clock: SteppedClock) -> None:
    fill(store, clock, 60)
    assert ages(store, chunk, "hour_ms") == {"n01": (60.0, 60), "pdu": (60.0, 60)}
    gone = store.retire().result()
    assert ages(store, chunk, "hour_ms") == {"n01": (2.0, 2), "pdu": (4.0, 4)}
    assert ages(store, rollup_15m, "start_ms") == {"n01": (20.0, 20), "pdu": (40.0, 40)}
    assert ages(store, rollup_1d, "start_ms") == {"n01": (40.0, 40), "pdu": (60.0, 60)}
    assert gone.rollups == (40 + 20) + 20
    if store.database == "sqlite":
        assert gone.chunks == 58 + 56
        assert gone.partitions == ()
    else:
        # Days that both let go went as partitions; the two that only the nodes let go, as rows.
        assert len([name for name in gone.partitions if name.startswith("chunk")]) == 56
        assert gone.chunks == 2
    again = store.retire().result()
    assert (again.chunks, again.rollups, again.partitions) == (0, 0, ())


def test_what_went_is_answered_from_roll_ups_and_what_stayed_from_samples(
    store: Store, clock: SteppedClock
) -> None:
    fill(store, clock, 6)
    store.retire().result()
    from_ms, to_ms = NOW_MS - 3 * DAY_MS, NOW_MS - 3 * DAY_MS + HOUR_MS
    got = [store.history(point, from_ms, to_ms).result() for point in (GPU, METER)]
    assert [(s.point, s.resolution) for s in got] == [(GPU, "15m"), (METER, "raw")]
    assert got[0].mean[0] == got[1].mean[0] == 7.0


def test_samples_that_were_never_compacted_go_too(store: Store, clock: SteppedClock) -> None:
    clock.ms = NOW_MS - 5 * DAY_MS
    for hour in range(12):
        store.put(look(layout_of(GPU), [1.0], at_ms=clock.ms + hour * HOUR_MS))
    store.flush().result()
    clock.ms = NOW_MS - 3 * DAY_MS + 9 * HOUR_MS
    assert store.retire().result().scans == 9
    assert ages(store, scan, "source_ms")["n01"][1] == 3


def test_late_data_of_an_hour_that_went_changes_no_roll_up(
    store: Store, clock: SteppedClock
) -> None:
    fill(store, clock, 6)
    store.retire().result()
    hour_ms = NOW_MS - 5 * DAY_MS
    quarter = Question((GPU,), hour_ms, hour_ms + HOUR_MS, 900.0)
    before = store.past(quarter).result().series[0]
    assert before.count.tolist() == [1, 0, 0, 0]
    store.put(look(layout_of(GPU), [9.0], at_ms=hour_ms + 60_000, received_ms=NOW_MS))
    store.put(look(layout_of(GPU), [8.0], at_ms=hour_ms + 2_000_000, received_ms=NOW_MS))
    store.flush().result()
    store.compact(settle_ms=0).result()
    after = store.past(quarter).result().series[0]
    assert after.count.tolist() == [1, 0, 1, 0]
    store.retire().result()
    assert store.past(quarter).result().series[0].count.tolist() == [1, 0, 1, 0]


def test_the_file_gives_back_what_it_no_longer_needs_and_keeps_some_room(
    tmp_path: Path, clock: SteppedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "FREE_PAGES", 20)
    monkeypatch.setattr(retention, "PAGES", 128)
    store = open_store(f"sqlite:///{tmp_path / 'hall.db'}", clock, inline=True)
    with store._engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE big (body BLOB)")
        connection.exec_driver_sql("INSERT INTO big VALUES (zeroblob(2000000))")
        connection.exec_driver_sql("DROP TABLE big")
    with store._engine.begin() as connection:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
        free = connection.exec_driver_sql("PRAGMA freelist_count").scalar_one()
    gone = store.retire().result()
    with store._engine.begin() as connection:
        assert connection.exec_driver_sql("PRAGMA page_count").scalar_one() == pages - gone.pages
        left = connection.exec_driver_sql("PRAGMA freelist_count").scalar_one()
    assert left == free - gone.pages
    assert 4 < left <= 20
    assert store.retire().result().pages == 0
    store.close()


def test_postgresql_drops_only_days_that_nobody_keeps(postgres: str, clock: SteppedClock) -> None:
    store = open_store(postgres, clock, inline=True)
    store.rules = PointRules(keep=lambda point: KEEP[point.device])
    fill(store, clock, 6)
    store.retire().result()
    with store._engine.begin() as connection:
        days = sorted(partitions.days(connection, "chunk"))
    assert days[0] == NOW_MS - 4 * DAY_MS
    store.close()


def test_a_long_reader_made_a_round_of_retention_end_before_it_let_go_of_anything(
    postgres: str, clock: SteppedClock
) -> None:
    store = open_store(postgres, clock, inline=True)
    store.rules = PointRules(keep=lambda point: KEEP[point.device])
    fill(store, clock, 6)
    with store._engine.connect() as connection:
        days = partitions.ended(connection, "chunk", NOW_MS - 4 * DAY_MS)
    reader = writing_engine(postgres)
    with reader.connect() as connection:
        connection.exec_driver_sql("SELECT count(*) FROM chunk")
        gone = store.retire().result()
        assert (gone.partitions, gone.waiting) == ((), len(days))
        # Only the two days that the nodes alone let go went row by row.
        assert gone.chunks == 2
    assert set(store.retire().result().partitions) >= set(days)
    store.close()
    reader.dispose()
