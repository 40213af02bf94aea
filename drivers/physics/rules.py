"""Laws that readings of one device obey, as small objects over their places in a list of values.

Each rule is asked with two lists, the lowest and the highest value that each point showed of late
(the same list twice for one look), and fails only if no choice between them fits: a meter's
readings are seconds apart, and a load that swings is no contradiction. Slack covers what rounding
explains: the step of each register enters. A NaN among its points means that nothing is judged.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, Protocol

#: readings of one look are seconds apart in the device, and meters round
TOLERANCE: Final = 0.12
#: what rounding alone explains at small loads, VA
SLACK_VA: Final = 15.0
#: most and least active power of a product of volts and amperes, once there is a load
MOST: Final = 1.05
LEAST: Final = 0.05
#: from this many times its slack on a fit means something
FIRM: Final = 4.0

ONE: Final = (1.0,)
#: nobody says how many phases an inlet has: one, three with volts between lines, three to neutral
PHASES: Final = (1.0, math.sqrt(3.0), 3.0)

Values = Sequence[float]


class Rule(Protocol):
    """One law at one part."""

    @property
    def check(self) -> str:
        """Its name in the closed list."""

    @property
    def part(self) -> str:
        """Where it is told."""

    @property
    def members(self) -> tuple[int, ...]:
        """Places of the points that it speaks of."""

    @property
    def equal(self) -> bool:
        """Whether it is an equality: what fits it is vouched for."""

    def fits(self, low: Values, high: Values) -> bool | None:
        """Whether it holds; None when a point is missing."""

    def firm(self, values: Values) -> bool:
        """Whether there is enough of everything for a fit to mean something."""

    def words(self, values: Values) -> str:
        """The numbers, for people."""


def sizes(low: float, high: float) -> tuple[float, float]:
    """Least and greatest size of a value between two: its sign says only which way it flows."""
    return max(low, -high, 0.0), max(high, -low)
