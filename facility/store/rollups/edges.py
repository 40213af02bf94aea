"""Where buckets begin: quarters of an hour, and the site's calendar days of 23, 24 or 25 hours.

Every zone's offset has been a multiple of 15 minutes since 1972, so a quarter of the site's time
is a quarter of UTC, and a day of the site is a whole number of quarters.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

QUARTER_MS: Final = 900_000
HOUR_MS: Final = 3_600_000


def _midnight_ms(day: date, zone: ZoneInfo) -> int:
    """When a local day begins; where the clocks skip midnight, the moment they skip it."""
    local = datetime(day.year, day.month, day.day, tzinfo=zone)
    return round(local.timestamp()) * 1000


def day_edges(from_ms: int, to_ms: int, zone: ZoneInfo) -> list[int]:
    """Begins of the local days that touch [from_ms, to_ms), and the end of the last one.

    Args:
        from_ms: UTC milliseconds.
        to_ms: later than `from_ms`.
        zone: the site's.

    Returns:
        rising UTC milliseconds, at least two; a date that a zone left out has no entry.
    """
    first = datetime.fromtimestamp(from_ms / 1000.0, UTC).astimezone(zone).date()
    last = datetime.fromtimestamp((to_ms - 1) / 1000.0, UTC).astimezone(zone).date()
    edges: list[int] = []
    day = first - timedelta(days=1)
    while day <= last + timedelta(days=2):
        edge = _midnight_ms(day, zone)
        if not edges or edge > edges[-1]:
            edges.append(edge)
        day += timedelta(days=1)
    begin = bisect_right(edges, from_ms) - 1
    end = next(i for i, edge in enumerate(edges) if edge >= to_ms)
    return edges[begin : end + 1]


@dataclass(frozen=True)
class SiteDays:
    """The calendar of one site.

    Attributes:
        timezone: IANA name.
    """

    timezone: str = "UTC"
    _zone: ZoneInfo = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_zone", ZoneInfo(self.timezone))

    def edges(self, from_ms: int, to_ms: int) -> list[int]:
        """See `day_edges`."""
        return day_edges(from_ms, to_ms, self._zone)

    def day_of(self, at_ms: int) -> tuple[int, int]:
        """Begin and end of the day that holds a moment."""
        begin, end = self.edges(at_ms, at_ms + 1)[:2]
        return begin, end
