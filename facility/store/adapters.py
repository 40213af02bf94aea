"""The store behind facility's ports: a journal for the control loop, a reader for people."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from typing import TypeVar

from facility.commands import Ack, AlarmEvent, Decision
from facility.points import PointId
from facility.store.rows.alarms import Sinks
from facility.store.store import Store

T = TypeVar("T")


async def committed(future: Future[T]) -> T:
    """Await a store's future; under virtual time, where it is done already, without the loop."""
    if future.done():
        return future.result()
    return await asyncio.wrap_future(future)


class StoreJournal:
    """`facility.ports.Journal` over a store.

    Each call raises StoreUnavailable while the database is away; what it was told then stands in
    the spill file, if `spilled` says so, and the control loop goes on, lowering only.

    Args:
        sinks: where alarms go: names, or a function of the event.
    """

    def __init__(self, store: Store, sinks: Sinks = ()) -> None:
        self._store = store
        self._sinks = sinks

    async def intent(self, decision: Decision) -> None:
        """A decision with commands, before any is sent."""
        await committed(self._store.journal_intent(decision))

    async def acks(self, acks: Sequence[Ack]) -> None:
        """What became of commands."""
        await committed(self._store.journal_acks(acks))

    async def alarms(self, events: Iterable[AlarmEvent]) -> None:
        """Alarm changes and the deliveries they cause."""
        await committed(self._store.record_alarms(events, self._sinks))


class StoreReader:
    """`facility.ports.PointReader` over a store; waits for the answer."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def latest(self, points: Sequence[PointId]) -> Sequence[tuple[int, float | None, int]]:
        """(received ms, value, quality); (0, None, BAD) for what was never stored."""
        return [
            (s.received_ms or 0, s.value, s.quality) for s in self._store.latest(points).result()
        ]
