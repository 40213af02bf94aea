"""What people did and set."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from facility.commands import Mode, Override
from facility.points import PointId
from facility.store import Store, UnknownRecord
from facility.store.engine import writing_engine
from tests.facility.store.plant import START_MS, SteppedClock

CAP = PointId("n01", "total", "power_cap")


def test_audit_is_kept_in_order_and_paged(store: Store) -> None:
    for n in range(5):
        store.audit("ada", "mode.set", f"rack:r0{n}", {"n": n}).result()
    page = store.audit_log(2).result()
    assert [e.detail["n"] for e in page] == [4, 3]
    assert [e.detail["n"] for e in store.audit_log(2, page[-1].id).result()] == [2, 1]
    assert (page[0].actor, page[0].action, page[0].at_ms) == ("ada", "mode.set", START_MS)


@pytest.mark.parametrize("statement", ["UPDATE audit SET actor = 'eve'", "DELETE FROM audit"])
def test_audit_lines_can_be_neither_changed_nor_deleted(
    store: Store, url: str, statement: str
) -> None:
    store.audit("ada", "mode.set", "hall").result()
    engine = writing_engine(url)
    with pytest.raises(sa.exc.DBAPIError, match="append-only"), engine.begin() as connection:
        connection.execute(sa.text(statement))
    engine.dispose()
    assert [e.actor for e in store.audit_log().result()] == ["ada"]


def test_overrides_end_by_expiry_or_by_hand(store: Store, clock: SteppedClock) -> None:
    first = Override("o1", CAP, 300.0, "ada", "tests", START_MS, START_MS + 60_000)
    second = Override("o2", CAP, 350.0, "bob", "more", START_MS + 1, START_MS + 600_000)
    store.add_override(first).result()
    store.add_override(second).result()
    assert [o.override for o in store.overrides().result()] == [second, first]
    clock.step(60)
    assert [o.override for o in store.overrides().result()] == [second]
    store.end_override("o2", "ada").result()
    store.end_override("o2", "eve").result()
    assert store.overrides().result() == []
    ended = store.overrides(active=False).result()[0]
    assert (ended.ended_by, ended.ended_ms) == ("ada", START_MS + 60_000)
    with pytest.raises(UnknownRecord, match="o3"):
        store.end_override("o3", "ada").result()


def test_the_last_mode_of_a_scope_counts(store: Store) -> None:
    store.set_mode("hall", Mode.OBSERVE, "ada", "new").result()
    store.set_mode("hall", Mode.AUTO, "bob", "trusted").result()
    store.set_mode("rack:r01", Mode.OBSERVE, "ada", "new").result()
    store.set_mode("rack:r01", Mode.OFF, "ada", "works").result()
    assert [(m.scope, m.mode, m.by) for m in store.modes().result()] == [
        ("hall", Mode.AUTO, "bob"),
        ("rack:r01", Mode.OFF, "ada"),
    ]


def test_after_a_release_of_the_hall_no_restart_finds_a_rack_in_auto(store: Store) -> None:
    store.set_mode("rack:r01", Mode.AUTO, "ada", "trial").result()
    store.set_mode("loop:loop-1", Mode.AUTO, "ada", "trial").result()
    store.set_mode("hall", Mode.OFF, "bob", "released").result()
    assert [(m.scope, m.mode) for m in store.modes().result()] == [("hall", Mode.OFF)]


def test_a_rack_that_is_off_for_work_stays_off_when_the_hall_goes_to_auto(store: Store) -> None:
    store.set_mode("rack:r01", Mode.OFF, "ada", "work").result()
    store.set_mode("rack:r02", Mode.AUTO, "ada", "trial").result()
    store.set_mode("hall", Mode.AUTO, "bob", "trusted").result()
    assert [(m.scope, m.mode) for m in store.modes().result()] == [
        ("hall", Mode.AUTO),
        ("rack:r01", Mode.OFF),
    ]


def test_keys_are_kept_as_hashes_and_can_be_revoked(store: Store) -> None:
    number = store.add_api_key("demo", "viewer", "$argon2id$…").result()
    key = store.api_keys().result()[0]
    assert (key.id, key.name, key.role, key.hash) == (number, "demo", "viewer", "$argon2id$…")
    assert key.revoked_ms is None
    store.revoke_api_key(number).result()
    assert store.api_keys().result()[0].revoked_ms == START_MS


def test_facts_about_the_site_are_replaced(store: Store) -> None:
    assert store.meta("config_sha256").result() is None
    store.set_meta("config_sha256", "aa").result()
    store.set_meta("config_sha256", "bb").result()
    assert store.meta("config_sha256").result() == "bb"
