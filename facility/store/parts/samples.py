"""Scans in, the past out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future

import sqlalchemy as sa

from facility.points import PointId, Scan
from facility.store.parts.base import Part, T
from facility.store.past import Answer, Question, answer, latest
from facility.store.past.places import numbers
from facility.store.records import DroppedRecord, Sample, Series
from facility.store.rollups import PointRules
from facility.store.rows import scans as scan_rows


class Samples(Part):
    """Raw samples.

    Attributes:
        rules: how points are rolled up and kept.
    """

    rules: PointRules

    def put(self, scan: Scan) -> None:
        """Queue a scan; it is written within a second. Its arrays must not change any more."""
        self._writer.put(scan)

    def flush(self) -> Future[None]:
        """Write what is queued now."""
        return self._writer.flush()

    def latest(self, points: Sequence[PointId]) -> Future[list[Sample]]:
        """The newest stored sample of each point, in the order asked."""
        return self._ask(lambda c: latest(c, points))

    def stored(self, points: Sequence[PointId]) -> Future[frozenset[PointId]]:
        """Those of the points of which anything was ever stored."""
        return self._ask(lambda c: frozenset(numbers(c, points)))

    def history(
        self, point: PointId, from_ms: int, to_ms: int, step_s: float | None = None
    ) -> Future[Series]:
        """The point's past in [from_ms, to_ms): raw, or in buckets of `step_s` whole seconds.

        The future raises HistoryLimit for more than is given at once.
        """
        question = Question((point,), from_ms, to_ms, step_s)
        return self._in_pages(lambda engine: answer(engine, question, self.rules).series[0])

    def past(self, question: Question) -> Future[Answer]:
        """The past of several points; the future raises HistoryLimit for more than is given."""
        return self._in_pages(lambda engine: answer(engine, question, self.rules))

    def _in_pages(self, question: Callable[[sa.Engine], T]) -> Future[T]:
        if self._inline:
            self._writer.flush()
        return self._readers.ask_in_pages(question)

    def dropped(self, limit: int = 100) -> Future[list[DroppedRecord]]:
        """The newest entries of the ledger of lost scans."""
        return self._ask(lambda c: scan_rows.read_dropped(c, limit))
