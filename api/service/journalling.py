"""The control loop's journal over the store: an outage is an OSError, as the loop expects it."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Sequence

from facility.commands import Ack, AlarmEvent, Decision
from facility.store import Store, StoreError
from facility.store.adapters import StoreJournal
from facility.store.rows.alarms import Sinks


class HallJournal:
    """`facility.ports.Journal`; a lost lease is an outage too: what we decide no longer counts."""

    def __init__(self, store: Store, sinks: Sinks) -> None:
        self._store = store
        self._journal = StoreJournal(store, sinks)

    async def intent(self, decision: Decision) -> None:
        """A decision with commands, before any is sent."""
        await self._try(self._journal.intent(decision))

    async def acks(self, acks: Sequence[Ack]) -> None:
        """What became of commands."""
        await self._try(self._journal.acks(acks))

    async def alarms(self, events: Iterable[AlarmEvent]) -> None:
        """Alarm changes and the deliveries they cause."""
        await self._try(self._journal.alarms(events))

    def spool(self, decision: Decision) -> None:
        """Stand in for the journal: put the intent into the local spill file, to be replayed.

        Raises:
            OSError: it cannot be written, so nothing may be sent.
        """
        self._store.spill_intent(decision)

    async def _try(self, commit: Awaitable[None]) -> None:
        try:
            await commit
        except StoreError as error:
            raise OSError(str(error)) from error
