"""What is refused at the door: damaged files, strangers, second writers, other schemas."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import sqlalchemy as sa

from facility.clock import SystemClock
from facility.store import (
    SchemaMismatch,
    StoreCorrupt,
    StoreError,
    StoreLocked,
    StoreUnavailable,
    migrate,
    open_store,
)
from facility.store.engine import writing_engine
from tests.facility.store.plant import SteppedClock, layout, scan


def filled(file: Path) -> Path:
    store = open_store(f"sqlite:///{file}", SteppedClock(), inline=True)
    for n in range(400):
        store.put(scan(layout(points=100), [float(n) + 0.1 * i for i in range(100)]))
    store.close()
    return file


def cut_in_half(file: Path) -> None:
    with file.open("r+b") as stream:
        stream.truncate(file.stat().st_size // 2)


def cut_to_nothing(file: Path) -> None:
    file.write_bytes(b"")


def cut_to_a_header(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:60])


def overwrite_head(file: Path) -> None:
    with file.open("r+b") as stream:
        stream.write(b"\0" * 512)


def overwrite_pages(file: Path) -> None:
    with file.open("r+b") as stream:
        stream.seek(4096)
        stream.write(b"\xa5" * 4096 * 8)


@pytest.mark.parametrize(
    "harm", [cut_in_half, cut_to_nothing, cut_to_a_header, overwrite_head, overwrite_pages]
)
def test_a_damaged_file_is_refused_and_left_as_it_is(
    tmp_path: Path, harm: Callable[[Path], None]
) -> None:
    file = filled(tmp_path / "hall.db")
    harm(file)
    before = file.read_bytes()
    with pytest.raises(StoreCorrupt, match=r"hall\.db"):
        open_store(f"sqlite:///{file}", SteppedClock(), inline=True)
    assert file.read_bytes() == before


def test_a_text_file_and_another_programs_database_are_refused(tmp_path: Path) -> None:
    text = tmp_path / "notes.db"
    text.write_text("no database\n" * 50)
    with pytest.raises(StoreCorrupt, match="no SQLite database"):
        open_store(f"sqlite:///{text}", SteppedClock(), inline=True)
    other = tmp_path / "other.db"
    connection = sqlite3.connect(other)
    connection.execute("CREATE TABLE photos (id INTEGER)")
    connection.commit()
    connection.close()
    with pytest.raises(StoreCorrupt, match="photos"):
        open_store(f"sqlite:///{other}", SteppedClock(), inline=True)


def test_a_second_writer_of_one_file_is_refused_until_the_first_is_gone(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'hall.db'}"
    first = open_store(url, SteppedClock(), inline=True)
    with pytest.raises(StoreLocked, match="another process"):
        open_store(url, SteppedClock(), inline=True)
    with pytest.raises(StoreLocked):
        migrate.upgrade(url)
    code = (
        "import sys; from facility.clock import SystemClock\n"
        "from facility.store import StoreLocked, open_store\n"
        "try: open_store(sys.argv[1], SystemClock(), inline=True)\n"
        "except StoreLocked as error: print(error); sys.exit(3)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, url], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 3, done.stderr
    assert "pid" in done.stdout
    first.close()
    open_store(url, SteppedClock(), inline=True).close()


def test_a_schema_newer_than_known_is_refused(url: str) -> None:
    open_store(url, SteppedClock(), inline=True).close()
    engine = writing_engine(url)
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))
    engine.dispose()
    for work in (
        lambda: open_store(url, SteppedClock(), inline=True),
        lambda: migrate.upgrade(url),
        lambda: migrate.check(url),
    ):
        with pytest.raises(SchemaMismatch, match=r"9999, newer than this program's"):
            work()


def test_upgrade_check_downgrade_upgrade_leaves_no_drift(url: str) -> None:
    assert migrate.check(url) != []
    assert migrate.upgrade(url) == migrate.head()
    assert migrate.check(url) == []
    engine = writing_engine(url)
    with engine.begin() as connection:
        migrate.downgrade_on(connection)
        assert set(sa.inspect(connection).get_table_names()) <= {"alembic_version"}
    engine.dispose()
    assert migrate.upgrade(url) == migrate.head()
    assert migrate.check(url) == []
    open_store(url, SteppedClock(), inline=True).close()


def test_drift_is_seen(url: str) -> None:
    migrate.upgrade(url)
    engine = writing_engine(url)
    with engine.begin() as connection:
        connection.execute(sa.text("ALTER TABLE audit ADD COLUMN mood TEXT"))
    engine.dispose()
    assert any("mood" in line for line in migrate.check(url))


def test_a_database_that_cannot_be_reached_says_so_without_the_password() -> None:
    url = "postgresql://keeper:hunter2@127.0.0.1:1/none"
    with pytest.raises(StoreUnavailable) as caught:
        open_store(url, SteppedClock(), inline=True)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("url", ["", "mysql://host/x", "not a url"])
def test_a_url_that_cannot_be_used_is_refused(url: str) -> None:
    with pytest.raises(StoreError):
        open_store(url, SteppedClock(), inline=True)


def test_memory_needs_inline() -> None:
    with pytest.raises(StoreError, match="inline"):
        open_store("sqlite://", SystemClock())
    store = open_store("sqlite://", SteppedClock(), inline=True)
    store.put(scan(layout(), [1.0, 2.0, 3.0, 4.0]))
    assert store.latest([layout().points[2].id]).result()[0].value == 3.0
    store.close()
