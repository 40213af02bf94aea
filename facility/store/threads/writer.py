"""The one writer: a thread of its own, or in line where time is virtual."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import Final

from facility.clock import Clock
from facility.points import Scan
from facility.store.errors import StoreClosed, StoreUnavailable
from facility.store.threads.committer import Committer
from facility.store.threads.inbox import MOST_AT_ONCE, Inbox, Job, Portion, Urgency

#: A scan waits at most this long for company; with the time of one transaction it stays below
#: the second that kill -9 may cost.
FLUSH_AFTER_S: Final = 0.4
#: How often a thread with nothing else to do looks whether an outage is over.
RETRY_S: Final = 0.5


class Writer:
    """Takes scans and jobs from any thread; writes them from one.

    Args:
        inline: no thread; jobs are committed before `submit` returns, scans when they are due at
            the next call.
    """

    def __init__(self, committer: Committer, inbox: Inbox, clock: Clock, *, inline: bool) -> None:
        self._committer = committer
        self._inbox = inbox
        self._clock = clock
        self._portion = Portion()
        self._wake = threading.Condition()
        self._flushes: list[Future[None]] = []
        self._running: list[Job] = []
        self._closing = False
        self._thread: threading.Thread | None = None
        if not inline:
            self._thread = threading.Thread(target=self._run, name="store-writer", daemon=True)
            self._thread.start()

    def put(self, scan: Scan) -> None:
        """Queue a scan; never waits for the database."""
        now_s = self._clock.monotonic_s()
        with self._wake:
            if self._closing:
                self._inbox.lose(scan, "closed")
                return
            first = self._inbox.oldest_s() is None
            self._inbox.add_scan(scan, now_s)
            if self._thread is not None:
                if first:
                    self._wake.notify()
                return
            due = self._scans_due(now_s)
        if due:
            self._write_scans()

    def waiting_s(self) -> float:
        """How long the oldest queued scan has waited; 0 if none does."""
        with self._wake:
            oldest_s = self._inbox.oldest_s()
        return 0.0 if oldest_s is None else self._clock.monotonic_s() - oldest_s

    def submit(self, job: Job) -> None:
        """Queue a job; its future tells when it is committed."""
        with self._wake:
            if self._closing:
                job.future.set_exception(StoreClosed("the store is closed"))
                return
            if self._thread is not None:
                if self._inbox.add_job(job):
                    self._wake.notify()
                else:
                    job.future.set_exception(StoreUnavailable("too much waits to be written"))
                return
        self._committer.run_jobs([job])

    def flush(self) -> Future[None]:
        """Write every scan queued so far now; done when committed."""
        done: Future[None] = Future()
        if self._thread is None:
            self._drain()
            self._end_flush(done)
            return done
        with self._wake:
            if self._closing:
                done.set_exception(StoreClosed("the store is closed"))
            else:
                self._flushes.append(done)
                self._wake.notify()
        return done

    def close(self) -> None:
        """Write what waits, then stop; with the database away, what waits is lost and counted."""
        with self._wake:
            if self._closing:
                return
            self._closing = True
            self._wake.notify()
        if self._thread is not None:
            self._thread.join()
        else:
            self._drain()
        with self._wake:
            for _, scan in self._inbox.take_scans(self._inbox.samples + 1):
                self._inbox.lose(scan, "closed")

    def _run(self) -> None:
        try:
            self._write_until_closed()
        except BaseException as error:
            # A bug of ours. Whoever waits must hear of it; nobody may go on believing.
            with self._wake:
                self._closing = True
                waiting = [*self._running, *self._inbox.take_every_job()]
                orphans = [*(job.future for job in waiting), *self._flushes]
            for future in orphans:
                if not future.done():
                    future.set_exception(StoreClosed(f"the writer ended: {error!r}"))
            raise

    def _write_until_closed(self) -> None:
        while True:
            with self._wake:
                while not self._something_to_do():
                    self._wake.wait(self._idle_s())
                self._running = self._inbox.take_jobs()
                if not self._running and self._committer.wants_a_try():
                    self._running = [Job(Urgency.JOURNAL, lambda _: None)]
                flushes = tuple(self._flushes)
                closing = self._closing
                due = bool(flushes) or closing or self._scans_due(self._clock.monotonic_s())
            self._committer.run_jobs(self._running)
            if closing:
                self._drain()
            elif due and self._inbox.scans and self._write_scans() and self._inbox.scans:
                flushes = ()  # there is more, after the jobs that came meanwhile
            for done in flushes:
                self._end_flush(done)
            with self._wake:
                del self._flushes[: len(flushes)]
                if closing and not self._inbox.has_jobs:
                    return

    def _something_to_do(self) -> bool:
        if self._inbox.has_jobs or self._closing or self._flushes:
            return True
        if self._committer.wants_a_try():
            return True
        return self._scans_due(self._clock.monotonic_s())

    def _scans_due(self, now_s: float) -> bool:
        oldest_s = self._inbox.oldest_s()
        due_s = oldest_s is not None and now_s - oldest_s >= FLUSH_AFTER_S
        return due_s and now_s >= self._committer.retry_at_s

    def _idle_s(self) -> float | None:
        """Seconds until there may be something to do unasked; None: nothing."""
        oldest_s = self._inbox.oldest_s()
        if oldest_s is not None:
            due_s = max(oldest_s + FLUSH_AFTER_S, self._committer.retry_at_s)
        elif self._committer.error is not None or self._committer.spilled:
            due_s = self._clock.monotonic_s() + RETRY_S
        else:
            return None
        return max(due_s - self._clock.monotonic_s(), 0.001)

    def _drain(self) -> None:
        while self._inbox.scans and self._write_scans():
            pass

    def _write_scans(self) -> bool:
        """One batch; False if the database is away."""
        began_s = self._clock.monotonic_s()
        with self._wake:
            before = self._inbox.samples
            # Small transactions are for those who wait; nobody waits as long as lost scans do.
            most = MOST_AT_ONCE if self._inbox.half_full else self._portion.samples
            batch = self._inbox.take_scans(most)
            taken = before - self._inbox.samples
            loss = self._inbox.take_loss()
        refused = self._committer.write_scans([scan for _, scan in batch], loss)
        self._portion.took(taken, self._clock.monotonic_s() - began_s)
        if refused is None:
            return True
        with self._wake:
            if loss is not None:
                self._inbox.return_loss(loss)
            if refused:
                for _, scan in batch:
                    self._inbox.lose(scan, refused)
            else:
                self._inbox.return_scans(batch)
        return bool(refused)

    def _end_flush(self, done: Future[None]) -> None:
        if not done.set_running_or_notify_cancel():
            return
        if self._inbox.scans:
            done.set_exception(
                StoreUnavailable(f"the database cannot be written now: {self._committer.error}")
            )
        else:
            done.set_result(None)
