"""Drills: a loss that is only declared, so that caps come down and it is measured how fast.

What a drill proves is T_shed, the time in which load really comes off (control law 1,
"Corrective"): the p99 of the drills of the last 30 days times 1.5, never less than 5 s.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import numpy as np

from facility.points import FloatArray

DrillState = Literal["running", "restoring", "done", "aborted", "failed"]
#: States in which a drill is over.
OVER: Final[frozenset[DrillState]] = frozenset({"done", "aborted", "failed"})

#: A drill proves nothing for longer than this.
PROVES_MS: Final = 30 * 86_400_000
#: What is measured in a drill is not the worst there is.
SAFETY: Final = 1.5
LEAST_SHED_S: Final = 5.0
#: A shed that takes longer has failed.
LONGEST_S: Final = 30.0


@dataclass(frozen=True)
class Drill:
    """One drill.

    Attributes:
        element: the declared loss.
        started_ms, ended_ms: UTC ms; `ended_ms` None while it runs.
        report: what was measured, plain JSON; times in s, power in W.
    """

    id: str
    element: str
    by: str
    reason: str
    started_ms: int
    ended_ms: int | None = None
    state: DrillState = "running"
    report: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Shed:
    """What the cycle must do for a drill.

    Attributes:
        caps_w: float64[N], W per GPU; NaN for nodes that are not concerned.
        until_s: monotonic; it ends by itself.
    """

    id: str
    element: str
    caps_w: FloatArray
    until_s: float


@dataclass(frozen=True, slots=True)
class Shedding:
    """How fast load comes off here.

    Attributes:
        shed_s: T_shed, s: p99 of the drills x 1.5, at least 5 s.
        drilled_ms: end of the newest drill that was done, UTC ms.
        drills: how many count.
    """

    shed_s: float
    drilled_ms: int
    drills: int

    @property
    def lease_s(self) -> float:
        """The longest that an agent's lease may live in corrective mode, s."""
        return self.shed_s / 2.0 - 1.0


def shedding(drills: Iterable[Drill], now_ms: int) -> Shedding | None:
    """What the drills of the last 30 days prove; None: nothing."""
    slowest, newest, count = 0.0, 0, 0
    for drill in drills:
        ended_ms = drill.ended_ms
        if drill.state != "done" or ended_ms is None or not 0 <= now_ms - ended_ms < PROVES_MS:
            continue
        slowest = max(slowest, float(drill.report["shed_s"]["p99"]))
        newest, count = max(newest, ended_ms), count + 1
    if not count:
        return None
    return Shedding(max(SAFETY * slowest, LEAST_SHED_S), newest, count)


def spread(seconds: Iterable[float]) -> dict[str, float] | None:
    """p50, p99 and max, s; None of nothing. The p99 is a time that was measured, not between."""
    found = np.array(sorted(seconds))
    if not len(found):
        return None
    p50, p99 = np.percentile(found, [50.0, 99.0], method="higher")
    return {
        "p50": round(float(p50), 3),
        "p99": round(float(p99), 3),
        "max": round(float(found[-1]), 3),
    }
