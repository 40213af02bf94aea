"""The store: every write and every question, as futures.

Writes are done when they are committed. Reads see what was committed when they run. Nothing here
blocks, except `open_store` and `close`.
"""

from __future__ import annotations

from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path

import sqlalchemy as sa

from facility.clock import Clock
from facility.store import migrate
from facility.store.engine import (
    FileLock,
    check_sqlite_file,
    in_memory,
    reading_engine,
    sqlite_file,
    writing_engine,
)
from facility.store.errors import SchemaMismatch, StoreError
from facility.store.parts.alarms import Alarms
from facility.store.parts.cords import Cords
from facility.store.parts.drills import Drills
from facility.store.parts.journal import JournalPart
from facility.store.parts.maintenance import Works
from facility.store.parts.people import People
from facility.store.parts.replay import replay_of
from facility.store.parts.samples import Samples
from facility.store.parts.tidying import Tidying
from facility.store.records import Counts, StoreStats
from facility.store.rollups import PointRules, default_rules
from facility.store.rows import counts as count_rows
from facility.store.rows import meta, partitions
from facility.store.spill import Spill
from facility.store.threads.checkpoints import Checkpoints
from facility.store.threads.committer import Committer
from facility.store.threads.inbox import Inbox
from facility.store.threads.readers import Readers
from facility.store.threads.writer import Writer


def open_store(
    url: str,
    clock: Clock,
    *,
    inline: bool = False,
    hall: str = "hall",
    spill: Path | None = None,
    max_queued_samples: int = 2_000_000,
    max_queued_jobs: int = 10_000,
    rules: PointRules | None = None,
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
        rules: how points are rolled up and how long they are kept; safe ones by default.

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
        _prepare(engine, clock)
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
            rules=rules or default_rules(),
        )
    except BaseException:
        engine.dispose()
        if lock is not None:
            lock.release()
        raise


def _prepare(engine: sa.Engine, clock: Clock) -> None:
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
            with suppress(partitions.Busy):  # until tidying finds it free, the default one serves
                partitions.make_ahead(connection, clock.utc_ms())
    except sa.exc.DBAPIError as error:
        raise migrate.unreachable(error) from error


def _nothing() -> None:
    """What is done after a commit where nothing is."""


class Store(Samples, Tidying, JournalPart, Alarms, People, Works, Drills, Cords):
    """One hall's memory; see the module and `facility.store.parts`."""

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
        rules: PointRules,
    ) -> None:
        self.hall = hall
        self.rules = rules
        self.database = engine.dialect.name
        self._clock = clock
        self._inbox = inbox
        self._engine = engine
        self._lock = lock
        self._inline = inline
        file = sqlite_file(engine.url)
        self._checkpoints = Checkpoints(file, engine) if file is not None and not inline else None
        committed = self._checkpoints.committed if self._checkpoints is not None else _nothing
        self._committer = Committer(engine, clock, spill, replay_of(hall), committed)
        self._writer = Writer(self._committer, inbox, clock, inline=inline)
        self._readers = Readers(reader, inline=inline)
        self._background = Readers(reader, inline=inline, threads=1, name="store-background")

    def set_meta(self, key: str, value: str) -> Future[None]:
        """Set a fact about the site, e.g. `config_sha256`."""
        return self._write(lambda c: meta.put(c, key, value))

    def meta(self, key: str) -> Future[str | None]:
        """A fact about the site."""
        return self._ask(lambda c: meta.get(c, key))

    def keep_facility_file(self, text: str) -> Future[None]:
        """Keep the facility file that the hall runs with, so that a backup holds it."""
        return self._write(lambda c: meta.put_facility_file(c, self.hall, text))

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
            max_queued_samples=self._inbox.max_samples,
            waiting_s=self._writer.waiting_s(),
        )

    def ping(self) -> Future[None]:
        """Done if the database can be written now: for readiness."""
        return self._write(lambda _: None)

    def close(self) -> None:
        """Write what waits, stop the threads, let go of the file. May take a transaction's time."""
        self._writer.close()
        self._background.close()
        self._readers.close()
        if self._checkpoints is not None:
            self._checkpoints.close()
        self._engine.dispose()
        if self._lock is not None:
            self._lock.release()
