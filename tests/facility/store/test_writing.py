"""The writer's thread, its bound, and what happens while the database is away."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import make_url

from facility.clock import SystemClock
from facility.commands import Mode
from facility.points import Scan
from facility.store import Store, StoreClosed, StoreUnavailable, engine, migrate, open_store
from facility.store.records import CycleRecord
from facility.store.rows import scans as scan_rows
from facility.store.spill import Spill
from facility.store.threads.inbox import (
    FEWEST_AT_ONCE,
    LONG_S,
    MOST_AT_ONCE,
    Inbox,
    Job,
    Portion,
    Urgency,
)
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

PDU = layout()


@contextmanager
def away(url: str, store: Store) -> Iterator[None]:
    """The database refuses every transaction meanwhile, as a real one would."""
    parsed = make_url(url)
    if parsed.get_backend_name() == "sqlite":
        with closing(sqlite3.connect(str(parsed.database), isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            yield
            other.execute("ROLLBACK")
        return
    admin = sa.create_engine(
        parsed.set(drivername="postgresql+psycopg", database="postgres"),
        isolation_level="AUTOCOMMIT",
    )
    name = parsed.database
    with admin.connect() as connection:
        connection.exec_driver_sql(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
        connection.execute(
            sa.text("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = :n"),
            {"n": name},
        )
        yield
        connection.exec_driver_sql(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
    admin.dispose()


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "_BUSY_MS", 50)


def at(second: float, value: float = 1.0) -> Scan:
    return scan(PDU, [value] * 4, at_ms=START_MS + round(second * 1000))


def test_lost_database_fails_journal_fast_keeps_it_in_the_spill_and_recovers_by_itself(
    url: str, store: Store, clock: SteppedClock
) -> None:
    store.put(at(0))
    store.flush().result()
    first = command()
    with away(url, store):
        store.put(at(1))
        with pytest.raises(StoreUnavailable) as caught:
            store.journal_intent(decision(1, first)).result()
        assert caught.value.spilled
        for write in (
            store.journal_acks([ack(first)]),
            store.record_alarms([alarm()], ["pager"]),
            store.journal_cycle(CycleRecord(1, 1, START_MS, 10, {"x": 1})),
            store.audit("ada", "release", "hall"),
        ):
            with pytest.raises(StoreUnavailable):
                write.result()
        with pytest.raises(StoreUnavailable) as caught:
            store.acquire_lease("hall", "me", 5.0).result()
        assert not caught.value.spilled
        stats = store.stats()
        assert not stats.available
        assert stats.error
        assert (stats.queued_scans, stats.spilled) == (1, 5)
    clock.step(6)
    store.put(at(2))
    assert store.stats().available
    assert store.stats().spilled == 0
    assert store.stats().queued_scans == 0
    record = store.decisions().result()[0]
    assert record.decision == decision(1, first)
    assert record.commands[0].outcome is not None
    assert [d.sink for d in store.deliveries().result()] == ["pager"]
    assert [e.action for e in store.audit_log().result()] == ["release"]
    assert len(store.cycles(0, START_MS + 1).result()) == 1
    assert store.counts().result().scans == 3


def test_while_away_the_oldest_scans_are_dropped_counted_and_noted(
    url: str, clock: SteppedClock, tmp_path: Path
) -> None:
    store = open_store(url, clock, inline=True, spill=tmp_path / "spill", max_queued_samples=40)
    with away(url, store):
        for second in range(25):
            store.put(at(second, float(second)))
        assert store.stats().queued_samples == 40
        assert store.stats().dropped_scans == 15
        assert store.stats().dropped_samples == 60
    clock.step(10)
    got = store.history(PDU.points[0].id, START_MS, START_MS + 60_000).result()
    assert got.mean.tolist() == [float(n) for n in range(15, 25)]
    ledger = store.dropped().result()
    assert [(d.scans, d.samples, d.reason) for d in ledger] == [(15, 60, "queue full")]
    assert (ledger[0].from_ms, ledger[0].to_ms) == (START_MS, START_MS + 14_000)
    store.close()


def test_what_was_spilled_before_a_crash_is_replayed_at_the_next_start(
    url: str, clock: SteppedClock, tmp_path: Path
) -> None:
    spill = tmp_path / "hall.spill"
    store = open_store(url, clock, inline=True, spill=spill)
    with away(url, store), pytest.raises(StoreUnavailable):
        store.journal_intent(decision(1, command())).result()
    store._readers.close()
    store._engine.dispose()
    assert store._lock is None or store._lock.release() is None
    again = open_store(url, clock, inline=True, spill=spill)
    again.ping().result()
    assert [p.command for p in again.pending_intents().result()] == [command()]
    assert not spill.exists()
    again.close()


def test_a_release_with_the_database_down_was_forgotten_by_a_restart(
    url: str, clock: SteppedClock, tmp_path: Path
) -> None:
    spill = tmp_path / "hall.spill"
    store = open_store(url, clock, inline=True, spill=spill)
    store.set_mode("hall", Mode.AUTO, "ada", "trusted").result()
    store.set_mode("rack:r01", Mode.AUTO, "ada", "trusted").result()
    with away(url, store):
        with pytest.raises(StoreUnavailable) as caught:
            store.release("hall", "bob", "smoke").result()
        assert caught.value.spilled
        with pytest.raises(StoreUnavailable) as caught:
            store.set_mode("hall", Mode.AUTO, "eve", "again").result()
        assert not caught.value.spilled, "what was refused must not act later"
        store._readers.close()
        store._engine.dispose()
        assert store._lock is None or store._lock.release() is None
    again = open_store(url, clock, inline=True, spill=spill)
    again.ping().result()
    found = {m.scope: (m.mode, m.by, m.reason, m.since_ms) for m in again.modes().result()}
    assert found == {"hall": (Mode.OFF, "bob", "smoke", START_MS)}
    again.close()


def test_the_journal_tells_of_the_commands_that_were_really_sent(
    url: str, store: Store, clock: SteppedClock
) -> None:
    lower, upper = command("n01"), command("n02", sequence=2)
    with away(url, store):
        with pytest.raises(StoreUnavailable):
            store.journal_intent(decision(1, lower, upper)).result()
        store.spill_intent(decision(1, lower))
        with pytest.raises(StoreUnavailable):
            store.journal_intent(decision(2, command(sequence=3))).result()
    clock.step(6)
    store.ping().result()
    told = [[c.command for c in r.commands] for r in store.decisions().result()]
    assert told == [[command(sequence=3)], [lower]]


def test_without_a_spill_file_the_caller_hears_of_it(clock: SteppedClock) -> None:
    store = open_store("sqlite://", clock, inline=True)
    with pytest.raises(OSError, match="no spill file"):
        store.spill_intent(decision(1, command()))
    store.close()


def test_one_bad_job_does_not_take_its_neighbours_along(store: Store) -> None:
    ran: list[str] = []

    def bad(connection: sa.Connection) -> None:
        connection.execute(sa.text("INSERT INTO site_meta (key, value) VALUES ('a', 'b')"))
        raise RuntimeError("a bug")

    def good(connection: sa.Connection) -> None:
        connection.execute(sa.text("INSERT INTO site_meta (key, value) VALUES ('c', 'd')"))
        ran.append("good")

    jobs = [Job(Urgency.JOURNAL, bad), Job(Urgency.JOURNAL, good)]
    store._committer.run_jobs(jobs)
    with pytest.raises(RuntimeError, match="a bug"):
        jobs[0].future.result()
    assert jobs[1].future.result() is None
    assert store.meta("a").result() is None
    assert store.meta("c").result() == "d"
    assert store.stats().available


def test_journal_goes_before_alarms_and_both_are_refused_never_dropped_when_full() -> None:
    box = Inbox(max_samples=100, max_jobs=3)
    order: list[str] = []

    def named(name: str) -> Callable[[sa.Connection], None]:
        return lambda _: order.append(name)

    assert box.add_job(Job(Urgency.ALARMS, named("alarm")))
    assert box.add_job(Job(Urgency.JOURNAL, named("intent")))
    for second in range(50):
        box.add_scan(at(second), 0.0)
    assert box.add_job(Job(Urgency.JOURNAL, named("ack")))
    assert not box.add_job(Job(Urgency.JOURNAL, named("one too many")))
    assert (box.scans, box.dropped_scans) == (25, 25)
    with sa.create_engine("sqlite://").connect() as connection:
        for job in box.take_jobs():
            job.run(connection)
    assert order == ["intent", "ack", "alarm"]


def test_returned_scans_go_back_in_front_and_the_bound_still_bites() -> None:
    box = Inbox(max_samples=40, max_jobs=1)
    for second in range(8):
        box.add_scan(at(second), float(second))
    batch = box.take_scans(12)
    assert [s.source_ms for _, s in batch] == [START_MS, START_MS + 1000, START_MS + 2000]
    for second in range(8, 12):
        box.add_scan(at(second), float(second))
    box.return_scans(batch)
    assert box.samples == 40
    assert box.dropped_scans == 2
    assert box.oldest_s() == 2.0
    loss = box.take_loss()
    assert loss is not None
    assert loss.to_ms == START_MS + 1000
    assert box.take_loss() is None


def test_threads_write_what_many_put_and_nothing_is_lost(url: str, tmp_path: Path) -> None:
    store = open_store(url, SystemClock(), spill=tmp_path / "spill")
    layouts = [layout(f"pdu-{n}") for n in range(4)]

    def feed(n: int) -> None:
        for i in range(200):
            store.put(scan(layouts[n], [float(i)] * 4, at_ms=START_MS + i))
            if i % 50 == 0:
                made = decision(1000 * n + i + 1, command(f"n{n}", sequence=i + 1))
                store.journal_intent(made).result(10)

    threads = [threading.Thread(target=feed, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    store.flush().result(10)
    counts = store.counts().result(10)
    assert (counts.scans, counts.samples) == (800, 3200)
    assert counts.decisions == 16
    assert store.latest([layouts[2].points[0].id]).result(10)[0].value == 199.0
    store.close()


def test_a_threaded_store_recovers_by_itself_without_a_further_call(
    url: str, tmp_path: Path
) -> None:
    store = open_store(url, SystemClock(), spill=tmp_path / "spill")
    store.ping().result(10)
    with away(url, store):
        store.put(at(0))
        with pytest.raises(StoreUnavailable):
            store.flush().result(10)
        with pytest.raises(StoreUnavailable):
            store.journal_intent(decision(1, command())).result(10)
    wait = threading.Event()
    for _ in range(100):
        if store.stats().scans and not store.stats().spilled:
            break
        wait.wait(0.05)
    assert store.stats().available
    assert store.stats().spilled == 0
    assert store.stats().scans == 1
    assert len(store.pending_intents().result(10)) == 1
    store.close()


def test_an_outage_ends_and_the_spill_is_replayed_without_any_further_write(
    url: str, tmp_path: Path
) -> None:
    store = open_store(url, SystemClock(), spill=tmp_path / "spill")
    store.ping().result(10)
    with away(url, store), pytest.raises(StoreUnavailable):
        store.journal_intent(decision(1, command())).result(10)
    wait = threading.Event()
    for _ in range(200):
        if store.stats().available and not store.stats().spilled:
            break
        wait.wait(0.05)
    assert store.stats().available
    assert store.stats().spilled == 0
    assert len(store.pending_intents().result(10)) == 1
    store.close()


def test_what_cannot_be_replayed_does_not_block_the_rest(
    clock: SteppedClock, tmp_path: Path
) -> None:
    spill = Spill(tmp_path / "spill")
    spill.append("a kind of a later version", {"x": 1})
    spill.append("acks", {"no": "acks"})
    spill.append("audit", {"at_ms": 1, "actor": "a", "action": "b", "subject": "c", "detail": {}})
    url = f"sqlite:///{tmp_path / 'hall.db'}"
    store = open_store(url, clock, inline=True, spill=spill.path)
    store.ping().result()
    assert [e.actor for e in store.audit_log().result()] == ["a"]
    assert not spill.path.exists()
    assert len((tmp_path / "spill.refused").read_bytes().splitlines()) == 3
    store.close()


def test_closing_writes_what_waits_and_then_refuses(url: str, tmp_path: Path) -> None:
    store = open_store(url, SystemClock(), spill=tmp_path / "spill")
    for second in range(30):
        store.put(at(second))
    store.close()
    store.put(at(99))
    assert store.stats().dropped_scans == 1
    with pytest.raises(StoreClosed):
        store.ping().result(1)
    again = open_store(url, SteppedClock(), inline=True)
    assert again.counts().result().scans == 30
    again.close()


def test_a_writer_that_dies_of_a_bug_tells_everybody_who_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(f"sqlite:///{tmp_path / 'hall.db'}", SystemClock())
    monkeypatch.setattr(threading, "excepthook", lambda _: None)

    def bug(*_: object) -> None:
        raise AssertionError("a bug of ours")

    monkeypatch.setattr(store._committer, "write_scans", bug)
    store.put(at(0))
    with pytest.raises(StoreClosed, match="a bug of ours"):
        store.flush().result(10)
    with pytest.raises(StoreClosed):
        store.ping().result(10)
    store.close()


def test_a_copy_cut_off_in_the_middle_is_an_outage_and_loses_nothing(
    postgres: str, clock: SteppedClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(postgres, clock, inline=True)
    store.ping().result()
    real = scan_rows.write_scans

    def cut(connection: sa.Connection, scans: Any, ids: Any) -> None:
        monkeypatch.setattr(scan_rows, "write_scans", real)
        admin = sa.create_engine(make_url(postgres).set(drivername="postgresql+psycopg"))
        with admin.connect() as other:
            other.execute(
                sa.text(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                    "WHERE datname = current_database() AND pid <> pg_backend_pid()"
                )
            )
        admin.dispose()
        real(connection, scans, ids)

    monkeypatch.setattr(scan_rows, "write_scans", cut)
    for second in range(5):
        store.put(at(second))
    clock.step(0.6)
    store.put(at(5))
    assert not store.stats().available
    assert store.stats().queued_scans == 6
    clock.step(1)
    assert store.counts().result().scans == 6
    store.close()


def test_reading_connections_cannot_write(store: Store, url: str) -> None:
    reader = engine.reading_engine(url)
    with pytest.raises(sa.exc.DBAPIError, match=r"read-?only"), reader.begin() as connection:
        connection.execute(sa.text("DELETE FROM site_meta"))
    reader.dispose()


def test_a_database_file_taken_away_while_in_use_is_an_outage_and_not_a_silent_loss(
    tmp_path: Path, clock: SteppedClock
) -> None:
    file, elsewhere = tmp_path / "s.db", tmp_path / "elsewhere.db"
    url = f"sqlite:///{file}"
    migrate.upgrade(url)
    store = open_store(url, clock, hall="hall", spill=tmp_path / "spill.jsonl")
    try:
        store.put(at(0))
        store.flush().result()
        file.rename(elsewhere)
        with pytest.raises(StoreUnavailable) as caught:
            store.journal_intent(decision(1, command())).result()
        assert caught.value.spilled
        assert "put it back" in str(store.stats().error)
        assert not file.exists()
        elsewhere.rename(file)
        clock.step(6)
        store.put(at(1))
        store.flush().result()
        assert store.stats().available
        assert store.counts().result().decisions == 1
    finally:
        store.close()


def test_back_pressure_is_seen_before_anything_is_dropped(tmp_path: Path) -> None:
    clock = SteppedClock()
    store = open_store(
        f"sqlite:///{tmp_path / 'hall.db'}", clock, inline=True, max_queued_samples=40
    )
    assert (store.stats().waiting_s, store.stats().max_queued_samples) == (0.0, 40)
    store.put(at(0))
    clock.step(0.3)
    assert store.stats().waiting_s == pytest.approx(0.3)
    assert store.stats().queued_samples == 4
    store.flush().result()
    assert (store.stats().waiting_s, store.stats().queued_samples) == (0.0, 0)
    store.close()


def test_background_work_never_shares_a_transaction_and_comes_last() -> None:
    inbox = Inbox(10, 10)
    for name, urgency in (
        ("compaction 1", Urgency.BACKGROUND),
        ("compaction 2", Urgency.BACKGROUND),
        ("alarm", Urgency.ALARMS),
        ("intent", Urgency.JOURNAL),
    ):
        inbox.add_job(Job(urgency, lambda _, name=name: name))
    taken = []
    with sa.create_engine("sqlite://").connect() as connection:
        while inbox.has_jobs:
            taken.append([job.run(connection) for job in inbox.take_jobs()])
    assert taken == [["intent", "alarm"], ["compaction 1"], ["compaction 2"]]


def test_when_the_queue_is_full_old_scans_go_and_no_job_does() -> None:
    inbox = Inbox(40, 3)
    jobs = [Job(urgency, lambda _: None) for urgency in Urgency]
    assert all(inbox.add_job(job) for job in jobs)
    for second in range(30):
        inbox.add_scan(at(second), float(second))
    assert (inbox.scans, inbox.samples) == (10, 40)
    assert (inbox.dropped_scans, inbox.dropped_samples) == (20, 80)
    assert [scan.source_ms for _, scan in inbox.take_scans()] == [
        at(second).source_ms for second in range(20, 30)
    ]
    assert inbox.take_every_job() == jobs


def test_a_backlog_made_the_journal_wait_for_one_long_transaction_of_scans() -> None:
    portion = Portion()
    per_s, fixed_s = 200_000.0, 0.01
    for _ in range(10):
        portion.took(portion.samples, fixed_s + portion.samples / per_s)
    assert portion.samples == FEWEST_AT_ONCE
    per_s = 700_000.0
    for _ in range(10):
        portion.took(portion.samples, fixed_s + portion.samples / per_s)
    assert FEWEST_AT_ONCE < portion.samples < LONG_S * per_s
    portion.took(10, 0.001)  # says nothing of what more would take
    assert portion.samples < LONG_S * per_s
    for _ in range(10):
        portion.took(portion.samples, fixed_s + portion.samples / 9e6)
    assert portion.samples == MOST_AT_ONCE
    inbox = Inbox(8, 1)
    for second in range(2):
        assert not inbox.half_full
        inbox.add_scan(at(second), 0.0)
    inbox.take_scans(1)
    inbox.add_scan(at(3), 0.0)
    inbox.max_samples = 7
    assert inbox.half_full


def test_a_flush_of_much_let_jobs_wait_until_all_of_it_was_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(f"sqlite:///{tmp_path / 'hall.db'}", SystemClock())
    monkeypatch.setattr(store._writer._portion, "samples", 4)
    monkeypatch.setattr(store._writer._portion, "took", lambda samples, seconds: None)
    order: list[str] = []
    held = threading.Event()
    wrote = store._committer.write_scans

    def slowly(batch: Any, loss: Any) -> str | None:
        held.wait(5)
        order.append("scan")
        return wrote(batch, loss)

    monkeypatch.setattr(store._committer, "write_scans", slowly)
    for second in range(5):
        store.put(at(second))
    flushed = store.flush()
    told = store.set_meta("key", "value")
    told.add_done_callback(lambda _: order.append("job"))
    held.set()
    flushed.result(timeout=10)
    told.result(timeout=10)
    assert sorted(order) == ["job"] + ["scan"] * 5
    assert order.index("job") <= 1
    assert store.counts().result().scans == 5
    store.close()
