"""The audit: nobody changes it in the database, and who goes round the database is found."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import sqlalchemy as sa

from api.commands import db
from facility.store import check, open_store
from facility.store.engine import writing_engine
from facility.store.integrity import audit_head
from facility.store.migrate import downgrade_on, upgrade, upgrade_on
from facility.store.rows.audit import add_audit, faults
from tests.facility.store.plant import START_MS, SteppedClock

LINES = 7


def filled(url: str) -> None:
    store = open_store(url, SteppedClock(), inline=True)
    for n in range(LINES):
        store.audit("ada", "mode.set", f"rack:r0{n}", {"n": n, "why": 'é "x"'}).result()
    store.close()


def do(url: str, *statements: str) -> None:
    """As the database's owner does who wants to hide something."""
    engine = writing_engine(url)
    with engine.begin() as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)
    engine.dispose()


def disarm(url: str) -> None:
    if url.startswith("sqlite"):
        do(url, *(f"DROP TRIGGER audit_no_{e}" for e in ("UPDATE", "DELETE", "replace")))
    else:
        do(url, "ALTER TABLE audit DISABLE TRIGGER ALL")


def test_the_database_refuses_to_forget(url: str) -> None:
    filled(url)
    refused = ["UPDATE audit SET actor = 'eve' WHERE id = 3", "DELETE FROM audit WHERE id = 3"]
    if url.startswith("sqlite"):
        refused.append("INSERT OR REPLACE INTO audit VALUES (3, 0, 'eve', 'x', 'y', '{}', '')")
    else:
        refused.append("TRUNCATE audit")
    for statement in refused:
        with pytest.raises(sa.exc.DBAPIError, match="append-only"):
            do(url, statement)
    assert check(url) == []


def test_who_goes_round_the_database_is_found_and_the_first_bad_line_named(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    filled(url)
    assert db.check(url) == 0
    assert audit_head(url) in capsys.readouterr().out
    disarm(url)
    assert check(url) == [], "the content is what counts"
    engine = writing_engine(url)
    for statement, named in (
        ("UPDATE audit SET actor = 'eve' WHERE id = 3", 3),
        ("UPDATE audit SET detail = '{}' WHERE id = 1", 1),
        ("UPDATE audit SET at_ms = at_ms + 1 WHERE id = 7", 7),
        ("DELETE FROM audit WHERE id = 4", 5),
        ("DELETE FROM audit WHERE id = 1", 2),
        ("UPDATE audit SET hash = '' WHERE id = 6", 6),
        (f"INSERT INTO audit VALUES (8, {START_MS}, 'eve', 'x', 'y', '[]', 'ab')", 8),
    ):
        with engine.connect() as connection:
            connection.exec_driver_sql(statement)
            (fault,) = faults(connection)
            assert fault.startswith(f"audit line {named} "), statement
            connection.rollback()
    engine.dispose()
    do(url, "UPDATE audit SET subject = 'other' WHERE id = 2")
    assert db.check(url) == 1
    assert "audit line 2 " in capsys.readouterr().err


def test_cutting_off_the_end_moves_the_head(url: str) -> None:
    filled(url)
    noted = audit_head(url)
    disarm(url)
    do(url, f"DELETE FROM audit WHERE id = {LINES}")
    assert check(url) == []
    assert audit_head(url) != noted


def test_lines_of_the_first_release_are_chained_by_the_upgrade(url: str) -> None:
    engine = writing_engine(url)
    lines = [
        {"at": START_MS + n, "actor": "ada", "subject": f"r{n}", "detail": '{"é": 1}'}
        for n in range(2500)
    ]
    insert = sa.text(
        "INSERT INTO audit (at_ms, actor, action, subject, detail) "
        "VALUES (:at, :actor, 'x', :subject, :detail)"
    )
    with engine.begin() as connection:
        upgrade_on(connection, "0001")
        connection.execute(insert, lines)
    upgrade(url)
    assert check(url) == []
    head = audit_head(url)
    assert len(head) == 64
    with engine.begin() as connection:
        downgrade_on(connection, "0001")
        with pytest.raises(sa.exc.DBAPIError, match="append-only"), connection.begin_nested():
            connection.exec_driver_sql("DELETE FROM audit")
    upgrade(url)
    engine.dispose()
    assert check(url) == []
    assert audit_head(url) == head
    store = open_store(url, SteppedClock(), inline=True)
    store.audit("bob", "y", "z").result()
    store.close()
    assert check(url) == []
    disarm(url)
    do(url, "UPDATE audit SET subject = 'r' WHERE id = 2222")
    assert "audit line 2222 " in check(url)[0]


def test_halls_that_share_a_database_append_in_turns(postgres: str) -> None:
    upgrade(postgres)
    start = threading.Barrier(4)

    def hall(name: str) -> None:
        engine = writing_engine(postgres)
        start.wait(30)
        for n in range(40):
            with engine.begin() as connection:
                add_audit(connection, START_MS + n, name, "x", "y", {"n": n})
        engine.dispose()

    threads = [threading.Thread(target=hall, args=(f"hall-{n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert check(postgres) == []
    engine = writing_engine(postgres)
    with engine.connect() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM audit").scalar_one() == 160
    engine.dispose()


def test_a_backup_keeps_the_chain(url: str, tmp_path: Path) -> None:
    filled(url)
    copy = str(tmp_path / "copy.zip")
    restored = f"sqlite:///{tmp_path / 'restored.db'}"
    steps: list[Callable[[], int]] = [
        lambda: db.backup(url, copy),
        lambda: db.restore(restored, copy),
        lambda: db.check(restored),
    ]
    assert [step() for step in steps] == [0, 0, 0]
    assert audit_head(restored) == audit_head(url)
