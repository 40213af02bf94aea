"""Single-cord drills, and what they proved."""

from __future__ import annotations

from concurrent.futures import Future

from facility.cords import CordDrill
from facility.store.parts.base import Part
from facility.store.rows import cords as rows


class Cords(Part):
    """Which cord was opened when, by whom, and what the meters showed."""

    def save_cord_drill(self, drill: CordDrill) -> Future[None]:
        """Write one, or what has become of it."""
        return self._write(lambda c: rows.save(c, drill))

    def cord_drills(self, limit: int = 1000) -> Future[list[CordDrill]]:
        """The newest first."""
        return self._ask(lambda c: rows.listed(c, limit))

    def signed_cords(self) -> Future[list[CordDrill]]:
        """Of each cord, as declared then, the newest drill that signed it."""
        return self._ask(rows.signed)
