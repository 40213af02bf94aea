"""Decisions, what became of their commands, and who may decide."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

from facility.commands import Ack, Decision
from facility.store.parts.base import Part
from facility.store.records import CommandRecord, CycleRecord, DecisionRecord, LeaseRecord
from facility.store.rows import journal as journal_rows
from facility.store.rows import leases as lease_rows
from facility.store.rows.as_json import ack_to_json, decision_to_json
from facility.store.threads.inbox import Urgency


class JournalPart(Part):
    """The journal and the hall's lease."""

    def journal_intent(self, decision: Decision) -> Future[None]:
        """Journal a decision and its commands, before any is sent.

        The future raises LeaseLost if a later epoch holds the hall, StoreUnavailable (with
        `spilled`) while the database is away.
        """
        return self._write(
            lambda c: journal_rows.write_intent(c, self.hall, decision, checked=True),
            Urgency.JOURNAL,
            ("intent", lambda: decision_to_json(decision)),
        )

    def spill_intent(self, decision: Decision) -> None:
        """Put a decision into the spill file instead, now; for the loop while the database is away.

        It stands there for what was really sent, in place of what `journal_intent` spilled for
        the same cycle. Waits for the disk.

        Raises:
            OSError: there is no spill file, or its disk is full or gone.
        """
        self._committer.save("intent", decision_to_json(decision))

    def journal_acks(self, acks: Sequence[Ack]) -> Future[None]:
        """Journal what became of commands."""
        kept = tuple(acks)
        return self._write(
            lambda c: journal_rows.write_acks(c, self.hall, kept),
            Urgency.JOURNAL,
            ("acks", lambda: {"acks": [ack_to_json(a) for a in kept]}),
        )

    def journal_cycle(self, record: CycleRecord) -> Future[None]:
        """Journal what a cycle needs to be computed again."""
        return self._write(
            lambda c: journal_rows.write_cycle(c, self.hall, record),
            Urgency.JOURNAL,
            ("cycle", lambda: _cycle_to_json(record)),
        )

    def decisions(
        self, limit: int = 50, before: int | None = None, subject: str | None = None
    ) -> Future[list[DecisionRecord]]:
        """The newest journalled decisions, those before an id, those commanding a subject."""
        return self._ask(lambda c: journal_rows.decisions(c, self.hall, limit, before, subject))

    def decision(self, id: int) -> Future[DecisionRecord | None]:  # noqa: A002
        """One journalled decision by its id."""
        return self._ask(lambda c: journal_rows.decision_by_id(c, id))

    def pending_intents(self) -> Future[list[CommandRecord]]:
        """Commands whose end was never journalled, in write order."""
        return self._ask(lambda c: journal_rows.pending_intents(c, self.hall))

    def cycles(
        self, from_ms: int, to_ms: int, after: int = 0, limit: int = 1000
    ) -> Future[list[tuple[int, CycleRecord]]]:
        """(id, record) of cycles in [from_ms, to_ms), a page at a time."""
        return self._ask(
            lambda c: journal_rows.read_cycles(c, self.hall, from_ms, to_ms, after, limit)
        )

    def acquire_lease(self, hall: str, owner: str, ttl_s: float) -> Future[int | None]:
        """Take control of the hall; the new epoch, or None while somebody else holds it."""
        return self._write(
            lambda c: lease_rows.acquire(c, hall, owner, self._clock.utc_ms(), ttl_s),
            Urgency.JOURNAL,
        )

    def renew_lease(self, hall: str, owner: str, epoch: int, ttl_s: float) -> Future[bool]:
        """Prolong control; False once it has ended."""
        return self._write(
            lambda c: lease_rows.renew(c, hall, owner, epoch, self._clock.utc_ms(), ttl_s),
            Urgency.JOURNAL,
        )

    def release_lease(self, hall: str, owner: str, epoch: int) -> Future[bool]:
        """End control now; False if it was not held."""
        return self._write(
            lambda c: lease_rows.release(c, hall, owner, epoch, self._clock.utc_ms()),
            Urgency.JOURNAL,
        )

    def lease(self, hall: str) -> Future[LeaseRecord | None]:
        """Who holds the hall, or held it last."""
        return self._ask(lambda c: lease_rows.read(c, hall))


def _cycle_to_json(record: CycleRecord) -> dict[str, Any]:
    return {
        "epoch": record.epoch,
        "cycle": record.cycle,
        "now_ms": record.now_ms,
        "last_scan": record.last_scan,
        "body": dict(record.body),
    }
