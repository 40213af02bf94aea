"""Transactions of the one writer: groups of jobs, batches of scans, outages and recovery.

An outage is remembered for a while that doubles from 0.1 s to 5 s; until it is over, jobs fail at
once (after going to the spill file, if they must survive) instead of making their callers wait.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Final

import sqlalchemy as sa
import structlog

from facility.clock import Clock
from facility.points import Scan
from facility.store.engine import is_outage
from facility.store.errors import StoreUnavailable
from facility.store.records import DroppedRecord
from facility.store.rows import scans as scan_rows
from facility.store.spill import Spill
from facility.store.threads.inbox import Job

_log = structlog.get_logger(__name__)

_FIRST_WAIT_S: Final = 0.1
_LONGEST_WAIT_S: Final = 5.0

#: kind of spill entry -> writes its body again; writing twice must be harmless.
Replay = Mapping[str, Callable[[sa.Connection, Mapping[str, Any]], None]]


class Committer:
    """Writes through one engine; used by one thread at a time.

    Args:
        engine: of the writer.
        clock: times outages.
        spill: what survives them.
        replay: how that is written again.
        committed: called after each transaction.

    Attributes:
        error: of the last failed transaction; None while all is well.
        retry_at_s: monotonic moment before which nothing is tried.
    """

    def __init__(
        self,
        engine: sa.Engine,
        clock: Clock,
        spill: Spill | None,
        replay: Replay,
        committed: Callable[[], None] = lambda: None,
    ) -> None:
        self._engine = engine
        self._clock = clock
        self._spill = spill
        self._replay = replay
        self._committed = committed
        self._refused = 0
        self._replayed = False
        self._replay_after_s = float("-inf")
        self._layouts: dict[str, int] = {}
        self._wait_s = _FIRST_WAIT_S
        self.error: str | None = None
        self.retry_at_s = float("-inf")
        self.scans = 0
        self.samples = 0
        self.busy_s = 0.0

    @property
    def spilled(self) -> int:
        """Entries waiting in the spill file."""
        return len(self._spill) if self._spill is not None else 0

    def ready(self) -> bool:
        """Whether it is time to try the database."""
        return self._clock.monotonic_s() >= self.retry_at_s

    def wants_a_try(self) -> bool:
        """Whether to write without being asked: to see if an outage is over, or to replay."""
        return self.ready() and (self.error is not None or self._spill_due())

    def run_jobs(self, jobs: Sequence[Job]) -> None:
        """Run jobs in one transaction, each in a savepoint; sets every future.

        A job that fails by its own fault fails alone.
        """
        live = [job for job in jobs if job.future.set_running_or_notify_cancel()]
        if not live:
            return
        if not self.ready():
            self._fail(live)
            return
        began_s = self._clock.monotonic_s()
        ends: list[tuple[Job, Any, Exception | None]] = []
        try:
            with self._engine.begin() as connection:
                self._replay_spill(connection)
                for job in live:
                    ends.append((job, *_attempt(connection, job)))
        except (sa.exc.SQLAlchemyError, OSError) as error:
            self._down(error)
            self._fail(live)
            return
        self._up(began_s)
        for job, result, fault in ends:
            if fault is None:
                job.future.set_result(result)
            else:
                job.future.set_exception(fault)

    def write_scans(self, batch: Sequence[Scan], loss: DroppedRecord | None) -> str | None:
        """Append scans and the ledger entry in one transaction.

        Returns:
            None when committed; "" when the database is away (try again later); else why the
            batch can never be written.
        """
        if not self.ready():
            return ""
        began_s = self._clock.monotonic_s()
        new: dict[str, int] = {}
        try:
            with self._engine.begin() as connection:
                self._replay_spill(connection)
                if batch:
                    unknown = [s.layout for s in batch if s.layout.key not in self._layouts]
                    new = scan_rows.layout_ids(connection, unknown, self._layouts)
                    scan_rows.write_scans(connection, batch, {**self._layouts, **new})
                if loss is not None:
                    scan_rows.write_dropped(connection, loss)
        except (ValueError, TypeError) as error:
            return _words(error)
        except (sa.exc.SQLAlchemyError, OSError) as error:
            if isinstance(error, sa.exc.DBAPIError) and not is_outage(error):
                return _words(error)
            self._down(error)
            return ""
        self._up(began_s)
        self._layouts.update(new)
        self.scans += len(batch)
        self.samples += sum(scan.values.size for scan in batch)
        return None

    def _replay_spill(self, connection: sa.Connection) -> None:
        self._replayed = False
        if self._spill is None or not self._spill_due():
            return
        self._refused = 0
        for kind, body in last_told(self._spill.entries()):
            try:
                with connection.begin_nested():
                    self._replay[kind](connection, body)
            except (sa.exc.SQLAlchemyError, LookupError, TypeError, ValueError) as error:
                if is_outage(error):
                    raise
                self._refused += 1
        self._replayed = True

    def _spill_due(self) -> bool:
        return self.spilled > 0 and self._clock.monotonic_s() >= self._replay_after_s

    def _up(self, began_s: float) -> None:
        if self.error is not None:
            _log.info("store_back")
        self.error = None
        self._wait_s = _FIRST_WAIT_S
        self._forget_spill()
        self._committed()
        self.busy_s += self._clock.monotonic_s() - began_s

    def _forget_spill(self) -> None:
        """What was replayed stands in the database now; twice would be harmless, for ever not."""
        if self._spill is None or not self._replayed:
            return
        self._replayed = False
        try:
            if self._refused or self._spill.damaged:
                _log.error("spill_set_aside", file=str(self._spill.set_aside()))
            else:
                self._spill.clear()
        except OSError as error:
            _log.error("spill_not_cleared", error=str(error))
            self._replay_after_s = self._clock.monotonic_s() + _LONGEST_WAIT_S

    def _down(self, error: Exception) -> None:
        if self.error is None:
            _log.error("store_lost", error=_words(error))
        self.error = _words(error)
        self.retry_at_s = self._clock.monotonic_s() + self._wait_s
        self._wait_s = min(2.0 * self._wait_s, _LONGEST_WAIT_S)
        # Layouts written by another transaction that never came to be must not be believed, and
        # a restored database may number them anew.
        self._layouts.clear()
        self._engine.dispose()

    def _fail(self, jobs: Sequence[Job]) -> None:
        why = f"the database cannot be written now: {self.error}"
        for job in jobs:
            job.future.set_exception(StoreUnavailable(why, spilled=self._save(job)))

    def save(self, kind: str, body: Mapping[str, Any]) -> None:
        """Append to the spill file, from any thread.

        Raises:
            OSError: there is none, or its disk is full or gone.
        """
        if self._spill is None:
            raise OSError("this store has no spill file")
        self._spill.append(kind, body)

    def _save(self, job: Job) -> bool:
        if job.spill is None:
            return False
        kind, body = job.spill
        try:
            self.save(kind, body())
        except OSError:
            return False
        return True


def last_told(entries: Sequence[tuple[str, dict[str, Any]]]) -> list[tuple[str, dict[str, Any]]]:
    """The entries, of several intents of one cycle only the last.

    A decision is spilled whole when the journal fails, and again with only those commands that
    are sent without a journal: that is what happened.
    """
    last: dict[Hashable, int] = {}
    for i, (kind, body) in enumerate(entries):
        last[_cycle_of(body) if kind == "intent" else i] = i
    return [entries[i] for i in sorted(last.values())]


def _cycle_of(body: Mapping[str, Any]) -> Hashable:
    return ("intent", body.get("cycle"), body.get("snapshot"), body.get("now_ms"))


def _attempt(connection: sa.Connection, job: Job) -> tuple[Any, Exception | None]:
    try:
        with connection.begin_nested():
            return job.run(connection), None
    except Exception as error:
        if is_outage(error):
            raise
        return None, error


def _words(error: BaseException) -> str:
    """The driver's own words, without statement, parameters or URL."""
    cause = error.orig if isinstance(error, sa.exc.DBAPIError) else error
    return " ".join(str(cause).split()) or type(cause).__name__
