"""Know that the run before this one ended without a word: crash, SIGKILL, power."""

from __future__ import annotations

from facility.clock import Clock
from facility.store import Store
from facility.store.adapters import committed

META = "run"
RUNNING, STOPPED = "running", "stopped"


class Absence:
    """Marks a run's start and its proper end in the database."""

    def __init__(self, store: Store, clock: Clock, hall: str) -> None:
        self._store = store
        self._clock = clock
        self._hall = hall

    async def starting(self, lease_ttl_s: float) -> float | None:
        """Mark the start.

        Returns:
            how long no controller ran, by the end of the last lease, if the run before this one
            never marked its end; else None.
        """
        unclean = await committed(self._store.meta(META)) == RUNNING
        await committed(self._store.set_meta(META, RUNNING))
        held = await committed(self._store.lease(self._hall))
        if not unclean or held is None:
            return None
        return max((self._clock.utc_ms() - held.expires_ms) / 1000.0 + lease_ttl_s, 0.0)

    async def stopping(self) -> None:
        """Mark that this run ended as it should."""
        await committed(self._store.set_meta(META, STOPPED))
