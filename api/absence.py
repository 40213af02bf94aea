"""Say it when the run before this one ended without a word: crash, SIGKILL, power."""

from __future__ import annotations

from dataclasses import replace

from api.hall import Feed
from api.webhooks import sinks_of
from facility.clock import Clock
from facility.commands import AlarmEvent, Severity
from facility.config import Facility
from facility.store import Store
from facility.store.adapters import committed

META = "run"
RUNNING, STOPPED = "running", "stopped"
KEY = "controller_was_away:hall"


class Absence:
    """Marks a run's start and end in the database; a start without an end before it is news."""

    def __init__(self, store: Store, facility: Facility, clock: Clock, feed: Feed) -> None:
        self._store = store
        self._facility = facility
        self._clock = clock
        self._feed = feed
        self._event: AlarmEvent | None = None

    async def starting(self, lease_ttl_s: float) -> None:
        """Mark the start; raises the alarm if the last run's end was never marked."""
        unclean = await committed(self._store.meta(META)) == RUNNING
        await committed(self._store.set_meta(META, RUNNING))
        if not unclean:
            return
        now_ms = self._clock.utc_ms()
        held = await committed(self._store.lease(self._facility.site.name))
        away_s = None if held is None else (now_ms - held.expires_ms) / 1000.0 + lease_ttl_s
        since = "for an unknown time" if away_s is None else f"for about {away_s:.0f} s"
        self._event = AlarmEvent(
            key=KEY,
            kind="controller_was_away",
            subject="hall",
            severity=Severity.WARNING,
            active=True,
            text=f"The controller ended unexpectedly and was away {since}; nodes kept their caps "
            "by their leases. Look into its log for the reason.",
            at_ms=now_ms,
            numbers={"away_s": away_s},
        )
        await self._record(self._event)

    async def controlling(self) -> None:
        """Clear the alarm: control runs again."""
        if self._event is not None:
            event = replace(self._event, active=False, at_ms=self._clock.utc_ms())
            self._event = None
            await self._record(event)

    async def stopping(self) -> None:
        """Mark that this run ended as it should."""
        await committed(self._store.set_meta(META, STOPPED))

    async def _record(self, event: AlarmEvent) -> None:
        await committed(self._store.record_alarms([event], sinks_of(self._facility)))
        self._feed.remember([event])
