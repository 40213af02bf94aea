"""What every controller speaks: conditions that may become alarms, and proposals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from facility.commands import Bounds, Proposal, Rank, Severity
from facility.points import PointId


@dataclass(frozen=True, slots=True)
class Condition:
    """Something that is so in this cycle and may be worth an alarm.

    Attributes:
        kind: e.g. `redundancy_lost`.
        subject: element, rack, node, device, loop or point.
        text: a sentence with numbers, and what to do.
        page: whether a person is woken, if nothing else explains it.
        on_delay_s, off_delay_s: own delays; None: the site's.
        about: what this hangs on (racks, elements, devices): if one of them is dead, the alarm of
            the dead thing explains this one.
    """

    kind: str
    subject: str
    severity: Severity
    text: str
    page: bool = False
    on_delay_s: float | None = None
    off_delay_s: float | None = None
    about: tuple[str, ...] = ()
    numbers: Mapping[str, float | None] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """Stable identity of the alarm."""
        return f"{self.kind}:{self.subject}"


def must(point: PointId, low: float, high: float, reason: str, source: str) -> Proposal:
    """Protection: the value must lie in [low, high]."""
    return Proposal(point, Rank.PROTECTION, Bounds(low, high), None, reason, source)


def would(point: PointId, value: float, reason: str, source: str) -> Proposal:
    """Efficiency: the value it would choose inside whatever room is left."""
    free = Bounds(float("-inf"), float("inf"))
    return Proposal(point, Rank.EFFICIENCY, free, value, reason, source)


def told(point: PointId, value: float, reason: str, lease: str) -> Proposal:
    """An operator's override: exactly this value, inside what protection leaves."""
    return Proposal(point, Rank.OPERATOR, Bounds(value, value), value, reason, f"override:{lease}")
