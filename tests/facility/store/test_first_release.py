"""A database that the first release wrote opens in this one, with its past."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sa

from facility.store import SchemaMismatch, migrate, open_store
from facility.store.engine import writing_engine
from tests.facility.store.plant import START_MS, SteppedClock, layout

PDU = layout()


def written_by_the_first_release(url: str) -> None:
    """Two devices' scans as 0001 kept them: one row each, some of them twice."""
    engine = writing_engine(url)
    with engine.begin() as connection:
        migrate.upgrade_on(connection, "0001")
        refs = [str(p.id) for p in PDU.points]
        connection.execute(
            sa.text("INSERT INTO point (id, ref) VALUES (:id, :ref)"),
            [{"id": i + 1, "ref": ref} for i, ref in enumerate(refs)],
        )
        connection.execute(
            sa.text(
                "INSERT INTO layout (id, key, device, poll_class, point_ids) VALUES "
                "(1, :key, 'pdu-1', 'fast', :ids)"
            ),
            {"key": PDU.key, "ids": np.arange(1, 5, dtype="<i8").tobytes()},
        )
        rows = [(second, 1.0) for second in range(50)] + [(7, 2.0), (7, 3.0)]
        connection.execute(
            sa.text(
                "INSERT INTO scan (layout_id, source_ms, received_ms, data) "
                "VALUES (1, :at, :at, :data)"
            ),
            [
                {
                    "at": START_MS + 1000 * second,
                    "data": bytes((3,)) + np.full(4, value, dtype="<f4").tobytes(),
                }
                for second, value in rows
            ],
        )
    engine.dispose()


def test_it_is_refused_until_upgraded_and_then_has_its_past(url: str) -> None:
    written_by_the_first_release(url)
    with pytest.raises(SchemaMismatch, match="db upgrade"):
        open_store(url, SteppedClock(), inline=True)
    migrate.upgrade(url)
    assert migrate.check(url) == []
    store = open_store(url, SteppedClock(), inline=True)
    got = store.history(PDU.points[2].id, START_MS, START_MS + 60_000).result()
    assert got.mean.tolist() == [3.0 if second == 7 else 1.0 for second in range(50)]
    store.close()


def test_it_goes_back_with_its_scans_and_forward_again(url: str) -> None:
    written_by_the_first_release(url)
    migrate.upgrade(url)
    open_store(url, SteppedClock(), inline=True).close()
    engine = writing_engine(url)
    with engine.begin() as connection:
        migrate.downgrade_on(connection, "0001")
        assert connection.exec_driver_sql("SELECT count(*) FROM scan").scalar_one() == 50
    engine.dispose()
    migrate.upgrade(url)
    assert migrate.check(url) == []


def test_a_store_with_chunks_does_not_go_back_and_loses_nothing(url: str) -> None:
    migrate.upgrade(url)
    engine = writing_engine(url)
    with engine.begin() as connection:
        connection.exec_driver_sql(
            "INSERT INTO chunk (layout_id, hour_ms, scans, first_ms, last_ms, revision, head, body)"
            " VALUES (1, 0, 0, 0, 0, 1, '', '')"
        )
    with pytest.raises(RuntimeError, match="1 compacted hours"), engine.begin() as connection:
        migrate.downgrade_on(connection, "0001")
    engine.dispose()
    assert migrate.check(url) == []


def test_an_upgraded_file_can_give_back_what_it_no_longer_needs(tmp_path: Path) -> None:
    file = tmp_path / "hall.db"
    written_by_the_first_release(f"sqlite:///{file}")
    with sqlite3.connect(file) as plain:
        plain.execute("PRAGMA auto_vacuum=NONE")
        plain.commit()
        plain.execute("VACUUM")
        assert plain.execute("PRAGMA auto_vacuum").fetchone() == (0,)
    migrate.upgrade(f"sqlite:///{file}")
    with sqlite3.connect(file) as plain:
        assert plain.execute("PRAGMA auto_vacuum").fetchone() == (2,)
