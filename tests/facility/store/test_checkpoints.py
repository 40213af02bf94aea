"""SQLite's log goes back into the file beside the writer, not inside somebody's commit."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from facility.clock import SystemClock
from facility.store import Store, open_store
from facility.store.threads import checkpoints
from facility.store.threads.checkpoints import waiting_pages


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "hall.db"


def write(store: Store, times: int) -> None:
    for i in range(times):
        store.set_meta(f"key-{i}", "x" * 3000).result(timeout=10)


def test_pages_that_wait_are_counted_as_sqlite_counts_them(file: Path) -> None:
    assert waiting_pages(file) == 0
    with closing(sqlite3.connect(file)) as writer, closing(sqlite3.connect(file)) as reader:
        writer.execute("PRAGMA journal_mode=WAL")
        writer.execute("PRAGMA wal_autocheckpoint=0")
        writer.execute("CREATE TABLE t (body BLOB)")
        writer.commit()
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM t").fetchone()
        writer.execute("INSERT INTO t VALUES (zeroblob(100000))")
        writer.commit()
        busy, logged, back = writer.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        assert (busy, waiting_pages(file)) == (0, logged - back)
        assert logged - back > 20  # what the reader may still want stays in the log
        reader.rollback()
        writer.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        assert waiting_pages(file) == 0
    assert waiting_pages(file) == 0


def test_a_commit_waited_until_the_whole_log_was_back_in_the_file(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoints, "PAGES", 50)
    store = open_store(f"sqlite:///{file}", SystemClock())
    with store._engine.begin() as connection:
        asked = connection.exec_driver_sql("PRAGMA wal_autocheckpoint").scalar_one()
    assert asked == checkpoints.WRITERS_PAGES
    write(store, 60)
    until_s = time.monotonic() + 10
    while waiting_pages(file) >= 50 and time.monotonic() < until_s:
        time.sleep(0.01)
    assert waiting_pages(file) < 50
    assert file.stat().st_size > 60 * 3000
    store.close()
    assert not file.with_name("hall.db-wal").exists()


def test_a_thread_that_cannot_write_the_log_back_ends_nothing(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoints, "PAGES", 1)
    store = open_store(f"sqlite:///{file}", SystemClock())
    aside = file.with_name("aside.db")
    monkeypatch.setattr(store._checkpoints, "_file", aside)
    aside.with_name("aside.db-shm").write_bytes(b"\xff" * 50 + b"\x00" * 86)
    write(store, 5)
    monkeypatch.setattr(store._checkpoints, "_file", file)
    write(store, 5)
    until_s = time.monotonic() + 10
    while waiting_pages(file) and time.monotonic() < until_s:
        time.sleep(0.01)
    assert waiting_pages(file) == 0
    store.close()


#: What another program does first: the last byte of SQLite's locks on the index (DMS) tells it
#: whether anybody has the database open.
ABANDONED = """
import fcntl, os, sys
fd = os.open(sys.argv[1], os.O_RDWR)
try:
    fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 128)
except OSError:
    sys.exit(0)
sys.exit(1)
"""


def test_a_backup_of_a_running_service_cut_the_logs_index_off_and_killed_it(file: Path) -> None:
    store = open_store(f"sqlite:///{file}", SystemClock())
    write(store, 5)
    assert waiting_pages(file) > 0
    index = file.with_name("hall.db-shm")
    looked = subprocess.run([sys.executable, "-c", ABANDONED, str(index)], check=False)
    assert looked.returncode == 0
    store.close()
    assert waiting_pages(file) == 0
