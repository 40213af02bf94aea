"""What happens to a hall's memory when its disk, its database or its clock misbehaves."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa
from sqlalchemy.engine import make_url

from facility.clock import SystemClock
from facility.store import Store, StoreError, StoreUnavailable, check, engine, open_store
from facility.store.past.question import Question
from facility.store.remote import Naming, RemoteSink, Spool
from facility.store.rows import alarms as alarm_rows
from tests.conftest import ROOT
from tests.facility.store.plant import (
    START_MS,
    SteppedClock,
    ack,
    alarm,
    command,
    decision,
    layout,
    scan,
)
from tests.facility.store.test_writing import away

PDU = layout(points=50)
POINT = PDU.points[7].id
DAY_S = 86_400


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite gives up at once where another holds the file; each try would take 2 s."""
    monkeypatch.setattr(engine, "_BUSY_MS", 50)


def put(store: Store, second: int, at_ms: int | None = None) -> None:
    values = np.random.default_rng(second).normal(400.0, 30.0, 50)
    values[7] = second
    store.put(scan(PDU, values, at_ms=START_MS + 1000 * second if at_ms is None else at_ms))


def seconds(store: Store, to_ms: int = START_MS + 10_000_000) -> list[int]:
    asked = Question((POINT,), START_MS - DAY_S * 3000, to_ms, resolution="raw")
    return [int(v) for v in store.past(asked).result(30).series[0].mean]


@contextlib.contextmanager
def mounted(*words: str) -> Iterator[None]:
    """A mount for as long as the test needs it."""
    done = subprocess.run(["mount", *words], capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"nothing can be mounted here: {done.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", words[-1]], check=True)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    with mounted("-t", "tmpfs", "-o", "size=6m", "tmpfs", str(folder)):
        yield folder


@pytest.mark.system
def test_a_full_disk_is_an_outage_that_ends_when_there_is_room(
    small_disk: Path, tmp_path: Path, clock: SteppedClock
) -> None:
    url = f"sqlite:///{small_disk / 'hall.db'}"
    store = open_store(url, clock, inline=True, spill=tmp_path / "spill")
    put(store, 0)
    store.journal_intent(decision(1, command(sequence=1))).result()
    filler = small_disk / "filler"
    with contextlib.suppress(OSError), filler.open("wb", buffering=0) as stream:
        while True:
            stream.write(b"x" * 4096)
    second = 0
    while store.stats().available:
        second += 1
        clock.step(1)
        put(store, second)
        assert second < 20_000, "the disk never got full"
    assert "full" in (store.stats().error or "")
    with pytest.raises(StoreUnavailable) as caught:
        store.journal_intent(decision(2, command(sequence=2))).result()
    assert caught.value.spilled
    for _ in range(20):
        second += 1
        clock.step(1)
        put(store, second)
    assert store.stats().queued_scans >= 20
    with contextlib.closing(sqlite3.connect(small_disk / "hall.db")) as plain:
        assert plain.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    filler.unlink()
    clock.step(10)
    store.flush().result()
    assert store.stats().available
    assert store.stats().dropped_scans == 0
    assert seconds(store) == list(range(second + 1))
    assert [r.decision.cycle for r in store.decisions().result()] == [2, 1]
    store.close()
    assert check(url) == []


@pytest.mark.system
@pytest.mark.usefixtures("impatient")
def test_a_full_disk_under_spill_and_spool_is_told_and_costs_only_what_the_bound_costs(
    small_disk: Path, tmp_path: Path, clock: SteppedClock
) -> None:
    spool = Spool(small_disk / "spool", 1 << 30)
    sink = RemoteSink(spool, Naming(), max_samples=50 * 100)
    url = f"sqlite:///{tmp_path / 'hall.db'}"
    store = open_store(url, clock, inline=True, spill=small_disk / "spill")
    filler = small_disk / "filler"
    with contextlib.suppress(OSError), filler.open("wb", buffering=0) as stream:
        while True:
            stream.write(b"x" * 4096)
    sink.put(scan(PDU, [1.0] * 50))
    assert sink.pack() is False
    assert "No space left" in (sink.error or "")
    with away(url, store), pytest.raises(StoreUnavailable) as caught:
        store.journal_intent(decision(1, command())).result()
    assert not caught.value.spilled, "who told must know that it stands nowhere"
    filler.unlink()
    assert sink.pack() is True
    record = spool.first()
    assert record is not None
    assert record.samples == 50
    clock.step(10)
    store.journal_intent(decision(2, command(sequence=2))).result()
    assert [r.decision.cycle for r in store.decisions().result()] == [2]
    store.close()
    sink.close()


