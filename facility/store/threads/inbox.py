"""What waits to be written: jobs that must not be lost, and scans that may be, oldest first.

Plain data without locks; `facility.store.threads.writer` guards it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Final

import sqlalchemy as sa

from facility.points import Scan
from facility.store.records import DroppedRecord


class Urgency(IntEnum):
    """Which jobs go first; scans come after those of people and control.

    BACKGROUND jobs (compaction, retention) come when nothing else waits, each in a transaction
    of its own, so that nobody waits for more than one of them.
    """

    JOURNAL = 0
    ALARMS = 1
    BACKGROUND = 2


@dataclass
class Job:
    """One piece of writing, committed before its future is done.

    Attributes:
        run: does it, inside an open transaction.
        spill: kind and body for the spill file, if it must survive an outage.
    """

    urgency: Urgency
    run: Callable[[sa.Connection], Any]
    spill: tuple[str, Callable[[], Mapping[str, Any]]] | None = None
    future: Future[Any] = field(default_factory=Future)


#: Samples of one transaction: where the database keeps up, and where it takes long.
MOST_AT_ONCE: Final = 250_000
FEWEST_AT_ONCE: Final = 25_000
#: A transaction of scans that takes longer than this lets the journal wait too long.
LONG_S: Final = 0.1


class Portion:
    """How many samples the next transaction takes, by how long those before it took.

    Attributes:
        samples: so many.
    """

    def __init__(self) -> None:
        self.samples = MOST_AT_ONCE

    def took(self, samples: int, seconds: float) -> None:
        """Learn from a transaction."""
        if seconds > LONG_S:
            self.samples = max(round(samples * max(LONG_S / seconds, 0.5)), FEWEST_AT_ONCE)
        elif samples >= self.samples and seconds < LONG_S / 2:
            self.samples = min(2 * self.samples, MOST_AT_ONCE)


class Inbox:
    """Bounded: scans by their samples, jobs by their number.

    Args:
        max_samples: a sample is 9 bytes and a share of its scan's object.
        max_jobs: beyond it a job is refused to its caller's face, never dropped silently.
    """

    def __init__(self, max_samples: int, max_jobs: int) -> None:
        self.max_samples = max_samples
        self._max_jobs = max_jobs
        self._jobs: tuple[deque[Job], ...] = tuple(deque() for _ in Urgency)
        self._scans: deque[tuple[float, Scan]] = deque()
        self.samples = 0
        self.dropped_scans = 0
        self.dropped_samples = 0
        self._loss: DroppedRecord | None = None

    @property
    def scans(self) -> int:
        """Scans waiting."""
        return len(self._scans)

    @property
    def has_jobs(self) -> bool:
        """Whether any job waits."""
        return any(self._jobs)

    def oldest_s(self) -> float | None:
        """When the oldest waiting scan was queued (monotonic), None without one."""
        return self._scans[0][0] if self._scans else None

    def add_scan(self, scan: Scan, now_s: float) -> None:
        """Queue a scan; drops and counts the oldest ones where the bound is passed."""
        self._scans.append((now_s, scan))
        self.samples += scan.values.size
        self._trim()

    def add_job(self, job: Job) -> bool:
        """Queue a job; False if there are too many."""
        if sum(map(len, self._jobs)) >= self._max_jobs:
            return False
        self._jobs[job.urgency].append(job)
        return True

    def take_jobs(self, limit: int = 256) -> list[Job]:
        """The most urgent jobs, in order; one in the background only where there are no others."""
        taken: list[Job] = []
        *urgent, background = self._jobs
        for queue in urgent:
            while queue and len(taken) < limit:
                taken.append(queue.popleft())
        if background and not taken:
            taken.append(background.popleft())
        return taken

    def take_every_job(self) -> list[Job]:
        """All jobs, for a writer that ends."""
        taken = [job for queue in self._jobs for job in queue]
        for queue in self._jobs:
            queue.clear()
        return taken

    @property
    def half_full(self) -> bool:
        """Whether scans come so much faster than they are written that some will soon be lost."""
        return 2 * self.samples > self.max_samples

    def take_scans(self, max_samples: int = MOST_AT_ONCE) -> list[tuple[float, Scan]]:
        """The oldest scans, up to about a number of samples."""
        taken: list[tuple[float, Scan]] = []
        room = max_samples
        while self._scans and room > 0:
            taken.append(self._scans.popleft())
            room -= taken[-1][1].values.size
        self.samples -= max_samples - room
        return taken

    def return_scans(self, batch: list[tuple[float, Scan]]) -> None:
        """Put back what could not be written; it is the oldest, so the bound bites it first."""
        self._scans.extendleft(reversed(batch))
        self.samples += sum(scan.values.size for _, scan in batch)
        self._trim()

    def lose(self, scan: Scan, reason: str) -> None:
        """Count a scan that is gone."""
        n = scan.values.size
        self.dropped_scans += 1
        self.dropped_samples += n
        at_ms = scan.received_ms
        held = self._loss
        self._loss = (
            DroppedRecord(at_ms, at_ms, 1, n, reason)
            if held is None
            else DroppedRecord(
                min(held.from_ms, at_ms),
                max(held.to_ms, at_ms),
                held.scans + 1,
                held.samples + n,
                held.reason,
            )
        )

    def take_loss(self) -> DroppedRecord | None:
        """What was lost since the last time, for the ledger."""
        loss, self._loss = self._loss, None
        return loss

    def return_loss(self, loss: DroppedRecord) -> None:
        """Keep a loss that could not be written to the ledger yet."""
        held = self._loss
        self._loss = (
            loss
            if held is None
            else DroppedRecord(
                min(held.from_ms, loss.from_ms),
                max(held.to_ms, loss.to_ms),
                held.scans + loss.scans,
                held.samples + loss.samples,
                loss.reason,
            )
        )

    def _trim(self) -> None:
        while self.samples > self.max_samples and self._scans:
            _, scan = self._scans.popleft()
            self.samples -= scan.values.size
            self.lose(scan, "queue full")
