"""`db check` reads everything, and names what cannot be read as it was written."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlalchemy as sa

from api.commands import db
from facility.store import StoreCorrupt, check, open_store
from facility.store.engine import writing_engine
from facility.store.integrity import samples
from facility.store.rows.chunks import HOUR_MS, hour_of
from facility.store.spill import Spill
from tests.facility.store.plant import START_MS, SteppedClock, layout, scan

PDU = layout()
HOUR = hour_of(START_MS) + HOUR_MS


@pytest.fixture
def filled(url: str) -> str:
    """Two compacted hours and half a raw one."""
    clock = SteppedClock(HOUR + 2 * HOUR_MS + HOUR_MS // 2)
    store = open_store(url, clock, inline=True)
    for n in range(300):
        at_ms = HOUR + n * 30_000
        store.put(scan(PDU, [0.1 * n, 5.0, float("nan"), n], [0, 0, 2, 0], at_ms=at_ms))
    assert store.compact(settle_ms=0).result().hours == 2
    store.close()
    return url


def test_a_whole_store_has_nothing_to_tell(filled: str) -> None:
    assert check(filled) == []


def test_each_flipped_byte_of_a_chunk_or_scan_is_found_and_its_hour_named(filled: str) -> None:
    engine = writing_engine(filled)
    for table, column, at in (
        ("chunk", "head", "hour_ms"),
        ("chunk", "body", "hour_ms"),
        ("scan", "data", "source_ms"),
    ):
        with engine.connect() as connection:
            key, old = connection.execute(
                sa.text(f"SELECT {at}, {column} FROM {table} ORDER BY {at} DESC LIMIT 1")
            ).one()
            for place in {0, len(old) // 2, len(old) - 1} if table == "chunk" else {0}:
                bad = bytearray(old)
                bad[place] ^= 0x5A
                more = b"" if table == "chunk" else b"x"
                connection.execute(
                    sa.text(f"UPDATE {table} SET {column} = :bad WHERE {at} = :key"),
                    {"bad": bytes(bad) + more, "key": key},
                )
                (fault,) = samples.faults(connection)
                assert fault.startswith("pdu-1/fast, "), fault
                assert "2026-11-30" in fault
                connection.rollback()
    engine.dispose()


def test_a_question_that_met_a_damaged_chunk_left_its_connection_at_that_moment(url: str) -> None:
    clock = SteppedClock(HOUR + 3 * HOUR_MS)
    store = open_store(url, clock, inline=True)
    for n in range(300):
        store.put(scan(PDU, [float(n)] * 4, at_ms=HOUR + n * 30_000))
    assert store.compact(settle_ms=0).result().hours == 3
    with store._engine.begin() as connection:
        connection.execute(
            sa.text("UPDATE chunk SET head = :bad WHERE hour_ms = :hour"),
            {"bad": b"nothing", "hour": HOUR},
        )
    point = PDU.points[0].id
    told = store.history(point, HOUR, HOUR + 3 * HOUR_MS).exception()
    assert isinstance(told, StoreCorrupt)
    assert "layout 1, from" in str(told)
    late_ms = HOUR + 2 * HOUR_MS + 7
    store.put(scan(PDU, [-1.0] * 4, at_ms=late_ms, received_ms=clock.ms))
    store.flush().result()
    # The error is still held, and with it everything that it came through.
    assert store.history(point, late_ms, late_ms + 1).result().mean.tolist() == [-1.0]
    assert store.compact(settle_ms=0).result().hours == 1
    store.close()


def test_rows_that_contradict_each_other_are_found(filled: str) -> None:
    engine = writing_engine(filled)
    for statement, words in (
        ("UPDATE chunk SET scans = scans + 1", "are due"),
        ("UPDATE chunk SET last_ms = last_ms + 1", "its times"),
        ("UPDATE layout SET id = id + 7", "layout 1, which is not there"),
    ):
        with engine.connect() as connection:
            connection.exec_driver_sql(statement)
            found = list(samples.faults(connection))
            assert len(found) == 2
            assert all(words in fault for fault in found)
            connection.rollback()
    engine.dispose()


def test_many_faults_are_counted(filled: str) -> None:
    engine = writing_engine(filled)
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE scan SET data = :none"), {"none": b""})
    engine.dispose()
    found = check(filled)
    assert len(found) == 21
    assert found[-1] == "and 40 more of this sort"


def test_the_spill_is_looked_at_where_it_is_named(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    open_store(url, SteppedClock(), inline=True).close()
    spill = Spill(tmp_path / "spill.jsonl")
    spill.append("acks", {"n": 1})
    assert db.check(url, str(tmp_path)) == 0
    with spill.path.open("ab") as stream:
        stream.write(b"00000000 {}\n")
    assert db.check(url, str(tmp_path)) == 1
    assert "1 of 2 entries cannot be read" in capsys.readouterr().err
    assert db.check(url) == 0
