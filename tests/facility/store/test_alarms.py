"""Alarms, and the deliveries that leave in the same transaction."""

from __future__ import annotations

import pytest

from facility.commands import AlarmEvent
from facility.store import Store, UnknownRecord
from facility.store.rows.alarms import CLAIM_MS
from tests.facility.store.plant import START_MS, SteppedClock, alarm, later


def test_an_alarm_lives_through_raise_acknowledge_clear_and_raise_again(
    store: Store, clock: SteppedClock
) -> None:
    raised = alarm()
    store.record_alarms([raised], []).result()
    clock.step(5)
    store.acknowledge(raised.key, "ada", "on my way").result()
    held = store.alarms(active_only=True).result()[0]
    assert held.event == raised
    assert (held.acknowledged_by, held.note) == ("ada", "on my way")
    assert held.acknowledged_ms == START_MS + 5000
    cleared = later(raised, 60, active=False)
    store.record_alarms([cleared], []).result()
    assert store.alarms(active_only=True).result() == []
    held = store.alarms().result()[0]
    assert (held.cleared_ms, held.since_ms) == (cleared.at_ms, START_MS)
    assert held.acknowledged_by == "ada"
    again = later(raised, 120)
    store.record_alarms([again], []).result()
    held = store.alarms().result()[0]
    assert (held.since_ms, held.acknowledged_by, held.cleared_ms) == (again.at_ms, None, None)
    changes = store.alarm_changes(raised.key).result()
    assert [c.change for c in changes] == ["raised", "cleared", "acknowledged", "raised"]
    assert (changes[2].by, changes[2].note) == ("ada", "on my way")


def test_acknowledging_what_is_not_there_is_refused(store: Store) -> None:
    with pytest.raises(UnknownRecord, match="ghost"):
        store.acknowledge("ghost", "ada", "").result()


def test_an_event_told_twice_changes_and_queues_nothing_more(store: Store) -> None:
    for _ in range(2):
        store.record_alarms([alarm()], ["pager"]).result()
    assert len(store.alarm_changes().result()) == 1
    assert len(store.deliveries().result()) == 1


def test_alarms_and_deliveries_are_one_transaction(store: Store) -> None:
    def sinks(event: AlarmEvent) -> list[str]:
        return ["pager", "log"] if event.page else []

    broken = alarm("odd:x")
    object.__setattr__(broken, "numbers", {"odd": object()})
    with pytest.raises(TypeError):
        store.record_alarms([alarm(), broken], sinks).result()
    assert store.alarms().result() == []
    assert store.deliveries().result() == []
    store.record_alarms([alarm()], sinks).result()
    got = store.deliveries().result()
    assert sorted(d.sink for d in got) == ["log", "pager"]
    assert len({d.message for d in got}) == 1
    assert got[0].type == "alarm.raised"
    assert got[0].body["numbers"] == {"missing_w": 12000.0, "since_s": None}


def test_a_delivery_is_claimed_once_retried_when_due_and_ends(
    store: Store, clock: SteppedClock
) -> None:
    store.record_alarms([alarm()], ["pager"]).result()
    now = clock.utc_ms()
    first = store.claim_deliveries(10, now).result()[0]
    assert (first.attempts, first.status) == (1, "claimed")
    assert store.claim_deliveries(10, now).result() == []
    store.finish_delivery(first.id, False, 503, "unavailable", now + 5000).result()
    assert store.claim_deliveries(10, now + 4999).result() == []
    second = store.claim_deliveries(10, now + 5000).result()[0]
    assert (second.attempts, second.message, second.http_status) == (2, first.message, 503)
    store.finish_delivery(second.id, True, 204).result()
    assert store.claim_deliveries(10, now + 10 * CLAIM_MS).result() == []
    done = store.deliveries().result()[0]
    assert (done.status, done.http_status, done.next_try_ms) == ("delivered", 204, None)
    store.finish_delivery(second.id, False, None, "a late worker").result()
    assert store.deliveries().result()[0].status == "delivered"


def test_what_a_crashed_worker_held_is_delivered_again(store: Store, clock: SteppedClock) -> None:
    store.record_alarms([alarm()], ["pager"]).result()
    held = store.claim_deliveries(1, clock.utc_ms()).result()[0]
    assert store.claim_deliveries(1, clock.utc_ms() + CLAIM_MS - 1).result() == []
    again = store.claim_deliveries(1, clock.utc_ms() + CLAIM_MS).result()[0]
    assert (again.id, again.attempts) == (held.id, 2)


def test_a_delivery_without_a_next_try_has_failed_for_good(
    store: Store, clock: SteppedClock
) -> None:
    store.enqueue("test", {"hello": "world"}, ["pager"]).result()
    got = store.claim_deliveries(1, clock.utc_ms()).result()[0]
    assert (got.type, got.body) == ("test", {"hello": "world"})
    store.finish_delivery(got.id, False, 410, "gone").result()
    assert store.claim_deliveries(1, clock.utc_ms() + 10**9).result() == []
    assert store.counts().result().deliveries == {"failed": 1}


def test_counts_tell_raised_cleared_active_and_pages(store: Store) -> None:
    store.record_alarms([alarm(), alarm("b:x"), alarm("c:x")], []).result()
    store.record_alarms([later(alarm("b:x"), 1, active=False)], []).result()
    counts = store.counts().result()
    assert (counts.alarms_raised, counts.alarms_cleared, counts.alarms_active) == (3, 1, 2)
    assert counts.pages == 3
