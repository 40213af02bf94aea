"""Alarms, and the messages that they cause."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

import sqlalchemy as sa

from facility.commands import AlarmEvent
from facility.store.parts.base import Part
from facility.store.records import AlarmChange, AlarmRecord, Delivery
from facility.store.rows import alarms as alarm_rows
from facility.store.rows.alarms import Sinks
from facility.store.rows.as_json import event_to_json
from facility.store.threads.inbox import Urgency


class Alarms(Part):
    """Alarms and deliveries."""

    def record_alarms(self, events: Iterable[AlarmEvent], sinks: Sinks) -> Future[None]:
        """Alarm changes and the deliveries they cause, in one transaction.

        `sinks`: names of the sinks of every event, or a function that gives those of one.
        """
        told = tuple(events)
        named = [(e, tuple(sinks(e) if callable(sinks) else sinks)) for e in told]

        def write(connection: sa.Connection) -> None:
            for event, names in named:
                alarm_rows.record(connection, [event], names)

        return self._write(
            write,
            Urgency.ALARMS,
            ("alarms", lambda: {"events": [[event_to_json(e), list(n)] for e, n in named]}),
        )

    def acknowledge(self, key: str, by: str, note: str) -> Future[None]:
        """Note who looks after an alarm; the future raises UnknownRecord for none."""
        return self._write(lambda c: alarm_rows.acknowledge(c, key, by, note, self._clock.utc_ms()))

    def alarms(self, active_only: bool = False, limit: int = 1000) -> Future[list[AlarmRecord]]:
        """Alarms: the active ones first, most severe first."""
        return self._ask(lambda c: alarm_rows.read(c, active_only, limit))

    def alarm_changes(self, key: str | None = None, limit: int = 100) -> Future[list[AlarmChange]]:
        """The newest changes of one alarm, or of all."""
        return self._ask(lambda c: alarm_rows.changes(c, key, limit))

    def enqueue(self, type: str, body: Mapping[str, Any], sinks: Sequence[str]) -> Future[int]:  # noqa: A002
        """Queue a message that is no alarm (a test of a webhook); the outbox number."""
        return self._write(lambda c: alarm_rows.enqueue(c, type, body, sinks, self._clock.utc_ms()))

    def claim_deliveries(self, limit: int, now_ms: int) -> Future[list[Delivery]]:
        """Take deliveries that are due; unfinished ones come back after a minute."""
        return self._write(lambda c: alarm_rows.claim(c, limit, now_ms))

    def finish_delivery(
        self,
        id: int,  # noqa: A002
        ok: bool,
        status: int | None = None,
        error: str | None = None,
        next_try_ms: int | None = None,
    ) -> Future[None]:
        """Note how a try ended; not ok and no next try: failed for good."""
        return self._write(
            lambda c: alarm_rows.finish(c, id, ok, status, error, next_try_ms, self._clock.utc_ms())
        )

    def deliveries(self, limit: int = 100) -> Future[list[Delivery]]:
        """The newest deliveries."""
        return self._ask(lambda c: alarm_rows.deliveries(c, limit))
