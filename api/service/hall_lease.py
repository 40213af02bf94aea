"""One active controller per hall: a lease row in the database, kept while we live.

While the database is away the held epoch serves until the lease would have ended by our own
monotonic clock; nobody else can have taken it before that.
"""

from __future__ import annotations

import asyncio

import structlog

from facility.clock import Clock
from facility.store import Store, StoreError
from facility.store.adapters import committed

log = structlog.get_logger(__name__)


class HallLease:
    """Takes the hall's lease when it is free, renews it, and knows whether it holds.

    Attributes:
        owner: who we are; a second controller with another owner gets nothing.
        journal_up: whether the last renewal reached the database.
    """

    def __init__(
        self, store: Store, clock: Clock, *, hall: str, owner: str, ttl_s: float = 15.0
    ) -> None:
        self._store = store
        self._clock = clock
        self._hall = hall
        self.owner = owner
        self.ttl_s = ttl_s
        self._epoch: int | None = None
        self._until_s = 0.0
        self.journal_up = True

    @property
    def epoch(self) -> int | None:
        """The epoch held, None while another controller holds the hall or the lease ran out."""
        return self._epoch if self._clock.monotonic_s() < self._until_s else None

    def held(self) -> tuple[str, int] | None:
        """(owner, epoch) while the lease is held."""
        epoch = self.epoch
        return None if epoch is None else (self.owner, epoch)

    async def run(self) -> None:
        """Take and keep the lease for ever."""
        while True:
            await self.once()
            held = self.epoch is not None
            await asyncio.sleep(self.ttl_s / 3.0 if held else min(1.0, self.ttl_s / 3.0))

    async def once(self) -> None:
        """One attempt to take or renew it."""
        asked_s = self._clock.monotonic_s()
        try:
            if self.epoch is None:
                epoch = await committed(
                    self._store.acquire_lease(self._hall, self.owner, self.ttl_s)
                )
                if epoch is not None and epoch != self._epoch:
                    log.info("hall_lease_taken", hall=self._hall, epoch=epoch)
                self._epoch = epoch
                held = epoch is not None
            else:
                held = await committed(
                    self._store.renew_lease(self._hall, self.owner, self._epoch or 0, self.ttl_s)
                )
                if not held:
                    log.error("hall_lease_lost", hall=self._hall, epoch=self._epoch)
                    self._epoch = None
            if held:
                self._until_s = asked_s + self.ttl_s
            if not self.journal_up:
                log.info("database_back")
            self.journal_up = True
        except StoreError as error:
            if self.journal_up:
                log.error("database_lost", error=str(error))
            self.journal_up = False

    async def give_back(self) -> None:
        """Free the lease at once, so that a successor need not wait for its end."""
        epoch, self._epoch = self._epoch, None
        if epoch is None:
            return
        try:
            await committed(self._store.release_lease(self._hall, self.owner, epoch))
        except StoreError as error:
            log.warning("hall_lease_not_returned", error=str(error))
