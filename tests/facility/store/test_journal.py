"""Decisions, acks, cycles and the hall's lease."""

from __future__ import annotations

from dataclasses import replace

import pytest

from facility.commands import Outcome
from facility.store import LeaseLost, Store
from facility.store.records import CycleRecord
from tests.facility.store.plant import START_MS, SteppedClock, ack, command, decision


def test_a_decision_comes_back_equal(store: Store) -> None:
    made = decision(1, command("n01"), command("n02", sequence=2))
    store.journal_intent(made).result()
    record = store.decisions().result()[0]
    assert record.decision == made
    assert store.decision(record.id).result() == record
    assert store.decision(record.id + 1).result() is None


def test_intents_are_pending_until_their_ack_with_the_same_identity(store: Store) -> None:
    first, second = command("n01"), command("n02", sequence=2)
    store.journal_intent(decision(1, first, second)).result()
    assert [p.command for p in store.pending_intents().result()] == [first, second]
    store.journal_acks([ack(replace(first, epoch=2))]).result()
    assert len(store.pending_intents().result()) == 2
    store.journal_acks([ack(first, Outcome.CLAMPED)]).result()
    store.journal_acks([ack(first, Outcome.REJECTED)]).result()
    assert [p.command for p in store.pending_intents().result()] == [second]
    done = store.decisions().result()[0].commands[0]
    assert (done.outcome, done.actual, done.at_ms) == (Outcome.CLAMPED, 400.0, START_MS + 500)
    assert store.counts().result().commands["pending"] == 1


def test_the_same_intent_told_twice_stands_once(store: Store) -> None:
    made = decision(1, command())
    store.journal_intent(made).result()
    store.journal_acks([ack(made.commands[0])]).result()
    store.journal_intent(made).result()
    assert len(store.decisions().result()) == 1
    assert store.pending_intents().result() == []


def test_decisions_are_paged_and_found_by_device_or_point(store: Store) -> None:
    for cycle in range(1, 8):
        node = "n01" if cycle % 2 else "n02"
        store.journal_intent(decision(cycle, command(node, sequence=cycle))).result()
    page = store.decisions(3).result()
    assert [r.decision.cycle for r in page] == [7, 6, 5]
    assert [r.decision.cycle for r in store.decisions(3, page[-1].id).result()] == [4, 3, 2]
    found = store.decisions(10, subject="n02").result()
    assert [r.decision.cycle for r in found] == [6, 4, 2]
    assert len(store.decisions(10, subject="n01:total:power_cap").result()) == 4
    assert store.decisions(10, subject="n").result() == []


def test_cycles_come_back_in_order_a_page_at_a_time(store: Store) -> None:
    records = [
        CycleRecord(1, n, START_MS + 1000 * n, 10 * n, {"plan": [n, None, 0.1]})
        for n in range(1, 6)
    ]
    for record in records:
        store.journal_cycle(record).result()
    page = store.cycles(START_MS, START_MS + 5000, limit=3).result()
    assert [r for _, r in page] == records[:3]
    rest = store.cycles(START_MS, START_MS + 5000, after=page[-1][0]).result()
    assert [r for _, r in rest] == records[3:4]


def test_one_controller_holds_a_hall_and_each_take_over_raises_the_epoch(
    store: Store, clock: SteppedClock
) -> None:
    assert store.acquire_lease("hall", "a", 15.0).result() == 1
    assert store.acquire_lease("hall", "b", 15.0).result() is None
    assert store.acquire_lease("other", "b", 15.0).result() == 1
    clock.step(10)
    assert store.renew_lease("hall", "a", 1, 15.0).result()
    assert not store.renew_lease("hall", "b", 1, 15.0).result()
    clock.step(14)
    assert store.acquire_lease("hall", "b", 15.0).result() is None
    clock.step(1)
    assert not store.renew_lease("hall", "a", 1, 15.0).result(), "an ended lease is not prolonged"
    assert store.acquire_lease("hall", "b", 15.0).result() == 2
    assert store.acquire_lease("hall", "b", 15.0).result() == 3, "back after a crash: a new epoch"
    assert not store.release_lease("hall", "a", 1).result()
    assert store.release_lease("hall", "b", 3).result()
    assert store.acquire_lease("hall", "a", 15.0).result() == 4
    held = store.lease("hall").result()
    assert held is not None
    assert (held.owner, held.epoch) == ("a", 4)


def test_an_intent_of_a_lost_epoch_is_refused(store: Store, clock: SteppedClock) -> None:
    epoch = store.acquire_lease("hall", "a", 5.0).result()
    assert epoch == 1
    store.journal_intent(decision(1, command(epoch=1))).result()
    clock.step(6)
    assert store.acquire_lease("hall", "b", 5.0).result() == 2
    with pytest.raises(LeaseLost, match="followed by 2"):
        store.journal_intent(decision(2, command(epoch=1, sequence=2))).result()
    assert len(store.decisions().result()) == 1
    store.journal_intent(decision(1, command(epoch=2))).result()
    assert len(store.decisions().result()) == 2
