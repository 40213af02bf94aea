"""PostgreSQL's daily partitions: made ahead, caught up, dropped; nothing of it on SQLite."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from facility.store import migrate, open_store
from facility.store.engine import writing_engine
from facility.store.rows import partitions
from facility.store.rows.partitions import DAY_MS, day_of, name_of
from tests.facility.store.plant import START_MS, SteppedClock, layout, scan

TODAY = day_of(START_MS)
PDU = layout()


@pytest.fixture
def engine(postgres: str) -> Iterator[sa.Engine]:
    migrate.upgrade(postgres)
    made = writing_engine(postgres)
    yield made
    made.dispose()


def put_raw(connection: sa.Connection, at_ms: int, layout_id: int = 1) -> None:
    connection.execute(
        sa.text("INSERT INTO scan VALUES (:l, :t, :t, ''::bytea)"), {"l": layout_id, "t": at_ms}
    )


def rows_of(connection: sa.Connection, table: str) -> int:
    return int(connection.exec_driver_sql(f"SELECT count(*) FROM {table}").scalar_one())


def test_opening_makes_yesterday_to_three_days_ahead(postgres: str) -> None:
    open_store(postgres, SteppedClock(), inline=True).close()
    engine = writing_engine(postgres)
    with engine.begin() as connection:
        for table in partitions.SPLIT_BY:
            assert list(partitions.days(connection, table)) == [
                TODAY + n * DAY_MS for n in range(-1, 4)
            ]
        assert partitions.make_ahead(connection, START_MS) == []
        assert partitions.make_ahead(connection, START_MS + DAY_MS) == [
            name_of("scan", TODAY + 4 * DAY_MS),
            name_of("chunk", TODAY + 4 * DAY_MS),
        ]
    engine.dispose()
    assert migrate.check(postgres) == []


def test_a_write_never_waits_for_a_partition_and_its_rows_move_when_it_is_made(
    engine: sa.Engine,
) -> None:
    with engine.begin() as connection:
        for day in (TODAY, TODAY + 1, TODAY + DAY_MS - 1, TODAY + DAY_MS):
            put_raw(connection, day)
        assert rows_of(connection, "scan_default") == 4
        partitions.make(connection, "scan", [TODAY])
        assert rows_of(connection, "scan_default") == 1
        assert rows_of(connection, name_of("scan", TODAY)) == 3
        put_raw(connection, TODAY + 2)
        assert rows_of(connection, name_of("scan", TODAY)) == 4


def test_days_are_dropped_whole_and_only_those_that_ended(engine: sa.Engine) -> None:
    with engine.begin() as connection:
        partitions.make(connection, "chunk", [TODAY, TODAY - DAY_MS])
        yesterday = name_of("chunk", TODAY - DAY_MS)
        assert partitions.ended(connection, "chunk", TODAY - 1) == []
        assert partitions.ended(connection, "chunk", TODAY + 5) == [yesterday]
        partitions.drop(connection, yesterday)
        assert list(partitions.days(connection, "chunk")) == [TODAY]


def test_raw_days_go_once_they_are_empty_and_old(engine: sa.Engine) -> None:
    with engine.begin() as connection:
        partitions.make(connection, "scan", [TODAY - n * DAY_MS for n in range(4)])
        put_raw(connection, TODAY - 3 * DAY_MS)
        assert partitions.drop_emptied(connection, START_MS) == [
            name_of("scan", TODAY - 2 * DAY_MS)
        ]
        assert rows_of(connection, "scan") == 1


def test_a_reader_makes_partition_work_give_up_and_not_wait(engine: sa.Engine) -> None:
    with engine.connect() as reader, engine.connect() as writer:
        reader.exec_driver_sql("SELECT * FROM scan_default")
        with pytest.raises(partitions.Busy), writer.begin():
            partitions.make_ahead(writer, START_MS)
        reader.rollback()
        with writer.begin():
            assert len(partitions.make_ahead(writer, START_MS)) == 10


def test_a_long_reader_is_no_outage_for_tidying_opening_or_compacting(postgres: str) -> None:
    migrate.upgrade(postgres)
    engine = writing_engine(postgres)
    clock = SteppedClock(TODAY + DAY_MS)
    with engine.connect() as reader:
        reader.exec_driver_sql("SELECT count(*) FROM scan, chunk")
        store = open_store(postgres, clock, inline=True)
        store.put(scan(PDU, [1.0] * 4, at_ms=TODAY))
        assert store.tidy().result() == []
        assert store.compact().result().waiting == 1
        assert store.stats().available
        reader.rollback()
        assert len(store.tidy().result()) == 10
        assert store.compact().result().hours == 1
    store.close()
    engine.dispose()


def test_scans_sent_again_replace_those_that_stand(url: str) -> None:
    clock = SteppedClock()
    store = open_store(url, clock, inline=True)
    for round_ in range(3):
        for second in (1, 0, 1, 2):
            values = [float(round_)] * 4
            store.put(scan(PDU, values, at_ms=START_MS + second * 1000, received_ms=START_MS))
        store.flush().result()
    store.put(scan(PDU, [9.0] * 4, at_ms=START_MS + 3000))
    got = store.history(PDU.points[0].id, START_MS, START_MS + 9000).result()
    assert got.mean.tolist() == [2.0, 2.0, 2.0, 9.0]
    assert store.counts().result().scans == 4
    store.close()


def test_on_sqlite_there_are_none() -> None:
    engine = writing_engine("sqlite://")
    with engine.begin() as connection:
        migrate.upgrade_on(connection)
        assert partitions.make_ahead(connection, START_MS) == []
        assert partitions.ended(connection, "chunk", START_MS) == []
        assert partitions.drop_emptied(connection, START_MS) == []
    engine.dispose()
