"""The closed list of checks, in the words that people see, and what a failed one is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, get_args

from drivers.profile import Check

APPARENT: Final[Check] = "apparent power = voltage x current"
ACTIVE: Final[Check] = "active power within voltage x current"
WITHIN: Final[Check] = "active power within apparent power"
SUM: Final[Check] = "sum of the parts = total"
PARTS: Final[Check] = "sum of the parts within total"
LINES: Final[Check] = "line voltage = sqrt(3) x phase voltage"
DELTA: Final[Check] = "line current = currents of its two legs"
HEAT: Final[Check] = "heat = flow x temperature difference"
DEW: Final[Check] = "dew point = from temperature and humidity"
ENERGY: Final[Check] = "energy = power x time"
MOVES: Final[Check] = "moves with its neighbours"

CHECKS: Final[tuple[str, ...]] = get_args(Check)


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One check of one part, in words."""

    check: str
    part: str
    ok: bool
    detail: str


@dataclass(frozen=True, slots=True)
class Doubt:
    """A check that has failed and stands.

    Attributes:
        points: `part:kind` of the points that it makes SUSPECT.
        since_ms: UTC ms of the look that settled it.
    """

    check: str
    part: str
    detail: str
    points: tuple[str, ...]
    since_ms: int

    def __str__(self) -> str:
        return f"{self.part}: {self.check} fails ({self.detail})"
