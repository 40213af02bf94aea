"""What the store does for itself while nobody asks: compaction, and PostgreSQL's partitions."""

from __future__ import annotations

from concurrent.futures import Future

import sqlalchemy as sa

from facility.store.compaction import SETTLE_MS, Beside, Compacted, Compaction
from facility.store.parts.base import Part
from facility.store.rows import partitions


class Tidying(Part):
    """Long work, in a thread of its own; it hands the writer one short transaction at a time."""

    def compact(
        self, beside: Beside | None = None, settle_ms: int = SETTLE_MS
    ) -> Future[Compacted]:
        """Turn the hours that are over into chunks; see `facility.store.compaction`.

        Args:
            beside: what else is written with each hour.
            settle_ms: how long nothing must have come to an hour.
        """
        if self._inline:
            self._writer.flush()
        now_ms = self._clock.utc_ms()
        return self._background.ask_in_pages(
            lambda engine: Compaction(engine, self._later, now_ms, beside, settle_ms).run()
        )

    def tidy(self) -> Future[list[str]]:
        """PostgreSQL: make partitions ahead, drop emptied ones, give dead rows back.

        Returns:
            names of the partitions made or dropped; none on SQLite.
        """
        now_ms = self._clock.utc_ms()

        def work(_: sa.Engine) -> list[str]:
            made = self._later(lambda c: partitions.make_ahead(c, now_ms)).result()
            gone = self._later(lambda c: partitions.drop_emptied(c, now_ms)).result()
            partitions.vacuum(self._engine)
            return made + gone

        return self._background.ask_in_pages(work)
