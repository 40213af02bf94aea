"""The control loop's journal over the store: an outage is an OSError, as the loop expects it."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Sequence

from facility.commands import Ack, AlarmEvent, Decision
from facility.store import Store, StoreError, StoreUnavailable
from facility.store.adapters import StoreJournal
from facility.store.rows.alarms import Sinks


class JournalDown(OSError):
    """The database cannot commit now.

    Attributes:
        spilled: what was to be written stands in the local spill file and will be replayed.
    """

    def __init__(self, error: StoreError, *, spilled: bool) -> None:
        super().__init__(str(error))
        self.spilled = spilled


class HallJournal:
    """`facility.ports.Journal`; a lost lease is an outage too: what we decide no longer counts."""

    def __init__(self, store: Store, sinks: Sinks) -> None:
        self._journal = StoreJournal(store, sinks)
        self._last_spilled = False

    async def intent(self, decision: Decision) -> None:
        """A decision with commands, before any is sent."""
        self._last_spilled = False
        await self._try(self._journal.intent(decision))

    async def acks(self, acks: Sequence[Ack]) -> None:
        """What became of commands."""
        await self._try(self._journal.acks(acks))

    async def alarms(self, events: Iterable[AlarmEvent]) -> None:
        """Alarm changes and the deliveries they cause."""
        await self._try(self._journal.alarms(events))

    def spool(self, decision: Decision) -> None:
        """Stand in for the journal: the store has put the intent into its spill file already.

        Raises:
            OSError: it has not, so nothing may be sent.
        """
        if decision.commands and not self._last_spilled:
            raise OSError("neither the database nor the spill file took the intent")

    async def _try(self, commit: Awaitable[None]) -> None:
        try:
            await commit
        except StoreUnavailable as error:
            self._last_spilled = error.spilled
            raise JournalDown(error, spilled=error.spilled) from error
        except StoreError as error:
            raise JournalDown(error, spilled=False) from error
