"""The views say what the roll-ups hold, and Grafana's role reads them and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import make_url

from api.commands import db
from facility.store import StoreError, check, upgrade
from facility.store.engine import writing_engine
from facility.store.views import VIEWS, grant_statements, make_reader
from tests.facility.store.plant import START_MS

ROLE = "wk_test_reader"
COLUMNS = "start_ms, point_id, total, minimum, maximum, first, last, delta, count, good, suspect"
ROWS = f"""
INSERT INTO point (id, ref) VALUES (1, 'pdu-1:outlet.3:active_power'), (2, 'm:total:energy');
INSERT INTO rollup_15m ({COLUMNS}) VALUES
    ({START_MS}, 1, 300.0, 90.0, 110.0, 90.0, 110.0, NULL, 4, 3, 0),
    ({START_MS + 900_000}, 1, NULL, NULL, NULL, NULL, NULL, NULL, 4, 0, 0);
INSERT INTO rollup_1d ({COLUMNS}) VALUES
    ({START_MS}, 1, 200.0, 90.0, 110.0, 90.0, 110.0, NULL, 2, 2, 0),
    ({START_MS}, 2, 9.0, 4.0, 5.0, 4.0, 5.0, 1234.5, 4, 2, 0);
INSERT INTO alarm_change (key, change, at_ms, text, page)
    VALUES ('odd:x', 'raised', {START_MS}, 'odd', true)
"""


@pytest.fixture
def filled(url: str) -> str:
    upgrade(url)
    engine = writing_engine(url)
    with engine.begin() as connection:
        for statement in ROWS.split(";"):
            connection.exec_driver_sql(statement)
    engine.dispose()
    return url


def rows(url: str, view: str) -> list[dict[str, object]]:
    engine = writing_engine(url)
    with engine.connect() as connection:
        found = connection.execute(sa.text(f"SELECT * FROM {view} ORDER BY time")).mappings().all()
    engine.dispose()
    return [dict(row) for row in found]


def test_the_views_say_what_the_roll_ups_hold(filled: str) -> None:
    full, empty = rows(filled, "v_reading_15m")
    assert {k: full[k] for k in ("device", "part", "kind")} == {
        "device": "pdu-1",
        "part": "outlet.3",
        "kind": "active_power",
    }
    assert [full[k] for k in ("mean", "min", "max", "first", "last")] == [100, 90, 110, 90, 110]
    assert (full["samples"], full["good_fraction"]) == (4, 0.75)
    assert (empty["mean"], empty["min"], empty["good_fraction"]) == (None, None, 0.0)
    assert str(full["time"])[:10] == "2026-11-30"
    daily = rows(filled, "v_reading_daily")
    assert sorted(str(r["kind"]) for r in daily) == ["active_power", "energy"]
    (energy,) = rows(filled, "v_energy_daily")
    assert (energy["device"], energy["part"]) == ("m", "total")
    assert (energy["energy_wh"], energy["good_fraction"]) == (1234.5, 0.5)
    (alarm,) = rows(filled, "v_alarm_change")
    assert (alarm["key"], alarm["change"]) == ("odd:x", "raised")


def test_a_view_that_is_gone_is_missed(filled: str) -> None:
    assert check(filled) == []
    engine = writing_engine(filled)
    with engine.begin() as connection:
        connection.exec_driver_sql("DROP VIEW v_energy_daily")
    engine.dispose()
    assert check(filled) == ["the view v_energy_daily is not there"]


@pytest.fixture
def role(postgres: str) -> Iterator[str]:
    upgrade(postgres)
    yield ROLE
    engine = writing_engine(postgres)
    with engine.begin() as connection:
        there = connection.execute(
            sa.text("SELECT count(*) FROM pg_roles WHERE rolname = :r"), {"r": ROLE}
        ).scalar_one()
        if there:
            connection.exec_driver_sql(f"DROP OWNED BY {ROLE}")
            connection.exec_driver_sql(f"DROP ROLE {ROLE}")
    engine.dispose()


def test_grafanas_role_reads_the_views_and_nothing_else(postgres: str, role: str) -> None:
    make_reader(postgres, role)
    password = make_reader(postgres, role)
    theirs = make_url(postgres).set(username=role, password=password)
    reader = sa.create_engine(theirs.set(drivername="postgresql+psycopg"))
    with reader.connect() as connection:
        tables = sa.inspect(connection).get_table_names()
        assert {"audit", "api_key", "scan", "rollup_15m"} <= set(tables)
        assert connection.exec_driver_sql("SHOW default_transaction_read_only").scalar() == "on"
        for view in VIEWS:
            connection.exec_driver_sql(f"SELECT * FROM {view}")
    with reader.connect() as connection:
        # Without the setting, which a reader may change: rights are what counts.
        connection.exec_driver_sql("SET default_transaction_read_only = off")
        connection.commit()
        refused = [f"SELECT * FROM {table}" for table in tables]
        refused += [f"DELETE FROM {name}" for name in (*VIEWS, *tables)]
        refused += [
            "CREATE TABLE mine (x int)",
            "CREATE VIEW mine AS SELECT 1",
            "SELECT nextval('audit_id_seq')",
            "SELECT pg_read_file('/etc/passwd')",
            "COPY v_reading_15m TO '/tmp/x'",
            f"ALTER ROLE {role} CREATEROLE",
        ]
        for statement in refused:
            with pytest.raises(sa.exc.DBAPIError, match=r"denied|must be|privileges|view"):
                connection.exec_driver_sql(statement)
            connection.rollback()
    reader.dispose()


def test_a_role_with_more_rights_is_left_alone(postgres: str, role: str) -> None:
    owner = str(make_url(postgres).username)
    with pytest.raises(StoreError, match="more rights"):
        make_reader(postgres, owner)
    for name in ("", "Robert'); DROP", "a b", '"x"'):
        with pytest.raises(StoreError, match="small letters"):
            grant_statements(name, "x")


def test_the_command(
    postgres: str, role: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert db.reader(postgres, role, only_print=True) == 0
    printed = capsys.readouterr().out
    assert "GRANT SELECT ON v_reading_15m" in printed
    assert "password" not in printed
    assert db.reader(postgres, role, only_print=False) == 0
    assert "shown this once" in capsys.readouterr().out
    assert db.reader(f"sqlite:///{tmp_path / 'x.db'}", role, only_print=False) == 1
    assert "no roles" in capsys.readouterr().err
