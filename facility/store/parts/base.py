"""What every part stands on: the writer, the readers, the clock."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any, TypeVar

import sqlalchemy as sa

from facility.clock import Clock
from facility.store.threads.committer import Committer
from facility.store.threads.inbox import Job, Urgency
from facility.store.threads.readers import Readers
from facility.store.threads.writer import Writer

T = TypeVar("T")


class Part:
    """Hands writes to the writer and questions to the readers.

    Attributes:
        hall: whose journal this is.
    """

    hall: str
    _clock: Clock
    _committer: Committer
    _writer: Writer
    _engine: sa.Engine
    _readers: Readers
    _background: Readers
    _inline: bool

    def _write(
        self,
        run: Callable[[sa.Connection], T],
        urgency: Urgency = Urgency.ALARMS,
        spill: tuple[str, Callable[[], Mapping[str, Any]]] | None = None,
    ) -> Future[T]:
        job = Job(urgency, run, spill)
        self._writer.submit(job)
        return job.future

    def _later(self, run: Callable[[sa.Connection], T]) -> Future[T]:
        """Write when nothing else waits."""
        return self._write(run, Urgency.BACKGROUND)

    def _ask(self, question: Callable[[sa.Connection], T]) -> Future[T]:
        if self._inline:
            self._writer.flush()
        return self._readers.ask(question)
