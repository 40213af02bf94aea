"""Copies of a store, and the command that makes them."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from api.commands import db
from api.service.upkeep import KEY_META
from facility.clock import SystemClock
from facility.commands import Mode
from facility.loading import load_text
from facility.store import Store, StoreCorrupt, StoreError, StoreLocked, check, open_store
from facility.store.backup import backup, making, restore
from facility.store.rows.meta import SECRET_KEYS
from facility.store.rows.tables import metadata
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


def test_pages_of_two_thousand_rows_of_any_size_were_in_memory_at_once(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(100):
        store.put(scan(PDU, [float(n)] * len(PDU), at_ms=START_MS + 1000 * n))
    store.flush().result()
    asked: list[int] = []
    of = sa.Select.limit

    def limit(self: sa.Select[Any], size: int) -> sa.Select[Any]:
        asked.append(size)
        return of(self, size)

    monkeypatch.setattr(sa.Select, "limit", limit)
    monkeypatch.setattr(making, "_PAGE_BYTES", 1_000)
    table = metadata.tables["scan"]
    with store._engine.connect() as connection:
        lines = list(making._lines(connection, table))
        assert len(set(lines)) == 100
        few = max(map(len, lines))
        assert asked[0] == 16
        assert all(1 <= size <= 1_000 // few + 1 for size in asked[1:])
        asked.clear()
        monkeypatch.setattr(making, "_PAGE_BYTES", 1 << 20)
        assert list(making._lines(connection, table)) == lines
        assert asked == [16, 128]


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


def test_a_store_without_any_mode_came_up_in_auto_where_the_file_said_so(
    url: str, tmp_path: Path
) -> None:
    store = open_store(url, SteppedClock(), inline=True)
    store.set_mode("loop:l1", Mode.AUTO, "ada", "trusted").result()
    store.close()
    backup(url, tmp_path / "copy.zip")
    target = f"sqlite:///{tmp_path / 'restored.db'}"
    restore(target, tmp_path / "copy.zip")
    restored = open_store(target, SteppedClock(), inline=True)
    found = {m.scope: m.mode for m in restored.modes().result()}
    assert found == {"hall": Mode.OBSERVE, "loop:l1": Mode.OBSERVE}
    restored.close()


def test_a_backup_holds_the_file_its_curves_and_where_secrets_are_but_no_secret(
    url: str, tmp_path: Path, root: Path
) -> None:
    text = (root / "docs" / "examples" / "row.yaml").read_text("utf-8")
    facility = load_text(text).facility
    store = open_store(url, SteppedClock(), inline=True, hall="Row/1")
    store.keep_facility_file("old").result()
    store.keep_facility_file(text).result()
    store.set_meta("statement_key", "c2VjcmV0LXNlZWQ=").result()
    fill(store)
    file = tmp_path / "copy.zip"
    backup(url, file)
    with zipfile.ZipFile(file) as archive:
        assert archive.read("Row_1/facility.yaml").decode() == text
        curves = json.loads(archive.read("Row_1/curves.json"))
        names = json.loads(archive.read("Row_1/secrets.json"))
        whole = b"".join(archive.read(name) for name in archive.namelist())
    assert curves.keys() == facility.nodes.keys()
    node = next(iter(facility.nodes))
    given = facility.nodes[node].curve
    assert curves[node]["curve"] == (None if given is None else given.model_dump())
    assert names.keys() >= {f"auth.{name}.secret" for name in facility.auth}
    assert b"c2VjcmV0LXNlZWQ=" not in whole
    target = f"sqlite:///{tmp_path / 'restored.db'}"
    restore(target, file)
    restored = open_store(target, SteppedClock(), inline=True, hall="Row/1")
    same(store, restored)
    store.close()
    assert restored.meta("statement_key").result() is None
    assert restored.meta("facility_file:Row/1").result() == text
    restored.close()


def test_what_the_service_keeps_secret_in_the_database_is_left_out() -> None:
    assert KEY_META in SECRET_KEYS


def test_a_sqlite_copy_does_not_hold_the_signing_key_either(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'hall.db'}"
    store = open_store(url, SteppedClock(), inline=True)
    store.set_meta("statement_key", "c2VjcmV0LXNlZWQ=").result()
    backup(url, tmp_path / "copy.db")
    assert b"c2VjcmV0LXNlZWQ=" not in (tmp_path / "copy.db").read_bytes()
    assert [f.name for f in tmp_path.glob("copy*")] == ["copy.db"]
    assert store.meta("statement_key").result() is not None
    store.close()


def test_an_existing_database_gives_way_only_when_asked_and_comes_back_if_it_fails(
    url: str, tmp_path: Path
) -> None:
    file = tmp_path / "copy.zip"
    store = open_store(url, SteppedClock(), inline=True)
    fill(store)
    store.flush().result()
    store.close()
    backup(url, file)
    store = open_store(url, SteppedClock(), inline=True)
    store.audit("bob", "later", "than the copy").result()
    store.close()
    with pytest.raises(StoreError, match=r"exists already|not empty"):
        restore(url, file)
    bad = tmp_path / "bad.zip"
    tampered(file, bad, "audit", lambda line: line.replace(b'"ada"', b'"eve"'), rehash=False)
    with pytest.raises(StoreCorrupt, match="audit was changed"):
        restore(url, bad, overwrite=True)
    bad.unlink()
    tampered(file, bad, "audit", lambda line: line.replace(b'"ada"', b'"eve"'), rehash=True)
    with pytest.raises(StoreCorrupt, match="tampered with: audit line 1"):
        restore(url, bad, overwrite=True)
    store = open_store(url, SteppedClock(), inline=True)
    assert [e.actor for e in store.audit_log().result()] == ["bob", "ada"], "it is as it was"
    store.close()
    restore(url, file, overwrite=True)
    assert check(url) == []
    store = open_store(url, SteppedClock(), inline=True)
    assert [e.actor for e in store.audit_log().result()] == ["ada"]
    store.close()
    if url.startswith("sqlite"):
        aside = tmp_path / "hall.db.before-restore"
        assert check(f"sqlite:///{aside}") == []
        with pytest.raises(StoreError, match="still there"):
            restore(url, file, overwrite=True)


def test_a_database_in_use_is_never_overwritten(url: str, tmp_path: Path) -> None:
    now = SteppedClock(SystemClock().utc_ms())
    store = open_store(url, now, inline=True)
    store.acquire_lease("north", "host:1", 60.0).result()
    backup(url, tmp_path / "copy.zip")
    with pytest.raises(StoreLocked, match=r"host:1 controls north|another process"):
        restore(url, tmp_path / "copy.zip", overwrite=True)
    store.close()


def tampered(
    file: Path, to: Path, table: str, change: Callable[[bytes], bytes], *, rehash: bool
) -> None:
    with zipfile.ZipFile(file) as old, zipfile.ZipFile(to, "w") as new:
        manifest = json.loads(old.read("manifest.json"))
        for name in old.namelist():
            data = old.read(name)
            if name == f"{table}.jsonl":
                data = change(data)
                if rehash:
                    manifest["sha256"][table] = hashlib.sha256(data).hexdigest()
            if name != "manifest.json":
                new.writestr(name, data)
        new.writestr("manifest.json", json.dumps(manifest))


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
