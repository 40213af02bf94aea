"""What the store wants done now and then: compaction, roll-ups of days, retention, partitions."""

from __future__ import annotations

import asyncio
from typing import Final

import structlog

from facility.clock import Clock
from facility.store import Store, committed

log = structlog.get_logger(__name__)

#: Hours end on the hour; what came late to one waits no longer than this for its chunk.
PERIOD_S: Final = 300.0
#: How often old samples are let go.
RETIRE_S: Final = 3600.0


class StoreCare:
    """Runs beside everything else; a failure is the supervisor's, who starts it again.

    Args:
        store: whose work is done; its own thread does it, a short transaction at a time.
        clock: times the rounds.
    """

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._retired_s = float("-inf")

    async def run(self) -> None:
        """One round after the other, for ever."""
        while True:
            await asyncio.sleep(PERIOD_S)
            await self.once()

    async def once(self) -> None:
        """One round.

        Raises:
            StoreError: the database is away or refuses; what was done stays done.
        """
        store = self._store
        done = await committed(store.compact())
        if done.hours or done.damaged:
            log.info(
                "compacted",
                hours=done.hours,
                samples=done.samples,
                bytes=done.chunk_bytes,
                damaged=done.damaged,
            )
        await committed(store.settle_days())
        await committed(store.tidy())
        if self._clock.monotonic_s() - self._retired_s < RETIRE_S:
            return
        gone = await committed(store.retire())
        if not gone.waiting:
            self._retired_s = self._clock.monotonic_s()
        if gone.chunks or gone.partitions:
            log.info(
                "retired", hours=gone.chunks, partitions=len(gone.partitions), rollups=gone.rollups
            )
