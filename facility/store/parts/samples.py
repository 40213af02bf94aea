"""Scans in, the past out."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future

from facility.points import PointId, Scan
from facility.store.parts.base import Part
from facility.store.records import DroppedRecord, Sample, Series
from facility.store.rows import history as history_rows
from facility.store.rows import scans as scan_rows


class Samples(Part):
    """Raw samples."""

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
