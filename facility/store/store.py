"""The store: every write and every question, as futures.

Writes are done when they are committed. Reads see what was committed when they run. Nothing here
blocks, except `open_store` and `close`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sa

from facility.clock import Clock
from facility.commands import Ack, AlarmEvent, Decision, Mode, Override
from facility.points import PointId, Scan
from facility.store import migrate
from facility.store.committer import Committer, Replay
from facility.store.engine import (
    FileLock,
    check_sqlite_file,
    in_memory,
    reading_engine,
    sqlite_file,
    writing_engine,
)
from facility.store.errors import SchemaMismatch, StoreError
from facility.store.inbox import Inbox, Job, Urgency
from facility.store.readers import Readers
from facility.store.records import (
    AlarmChange,
    AlarmRecord,
    ApiKey,
    AuditEntry,
    CommandRecord,
    Counts,
    CycleRecord,
    DecisionRecord,
    Delivery,
    DroppedRecord,
    LeaseRecord,
    ModeRecord,
    OverrideRecord,
    Sample,
    Series,
    StoreStats,
)
from facility.store.rows import alarms as alarm_rows
from facility.store.rows import counts as count_rows
from facility.store.rows import history as history_rows
from facility.store.rows import journal as journal_rows
from facility.store.rows import leases as lease_rows
from facility.store.rows import meta, people
from facility.store.rows import scans as scan_rows
from facility.store.rows.alarms import Sinks
from facility.store.rows.as_json import (
    ack_from_json,
    ack_to_json,
    decision_from_json,
    decision_to_json,
    event_from_json,
    event_to_json,
)
from facility.store.spill import Spill
from facility.store.writer import Writer

T = TypeVar("T")


def open_store(
    url: str,
    clock: Clock,
    *,
    inline: bool = False,
    hall: str = "hall",
    spill: Path | None = None,
    max_queued_samples: int = 2_000_000,
    max_queued_jobs: int = 10_000,
) -> Store:
    """Open a database for writing; a new, empty one gets the schema.

    Args:
        clock: stamps leases, acknowledgements and the like, and times the flushes.
        url: `sqlite:///FILE`, `sqlite://` (memory, inline only) or `postgresql://…`.
        inline: no threads; for virtual time and for short commands.
        hall: whose journal this is; one PostgreSQL may serve several halls.
        spill: file for journal entries while the database is away; beside a SQLite file by
            default, none for others.
        max_queued_samples: beyond it the oldest scans are dropped and counted.
        max_queued_jobs: beyond it other writes fail with StoreUnavailable.

    Raises:
        StoreLocked: another process writes to this SQLite file.
        StoreCorrupt: damaged, cut short, or not Wattkeeper's.
        SchemaMismatch: older than this program (`wattkeeper db upgrade`), or newer.
        StoreUnavailable: cannot be reached.
        StoreError: a URL that cannot be used.
    """
    if in_memory(url) and not inline:
        raise StoreError("a store in memory lives on one connection: open it with inline=True")
    file = sqlite_file(url)
    lock = FileLock(file) if file is not None else None
    if lock is not None:
        lock.acquire()
    engine = writing_engine(url)
    try:
        if file is not None:
            check_sqlite_file(file)
            spill = spill or file.with_name(file.name + ".spill")
        _prepare(engine)
        reader = engine if in_memory(url) else reading_engine(url)
        return Store(
            engine,
            reader,
            clock,
            hall=hall,
            inbox=Inbox(max_queued_samples, max_queued_jobs),
            spill=Spill(spill) if spill is not None else None,
            lock=lock,
            inline=inline,
        )
    except BaseException:
        engine.dispose()
        if lock is not None:
            lock.release()
        raise


def _prepare(engine: sa.Engine) -> None:
    try:
        with engine.begin() as connection:
            current = migrate.revision(connection)
            migrate.require_known(current)
            if current is None:
                migrate.upgrade_on(connection)
            elif current != migrate.head():
                raise SchemaMismatch(
                    f"the database has schema {current} where {migrate.head()} is due: "
                    "run wattkeeper db upgrade"
                )
    except sa.exc.DBAPIError as error:
        raise migrate.unreachable(error) from error


class Store:
    """One hall's memory; see the module."""

    def __init__(
        self,
        engine: sa.Engine,
        reader: sa.Engine,
        clock: Clock,
        *,
        hall: str,
        inbox: Inbox,
        spill: Spill | None,
        lock: FileLock | None,
        inline: bool,
    ) -> None:
        self.hall = hall
        self.database = engine.dialect.name
        self._clock = clock
        self._inbox = inbox
        self._engine = engine
        self._lock = lock
        self._inline = inline
        self._committer = Committer(engine, clock, spill, self._replay())
        self._writer = Writer(self._committer, inbox, clock, inline=inline)
        self._readers = Readers(reader, inline=inline)

    # ---- samples ---------------------------------------------------------------------------

    def put(self, scan: Scan) -> None:
        """Queue a scan; it is written within a second. Its arrays must not change any more."""
        self._writer.put(scan)

    def flush(self) -> Future[None]:
        """Write what is queued now."""
        return self._writer.flush()

    def latest(self, points: Sequence[PointId]) -> Future[list[Sample]]:
        """The newest stored sample of each point, in the order asked."""
        return self._ask(lambda c: history_rows.latest(c, points))

    def history(
        self, point: PointId, from_ms: int, to_ms: int, step_s: float | None = None
    ) -> Future[Series]:
        """The point's past in [from_ms, to_ms): raw, or in buckets of `step_s` whole seconds.

        The future raises HistoryLimit for more than is given at once.
        """
        if self._inline:
            self._writer.flush()
        return self._readers.ask_in_pages(
            lambda engine: history_rows.history(engine, point, from_ms, to_ms, step_s)
        )

    def dropped(self, limit: int = 100) -> Future[list[DroppedRecord]]:
        """The newest entries of the ledger of lost scans."""
        return self._ask(lambda c: scan_rows.read_dropped(c, limit))

    # ---- journal ---------------------------------------------------------------------------

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

    # ---- lease -----------------------------------------------------------------------------

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

    # ---- alarms and deliveries -------------------------------------------------------------

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

    # ---- people ----------------------------------------------------------------------------

    def audit(
        self, actor: str, action: str, subject: str, detail: Mapping[str, Any] | None = None
    ) -> Future[None]:
        """Append a line to the audit log."""
        at_ms = self._clock.utc_ms()
        line = {"at_ms": at_ms, "actor": actor, "action": action, "subject": subject}
        return self._write(
            lambda c: people.add_audit(c, **line, detail=detail or {}),  # type: ignore[arg-type]
            spill=("audit", lambda: {**line, "detail": dict(detail or {})}),
        )

    def audit_log(self, limit: int = 100, before: int | None = None) -> Future[list[AuditEntry]]:
        """The newest lines of the audit log, newest first."""
        return self._ask(lambda c: people.audit_log(c, limit, before))

    def add_override(self, override: Override) -> Future[None]:
        """Write an operator's override."""
        return self._write(lambda c: people.add_override(c, override))

    def end_override(self, id: str, by: str) -> Future[None]:  # noqa: A002
        """End an override early; the future raises UnknownRecord for none."""
        return self._write(lambda c: people.end_override(c, id, by, self._clock.utc_ms()))

    def overrides(self, active: bool = True, limit: int = 1000) -> Future[list[OverrideRecord]]:
        """Overrides, newest first; `active`: neither ended nor expired."""
        return self._ask(lambda c: people.overrides(c, active, self._clock.utc_ms(), limit))

    def set_mode(self, scope: str, mode: Mode, by: str, reason: str) -> Future[None]:
        """Set who acts in a scope."""
        return self._write(
            lambda c: people.set_mode(c, scope, mode, by, reason, self._clock.utc_ms())
        )

    def modes(self) -> Future[list[ModeRecord]]:
        """The mode of every scope that was ever set."""
        return self._ask(people.modes)

    def add_api_key(self, name: str, role: str, hash: str) -> Future[int]:  # noqa: A002
        """Write a key's argon2 hash; its number."""
        return self._write(lambda c: people.add_api_key(c, name, role, hash, self._clock.utc_ms()))

    def revoke_api_key(self, id: int) -> Future[None]:  # noqa: A002
        """Make a key useless."""
        return self._write(lambda c: people.revoke_api_key(c, id, self._clock.utc_ms()))

    def api_keys(self) -> Future[list[ApiKey]]:
        """All keys, the revoked ones too."""
        return self._ask(people.api_keys)

    # ---- itself ----------------------------------------------------------------------------

    def set_meta(self, key: str, value: str) -> Future[None]:
        """Set a fact about the site, e.g. `config_sha256`."""
        return self._write(lambda c: meta.put(c, key, value))

    def meta(self, key: str) -> Future[str | None]:
        """A fact about the site."""
        return self._ask(lambda c: meta.get(c, key))

    def counts(self) -> Future[Counts]:
        """Totals in the database; reads whole indexes, so not for every second."""
        return self._ask(count_rows.read)

    def stats(self) -> StoreStats:
        """How the store is doing, without asking the database."""
        return StoreStats(
            available=self._committer.error is None,
            error=self._committer.error,
            queued_scans=self._inbox.scans,
            queued_samples=self._inbox.samples,
            scans=self._committer.scans,
            samples=self._committer.samples,
            dropped_scans=self._inbox.dropped_scans,
            dropped_samples=self._inbox.dropped_samples,
            spilled=self._committer.spilled,
            busy_s=self._committer.busy_s,
        )

    def ping(self) -> Future[None]:
        """Done if the database can be written now: for readiness."""
        return self._write(lambda _: None)

    def close(self) -> None:
        """Write what waits, stop the threads, let go of the file. May take a transaction's time."""
        self._writer.close()
        self._readers.close()
        self._engine.dispose()
        if self._lock is not None:
            self._lock.release()

    # ---- within ----------------------------------------------------------------------------

    def _write(
        self,
        run: Callable[[sa.Connection], T],
        urgency: Urgency = Urgency.ALARMS,
        spill: tuple[str, Callable[[], Mapping[str, Any]]] | None = None,
    ) -> Future[T]:
        job = Job(urgency, run, spill)
        self._writer.submit(job)
        return job.future

    def _ask(self, question: Callable[[sa.Connection], T]) -> Future[T]:
        if self._inline:
            self._writer.flush()
        return self._readers.ask(question)

    def _replay(self) -> Replay:
        def intent(connection: sa.Connection, body: Mapping[str, Any]) -> None:
            journal_rows.write_intent(
                connection, self.hall, decision_from_json(body), checked=False
            )

        def acks(connection: sa.Connection, body: Mapping[str, Any]) -> None:
            journal_rows.write_acks(connection, self.hall, [ack_from_json(a) for a in body["acks"]])

        def cycle(connection: sa.Connection, body: Mapping[str, Any]) -> None:
            journal_rows.write_cycle(connection, self.hall, CycleRecord(**body))

        def alarms(connection: sa.Connection, body: Mapping[str, Any]) -> None:
            for event, names in body["events"]:
                alarm_rows.record(connection, [event_from_json(event)], names)

        def audit(connection: sa.Connection, body: Mapping[str, Any]) -> None:
            people.add_audit(connection, **body)

        return {"intent": intent, "acks": acks, "cycle": cycle, "alarms": alarms, "audit": audit}


def _cycle_to_json(record: CycleRecord) -> dict[str, Any]:
    return {
        "epoch": record.epoch,
        "cycle": record.cycle,
        "now_ms": record.now_ms,
        "last_scan": record.last_scan,
        "body": dict(record.body),
    }
