"""What people take out of service."""

from __future__ import annotations

from concurrent.futures import Future

from facility.maintenance import Maintenance
from facility.store.parts.base import Part
from facility.store.records import MaintenanceRecord
from facility.store.rows import maintenance as rows


class Works(Part):
    """Maintenance, planned, open and over."""

    def add_maintenance(self, work: Maintenance) -> Future[None]:
        """Write one."""
        return self._write(lambda c: rows.add(c, work))

    def end_maintenance(self, id: str, by: str) -> Future[None]:  # noqa: A002
        """End one early; the future raises UnknownRecord for none."""
        return self._write(lambda c: rows.end(c, id, by, self._clock.utc_ms()))

    def maintenance(
        self, active: bool = True, limit: int = 1000
    ) -> Future[list[MaintenanceRecord]]:
        """Newest start first; `active`: neither ended nor over, planned ones included."""
        return self._ask(lambda c: rows.listed(c, active, self._clock.utc_ms(), limit))
