"""Maintenance is kept: planned, open, over by itself, or ended by hand."""

from __future__ import annotations

import pytest

from facility.maintenance import Maintenance
from facility.store import Store, UnknownRecord
from tests.facility.store.plant import START_MS, SteppedClock

UPS = Maintenance(
    "m1",
    "element",
    "ups-a1",
    "ada",
    "battery test",
    "CHG-7",
    START_MS + 60_000,
    START_MS + 120_000,
    ("rack:r01", "loop:loop-1"),
    ("single_fed",),
)
CDU = Maintenance("m2", "load", "cdu-1", "bob", "filter", "", START_MS, START_MS + 30_000)


def test_it_is_read_back_as_it_was_written_and_ends_by_itself(
    store: Store, clock: SteppedClock
) -> None:
    store.add_maintenance(UPS).result()
    store.add_maintenance(CDU).result()
    assert [m.work for m in store.maintenance().result()] == [UPS, CDU]
    clock.step(40)
    assert [m.work for m in store.maintenance().result()] == [UPS]
    clock.step(100)
    assert store.maintenance().result() == []
    assert len(store.maintenance(active=False).result()) == 2


def test_it_is_ended_early_once_and_by_name(store: Store, clock: SteppedClock) -> None:
    store.add_maintenance(CDU).result()
    clock.step(10)
    store.end_maintenance("m2", "ada").result()
    clock.step(1)
    store.end_maintenance("m2", "eve").result()
    assert store.maintenance().result() == []
    ended = store.maintenance(active=False).result()[0]
    assert (ended.ended_by, ended.ended_ms) == ("ada", START_MS + 10_000)
    with pytest.raises(UnknownRecord, match="m9"):
        store.end_maintenance("m9", "ada").result()
