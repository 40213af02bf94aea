"""Drills, running and over."""

from __future__ import annotations

from concurrent.futures import Future

from facility.drills import Drill
from facility.store.parts.base import Part
from facility.store.rows import drills as rows


class Drills(Part):
    """What was drilled, by whom, and what was measured."""

    def save_drill(self, drill: Drill) -> Future[None]:
        """Write one, or what has become of it."""
        return self._write(lambda c: rows.save(c, drill))

    def drills(self, limit: int = 1000) -> Future[list[Drill]]:
        """The newest first."""
        return self._ask(lambda c: rows.listed(c, limit))
