"""Every Journal has committed what it was told once its call returns."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from facility.clock import LoopClock, SystemClock, VirtualTimeLoop
from facility.commands import AlarmEvent
from facility.ports import Journal, PointReader
from facility.store import LeaseLost, Store, StoreJournal, StoreReader, open_store
from tests.facility.store.plant import SteppedClock, ack, alarm, command, decision, layout, scan


@pytest.fixture(params=["inline", "threads"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    inline = request.param == "inline"
    clock = SteppedClock() if inline else SystemClock()
    opened = open_store(f"sqlite:///{tmp_path / 'hall.db'}", clock, inline=inline)
    yield opened
    opened.close()


async def test_intents_acks_and_alarms_are_there_once_told(store: Store) -> None:
    journal: Journal = StoreJournal(store, ["pager"])
    sent = command()
    await journal.intent(decision(1, sent))
    assert [p.command for p in store.pending_intents().result(10)] == [sent]
    await journal.acks([ack(sent)])
    assert store.pending_intents().result(10) == []
    await journal.acks([])
    await journal.alarms(event for event in [alarm()])
    assert [a.event for a in store.alarms(active_only=True).result(10)] == [alarm()]
    assert [d.sink for d in store.deliveries().result(10)] == ["pager"]


async def test_a_refusal_reaches_who_told(store: Store) -> None:
    journal: Journal = StoreJournal(store)
    await asyncio.wrap_future(store.acquire_lease("hall", "a", 60.0))
    await asyncio.wrap_future(store.acquire_lease("hall", "a", 60.0))
    with pytest.raises(LeaseLost):
        await journal.intent(decision(1, command(epoch=1)))
    assert store.decisions().result(10) == []


async def test_sinks_may_depend_on_the_event(store: Store) -> None:
    def pages_only(event: AlarmEvent) -> list[str]:
        return ["pager"] if event.page else []

    quiet = AlarmEvent("odd:x", "odd", "x", alarm().severity, True, "odd", alarm().at_ms)
    await StoreJournal(store, pages_only).alarms([alarm(), quiet])
    got = store.deliveries().result(10)
    assert [d.body["key"] for d in got] == [alarm().key]


def test_it_works_in_virtual_time_without_threads() -> None:
    loop = VirtualTimeLoop()
    clock = LoopClock(loop, 1_796_000_000_000)
    store = open_store("sqlite://", clock, inline=True)
    journal: Journal = StoreJournal(store)

    async def an_hour() -> None:
        for cycle in range(1, 61):
            await journal.intent(decision(cycle, command(sequence=cycle), now_ms=clock.utc_ms()))
            store.put(scan(layout(), [float(cycle)] * 4, at_ms=clock.utc_ms()))
            await asyncio.sleep(60.0)

    loop.run_until_complete(an_hour())
    loop.close()
    assert len(store.decisions(100).result()) == 60
    assert store.counts().result().scans == 60
    store.close()


def test_the_reader_gives_the_newest_or_bad(store: Store) -> None:
    reader: PointReader = StoreReader(store)
    pdu = layout()
    store.put(scan(pdu, [5.0, 0.0, float("nan"), 1.0], [0, 0, 2, 0]))
    store.flush().result(10)
    ghost = layout("ghost").points[0].id
    got = reader.latest([pdu.points[0].id, pdu.points[2].id, ghost])
    assert [value for _, value, _ in got] == [5.0, None, None]
    assert got[2][0] == 0
    assert got[2][2] & 0b11 == 2
