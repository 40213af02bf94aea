"""What the store does for itself while nobody asks: compaction, and PostgreSQL's partitions."""

from __future__ import annotations

from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import Final

import sqlalchemy as sa

from facility.store.compaction import SETTLE_MS, Beside, Compacted, Compaction
from facility.store.parts.base import Part
from facility.store.retention import Retention, Retired
from facility.store.rolling import Rolling
from facility.store.rollups import PointRules
from facility.store.rows import partitions, rollups

#: A day is summed up this long after its end: its last hour is compacted by then.
LATE_MS: Final = 2 * 3_600_000


class Tidying(Part):
    """Long work, in a thread of its own; it hands the writer one short transaction at a time."""

    rules: PointRules

    def compact(
        self, beside: Beside | None = None, settle_ms: int = SETTLE_MS
    ) -> Future[Compacted]:
        """Turn the hours that are over into chunks; see `facility.store.compaction`.

        Args:
            beside: what else is written with each hour; their roll-ups by default.
            settle_ms: how long nothing must have come to an hour.
        """
        if self._inline:
            self._writer.flush()
        now_ms = self._clock.utc_ms()

        def work(engine: sa.Engine) -> Compacted:
            also = beside or Rolling(engine, self.rules)
            return Compaction(engine, self._later, now_ms, also, settle_ms).run()

        return self._background.ask_in_pages(work)

    def settle_days(self) -> Future[int]:
        """Sum up the days of the site that ended long enough ago; how many.

        Hours that are compacted later than that change their day by themselves.
        """
        over_ms = self._clock.utc_ms() - LATE_MS

        def work(engine: sa.Engine) -> int:
            days = 0
            while self._settle_day(engine, over_ms):
                days += 1
            return days

        return self._background.ask_in_pages(work)

    def _settle_day(self, engine: sa.Engine, over_ms: int) -> bool:
        """One day, some points in a transaction; False if none is over."""
        with engine.begin() as connection:
            day = rollups.next_day(connection, self.rules.site, over_ms)
        if day is None:
            return False
        begin_ms, end_ms = day
        self._later(lambda c: rollups.begin_day(c, end_ms)).result()
        last = 0

        def write(connection: sa.Connection) -> int | None:
            ids = rollups.point_numbers(connection, last)
            rollups.write_day(connection, ids, begin_ms, end_ms)
            return ids[-1] if ids else None

        while (reached := self._later(write).result()) is not None:
            last = reached
        self._later(lambda c: rollups.end_day(c, end_ms)).result()
        return True

    def retire(self) -> Future[Retired]:
        """Let go of what is older than its class is kept; see `facility.store.retention`."""
        now_ms = self._clock.utc_ms()
        return self._background.ask_in_pages(
            lambda engine: Retention(engine, self._later, now_ms, self.rules).run()
        )

    def tidy(self) -> Future[list[str]]:
        """PostgreSQL: make partitions ahead, drop emptied ones, give dead rows back.

        Returns:
            names of the partitions made or dropped; none on SQLite.
        """
        now_ms = self._clock.utc_ms()

        def work(_: sa.Engine) -> list[str]:
            changed: list[str] = []
            for one in (partitions.make_ahead, partitions.drop_emptied):
                with suppress(partitions.Busy):  # the next round will find it free
                    changed += self._later(partial(one, now_ms=now_ms)).result()
            partitions.vacuum(self._engine)
            return changed

        return self._background.ask_in_pages(work)
