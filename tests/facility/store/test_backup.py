"""Copies of a store, and the command that makes them."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from api.commands import db
from facility.commands import Mode
from facility.store import Store, StoreCorrupt, StoreError, open_store
from facility.store.backup import backup, restore
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


def fill(store: Store) -> None:
    for second in range(20):
        values = [231.4, float("nan"), 1.0, second]
        store.put(scan(PDU, values, [0, 6, 0, 0], at_ms=START_MS + 1000 * second))
    store.journal_intent(decision(1, command("n01"), command("n02", sequence=2))).result()
    store.journal_acks([ack(command("n01"))]).result()
    store.record_alarms([alarm()], ["pager"]).result()
    store.audit("ada", "mode.set", "hall", {"mode": "auto"}).result()
    store.set_mode("hall", Mode.AUTO, "ada", "trusted").result()
    store.set_mode("rack:r01", Mode.OFF, "ada", "works").result()
    store.acquire_lease("hall", "me", 5.0).result()
    store.add_api_key("demo", "viewer", "$argon2id$").result()
    store.flush().result()


def same(one: Store, other: Store) -> None:
    assert one.counts().result() == other.counts().result()
    assert one.decisions().result() == other.decisions().result()
    assert one.pending_intents().result() == other.pending_intents().result()
    assert one.alarms().result() == other.alarms().result()
    assert one.deliveries().result() == other.deliveries().result()
    assert one.audit_log().result() == other.audit_log().result()
    assert one.api_keys().result() == other.api_keys().result()
    point = PDU.points[3].id
    mine, theirs = (s.history(point, START_MS, START_MS + 60_000).result() for s in (one, other))
    assert mine.mean.tolist() == theirs.mean.tolist() == [float(n) for n in range(20)]
    assert [m.mode for m in other.modes().result()] == [Mode.OBSERVE, Mode.OFF]


def test_a_portable_copy_goes_into_either_database_and_comes_up_in_observe(
    store: Store, url: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    fill(store)
    file = tmp_path / "copy.zip"
    rows = backup(url, file)
    assert rows["scan"] == 20
    target = f"sqlite:///{tmp_path / 'restored.db'}"
    restore(target, file)
    restored = open_store(target, SteppedClock(), inline=True)
    same(store, restored)
    assert restored.acquire_lease("hall", "me", 5.0).result() == 2, "the epoch goes on rising"
    restored.put(scan(layout("new"), [1.0] * 4))
    assert restored.counts().result().scans == 21
    restored.close()
    with pytest.raises(StoreError, match="exists already"):
        restore(target, file)
    with pytest.raises(StoreError, match="exists already"):
        backup(url, file)


def test_a_portable_copy_fills_an_empty_postgresql_and_numbers_go_on(
    url: str, tmp_path: Path
) -> None:
    source = f"sqlite:///{tmp_path / 'source.db'}"
    store = open_store(source, SteppedClock(), inline=True)
    fill(store)
    file = tmp_path / "copy.zip"
    backup(source, file)
    restore(url, file)
    restored = open_store(url, SteppedClock(), inline=True)
    same(store, restored)
    restored.put(scan(layout("new"), [1.0] * 4))
    assert restored.counts().result().scans == 21
    restored.audit("bob", "x", "y").result()
    assert [e.actor for e in restored.audit_log().result()] == ["bob", "ada"]
    restored.close()
    store.close()
    with pytest.raises(StoreError, match=r"exists already|not empty"):
        restore(url, file)


def test_a_sqlite_copy_is_made_while_the_store_is_in_use(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'hall.db'}"
    store = open_store(url, SteppedClock(), inline=True)
    fill(store)
    file = tmp_path / "copy.db"
    assert backup(url, file)["pages"] > 10
    target = f"sqlite:///{tmp_path / 'restored.db'}"
    restore(target, file)
    restored = open_store(target, SteppedClock(), inline=True)
    same(store, restored)
    restored.close()
    store.close()


def test_a_damaged_copy_is_refused_and_leaves_nothing_behind(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'hall.db'}"
    store = open_store(url, SteppedClock(), inline=True)
    fill(store)
    store.close()
    file = tmp_path / "copy.zip"
    backup(url, file)
    target = tmp_path / "restored.db"
    cut = tmp_path / "cut.zip"
    cut.write_bytes(file.read_bytes()[:-200])
    short = tmp_path / "short.zip"
    with zipfile.ZipFile(file) as old, zipfile.ZipFile(short, "w") as new:
        for name in old.namelist():
            data = old.read(name)
            new.writestr(name, data.split(b"\n", 1)[1] if name == "scan.jsonl" else data)
    text = tmp_path / "text.zip"
    text.write_text("PK no zip")
    for bad in (cut, short, text):
        with pytest.raises(StoreCorrupt):
            restore(f"sqlite:///{target}", bad)
        assert not target.exists()
    with pytest.raises(StoreError, match="cannot be read"):
        restore(f"sqlite:///{target}", tmp_path / "absent.zip")


def test_the_command_answers_with_its_exit_code(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert db.check(url) == 1
    assert db.upgrade(url) == 0
    assert db.check(url) == 0
    file = str(tmp_path / "copy.zip")
    assert db.backup(url, file) == 0
    assert db.backup(url, file) == 1
    target = f"sqlite:///{tmp_path / 'restored.db'}"
    assert db.restore(target, file) == 0
    assert db.restore(target, file) == 1
    assert "exists already" in capsys.readouterr().err
    store = open_store(target, SteppedClock(), inline=True)
    assert db.upgrade(target) == 1
    assert "another process" in capsys.readouterr().err
    store.close()


def test_postgresql_is_copied_in_the_portable_form_only(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"\.zip"):
        backup("postgresql://127.0.0.1:1/x", tmp_path / "copy.db")