def test_ten_minutes_without_the_database_lose_nothing(
    url: str, tmp_path: Path, clock: SteppedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    if url.startswith("sqlite"):
        monkeypatch.setattr(engine, "_BUSY_MS", 2)
    store = open_store(url, clock, inline=True, spill=tmp_path / "spill")
    sent = []
    with away(url, store):
        for second in range(600):
            put(store, second)
            clock.step(1)
            if second % 20 == 0:
                sent.append(command(sequence=second + 1))
                for write in (
                    store.journal_intent(decision(second + 1, sent[-1])),
                    store.journal_acks([ack(sent[-1])]),
                    store.record_alarms([alarm(f"odd:{second}")], ["pager"]),
                    store.audit("ada", "look", f"s{second}"),
                ):
                    with pytest.raises(StoreUnavailable) as caught:
                        write.result()
                    assert caught.value.spilled
        assert store.stats().queued_scans == 600
    clock.step(10)
    store.ping().result()
    cycles = [r.decision.cycle for r in store.decisions(1000).result()]
    assert sorted(cycles) == [s + 1 for s in range(0, 600, 20)]
    assert store.pending_intents().result() == []
    assert len(store.deliveries(1000).result()) == 30
    assert [e.subject for e in store.audit_log(1000).result()][::-1] == [
        f"s{s}" for s in range(0, 600, 20)
    ]
    assert not (tmp_path / "spill").exists()
    assert seconds(store) == list(range(600))
    assert store.stats().dropped_scans == 0
    store.close()
    assert check(url) == []


def test_a_read_only_postgresql_is_an_outage(
    postgres: str, tmp_path: Path, clock: SteppedClock
) -> None:
    store = open_store(postgres, clock, inline=True, spill=tmp_path / "spill")
    put(store, 0)
    admin = sa.create_engine(
        make_url(postgres).set(drivername="postgresql+psycopg"), isolation_level="AUTOCOMMIT"
    )
    name = make_url(postgres).database

    def read_only(word: str) -> None:
        with admin.connect() as connection:
            connection.exec_driver_sql("SET default_transaction_read_only = off")
            connection.exec_driver_sql(
                f"ALTER DATABASE {name} SET default_transaction_read_only = {word}"
            )
        store._engine.dispose()

    read_only("on")
    try:
        with pytest.raises(StoreUnavailable, match="read-only") as caught:
            store.journal_intent(decision(1, command())).result()
        assert caught.value.spilled
        put(store, 1)
        assert store.stats().queued_scans == 2
    finally:
        read_only("off")
    clock.step(10)
    assert seconds(store) == [0, 1]
    assert [r.decision.cycle for r in store.decisions().result()] == [1]
    store.close()
    admin.dispose()


@pytest.mark.system
def test_a_sqlite_file_on_a_read_only_disk_is_refused_in_words(
    tmp_path: Path, clock: SteppedClock
) -> None:
    there, here = tmp_path / "there", tmp_path / "here"
    there.mkdir()
    here.mkdir()
    open_store(f"sqlite:///{there / 'hall.db'}", clock, inline=True).close()
    with mounted("--bind", str(there), str(here)):
        subprocess.run(["mount", "-o", "remount,ro,bind", str(here)], check=True)
        with pytest.raises(StoreError, match="Read-only file system"):
            open_store(f"sqlite:///{here / 'hall.db'}", clock, inline=True)
        with pytest.raises(StoreError, match="Read-only file system"):
            Spool(here / "spool", 1 << 20)
    assert check(f"sqlite:///{there / 'hall.db'}") == []


@pytest.mark.slow
def test_two_seconds_a_query_delay_nobody_who_only_tells(url: str, tmp_path: Path) -> None:
    clock = SystemClock()
    store = open_store(url, clock, spill=tmp_path / "spill")
    put(store, 0)
    store.flush().result(10)

    @sa.event.listens_for(store._engine, "before_cursor_execute")
    def slow(_c: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if statement.startswith(("INSERT INTO decision", "INSERT INTO scan", "COPY")):
            threading.Event().wait(2.0)

    journalled = store.journal_intent(decision(1, command()))
    began_s = clock.monotonic_s()
    for second in range(1, 1000):
        put(store, second)
    told_s = clock.monotonic_s() - began_s
    assert not journalled.done(), "a promise is kept before it counts"
    assert seconds(store)[0] == 0, "readers do not wait behind the writer"
    journalled.result(20)
    store.flush().result(30)
    assert told_s < 1.0
    assert seconds(store) == list(range(1000))
    assert store.stats().dropped_scans == 0
    store.close()


def test_a_clock_a_day_ahead_and_back_stalls_and_loses_nothing(url: str, tmp_path: Path) -> None:
    clock = TwoClocks()
    store = open_store(url, clock, inline=True, spill=tmp_path / "spill")

    def minute(first: int) -> None:
        for second in range(first, first + 60):
            put(store, second, at_ms=clock.utc_ms())
            clock.pass_(1)

    minute(0)
    clock.wall_ms += DAY_S * 1000
    minute(60)
    assert store.compact(settle_ms=0).result().hours >= 1
    clock.wall_ms -= DAY_S * 1000
    minute(120)
    assert store.stats().queued_scans < 2, "what is due is written, whatever the wall clock says"
    clock.pass_(2 * 3600)
    store.compact(settle_ms=0).result()
    clock.wall_ms -= DAY_S * 1000
    minute(180)
    assert store.stats().queued_scans < 2
    found = seconds(store, START_MS + 3 * DAY_S * 1000)
    assert sorted(found) == list(range(240))
    assert store.counts().result().scans == 240
    store.close()
    assert check(url) == []


def test_a_lease_made_by_a_clock_a_day_ahead_barred_the_hall_for_a_day(store: Store) -> None:
    store._clock.step(DAY_S)  # type: ignore[attr-defined]
    assert store.acquire_lease("hall", "host:1", 15.0).result() == 1
    store._clock.step(-DAY_S)  # type: ignore[attr-defined]
    assert store.acquire_lease("hall", "host:2", 15.0).result() == 2
    assert store.renew_lease("hall", "host:1", 1, 15.0).result() is False
    assert store.acquire_lease("hall", "host:3", 15.0).result() is None, "a true one bars"
    store._clock.step(-1800)  # type: ignore[attr-defined]
    assert store.acquire_lease("hall", "host:3", 15.0).result() is None, "half an hour is skew"


def test_a_page_waited_a_day_when_the_clock_was_set_back(store: Store) -> None:
    now_ms = START_MS + DAY_S * 1000
    store.record_alarms([alarm(at_ms=now_ms)], ["pager"]).result()
    (claimed,) = store.claim_deliveries(5, now_ms).result()
    store.finish_delivery(claimed.id, False, 500, "x", now_ms + 4_300_000).result()
    assert store.claim_deliveries(5, now_ms).result() == [], "an hour and jitter is a true wait"
    assert len(store.claim_deliveries(5, START_MS).result()) == 1
    assert alarm_rows.STRANGE_MS > 4_320_000, "the longest wait of api.webhooks with its jitter"


class TwoClocks:
    """A wall clock that people set, and one that only goes on."""

    def __init__(self) -> None:
        self.wall_ms = START_MS
        self.mono_s = 0.0

    def utc_ms(self) -> int:
        return self.wall_ms

    def monotonic_s(self) -> float:
        return self.mono_s

    def pass_(self, seconds: float) -> None:
        self.wall_ms += round(seconds * 1000)
        self.mono_s += seconds


@pytest.mark.system
def test_a_second_serve_on_one_sqlite_file_refuses(tmp_path: Path) -> None:
    text = (ROOT / "facility" / "demo.yaml").read_text("utf-8")
    assert "\nstore:" not in text
    file = tmp_path / "hall.yaml"
    file.write_text(f"{text}\nstore:\n  url: sqlite:///{tmp_path / 'hall.db'}\n")
    first = open_store(f"sqlite:///{tmp_path / 'hall.db'}", SystemClock())
    try:
        done = subprocess.run(
            [
                *(sys.executable, "-c", "from api.cli import main; main()", "serve"),
                *("--config", str(file), "--port", "0", "--state", str(tmp_path / "state")),
            ],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=60,
        )
    finally:
        first.close()
    assert done.returncode == 1, done.stderr
    assert f"is written by another process (pid {os.getpid()})" in done.stderr
