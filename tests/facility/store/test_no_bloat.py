"""A week of a small hall on PostgreSQL: what is kept grows, what is raw does not."""

from __future__ import annotations

import itertools

import sqlalchemy as sa

from facility.store import Store, open_store
from facility.store.engine import writing_engine
from facility.store.rows import partitions
from facility.store.rows.chunks import HOUR_MS
from facility.store.rows.partitions import DAY_MS, day_of
from tests.facility.store.plant import START_MS, SteppedClock, layout, scan

MONDAY = day_of(START_MS) + DAY_MS
LAYOUTS = [layout(f"pdu-{i}", points=20) for i in range(3)]
EVERY_MS = 60_000


def live_through(store: Store, clock: SteppedClock, hour_ms: int) -> None:
    """An hour of scans, some of them told twice or late, and what the store does after it."""
    for at_ms in range(hour_ms, hour_ms + HOUR_MS, EVERY_MS):
        for n, one in enumerate(LAYOUTS):
            values = [float((at_ms // EVERY_MS * (i + n + 1)) % 97) for i in range(20)]
            store.put(scan(one, values, at_ms=at_ms))
    store.put(scan(LAYOUTS[0], [1.0] * 20, at_ms=hour_ms, received_ms=hour_ms + 1))
    store.put(scan(LAYOUTS[1], [2.0] * 20, at_ms=hour_ms - 30_000, received_ms=hour_ms + 2))
    store.flush().result()
    clock.ms = hour_ms + HOUR_MS + 600_000
    store.compact().result()
    with store._engine.begin() as connection:
        # The server tells of dead rows a second later; here that would be the next day.
        connection.exec_driver_sql("SELECT pg_stat_force_next_flush()")
    store.tidy().result()


def bytes_of(connection: sa.Connection, table: str) -> int:
    """Of every partition, with indexes and what lies outside the rows."""
    return int(
        connection.execute(
            sa.text(
                "SELECT sum(pg_total_relation_size(inhrelid)) FROM pg_inherits "
                "WHERE inhparent = CAST(:table AS regclass)"
            ),
            {"table": table},
        ).scalar_one()
    )


def test_after_a_week_raw_scans_take_no_more_room_than_after_a_day(postgres: str) -> None:
    clock = SteppedClock(MONDAY)
    store = open_store(postgres, clock, inline=True)
    engine = writing_engine(postgres)
    raw: list[int] = []
    chunks: list[int] = []
    names: list[int] = []
    for day in range(7):
        # Every eighth hour, so that the test is short; a day has three.
        for hour in range(0, 24, 8):
            live_through(store, clock, MONDAY + day * DAY_MS + hour * HOUR_MS)
        with engine.begin() as connection:
            raw.append(bytes_of(connection, "scan"))
            chunks.append(bytes_of(connection, "chunk"))
            names.append(len(partitions.days(connection, "scan")))
    counted = store.counts().result()
    # Late scans fall into an hour of their own where the hour before was not lived through.
    assert counted.scans == 7 * 3 * (3 * 60 + 1)
    with engine.begin() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM scan").scalar_one() == 0
        dead = connection.exec_driver_sql(
            "SELECT coalesce(sum(pg_relation_size(inhrelid)), 0) FROM pg_inherits "
            "WHERE inhparent = CAST('scan' AS regclass)"
        ).scalar_one()
    # Of one hour they are about 16 kB; of the days that are not dropped yet, 110 kB.
    assert dead < 50_000
    assert max(raw[2:]) <= raw[1] * 1.5
    assert max(names) <= 6
    growth = [after - before for before, after in itertools.pairwise(chunks)]
    assert max(growth) < 4 * max(min(growth), 1) + 200_000
    assert chunks[-1] < 3_000_000
    engine.dispose()
    store.close()


def test_old_days_are_dropped_and_give_their_room_back(postgres: str) -> None:
    clock = SteppedClock(MONDAY)
    store = open_store(postgres, clock, inline=True)
    for day in range(4):
        live_through(store, clock, MONDAY + day * DAY_MS)
    engine = writing_engine(postgres)
    with engine.begin() as connection:
        before = bytes_of(connection, "chunk")
        gone = partitions.ended(connection, "chunk", MONDAY + 3 * DAY_MS)
        for name in gone:
            partitions.drop(connection, name)
        assert len(gone) >= 3
        assert bytes_of(connection, "chunk") < before
    engine.dispose()
    points = LAYOUTS[0].points[0].id
    assert store.history(points, MONDAY, MONDAY + 3 * DAY_MS).result().resolution == "15m"
    there = store.history(points, MONDAY + 3 * DAY_MS, MONDAY + 4 * DAY_MS).result()
    assert (there.resolution, len(there)) == ("raw", 60)
    store.close()
