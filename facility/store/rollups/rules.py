"""What the store must be told about points, since it knows no profile and no facility file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from facility.points import PointId
from facility.store.rollups.counters import CounterRule, default_rule
from facility.store.rollups.edges import SiteDays

_DAY_MS: Final = 86_400_000


@dataclass(frozen=True, slots=True)
class RetentionDays:
    """How long something is kept, days; what is older may go.

    Attributes:
        raw: every sample.
        quarters: roll-ups of 15 minutes.
        days: roll-ups of a day.
    """

    raw: float = 30.0
    quarters: float = 5 * 365.25
    days: float = 5 * 365.25

    @property
    def raw_ms(self) -> int:
        """`raw` in milliseconds."""
        return round(self.raw * _DAY_MS)


def _default_counter(point: PointId) -> CounterRule:
    return default_rule(point.kind)


def _default_keep(_: PointId) -> RetentionDays:
    return RetentionDays()


@dataclass(frozen=True)
class PointRules:
    """How points are rolled up and how long they are kept.

    Attributes:
        site: its calendar.
        counter: the rule of a counter.
        keep: how long a point's samples and roll-ups are kept.
    """

    site: SiteDays = field(default_factory=SiteDays)
    counter: Callable[[PointId], CounterRule] = _default_counter
    keep: Callable[[PointId], RetentionDays] = _default_keep


def default_rules() -> PointRules:
    """UTC days, plausible counters, everything kept for the default times."""
    return PointRules()
