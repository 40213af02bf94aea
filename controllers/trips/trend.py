"""Where the load of each element is going: the straight line through its last 15 minutes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from facility.points import FloatArray

#: Fifteen minutes of one-minute means, and one that is only begun.
BUCKETS: Final = 16
BUCKET_S: Final = 60.0
#: Fewer whole minutes than this are no trend.
LEAST_MINUTES: Final = 10
#: A line that explains less of what the load did than this is none: a step has at most 0.75.
FIT: Final = 0.8
#: A rise over the window of less than this part of the limit is drift of the meters.
RISE: Final = 0.01


@dataclass(frozen=True, eq=False)
class TrendMemory:
    """Means by the minute.

    Attributes:
        sums: float64[BUCKETS, E], W summed over observations, newest bucket first.
        counts: float64[BUCKETS, E], how many there were.
        started_s: when the newest bucket began; None before the first observation.
    """

    sums: FloatArray = field(default_factory=lambda: np.zeros((0, 0)))
    counts: FloatArray = field(default_factory=lambda: np.zeros((0, 0)))
    started_s: float | None = None

    def take(self, load_w: FloatArray, now_s: float) -> TrendMemory:
        """Add one observation; NaN counts as none.

        Args:
            load_w: float64[E], W.
            now_s: monotonic.
        """
        shape = (BUCKETS, len(load_w))
        sums, counts, started = self.sums, self.counts, self.started_s
        if started is None or sums.shape != shape:
            sums, counts, started = np.zeros(shape), np.zeros(shape), now_s
        turns = int((now_s - started) // BUCKET_S)
        if turns > 0:
            kept = max(BUCKETS - turns, 0)
            fresh = np.zeros((BUCKETS - kept, len(load_w)))
            sums = np.concatenate([fresh, sums[:kept]])
            counts = np.concatenate([fresh, counts[:kept]])
            started += turns * BUCKET_S
        else:
            sums, counts = sums.copy(), counts.copy()
        known = ~np.isnan(load_w)
        sums[0, known] += load_w[known]
        counts[0, known] += 1.0
        return TrendMemory(sums, counts, started)


def minutes_to_limit(memory: TrendMemory, limit_w: FloatArray) -> FloatArray:
    """float64[E]: minutes until the line through the last 15 min meets the limit; inf: never.

    NaN where too little is known. A load that stepped, fell, or only wobbled has no such moment;
    one that is at its limit has passed it (0).

    Args:
        memory: means by the minute.
        limit_w: float64[E], what may flow for hours; inf: no limit.
    """
    n = len(limit_w)
    if memory.sums.shape[1] != n:
        return np.full(n, np.nan)
    count = memory.counts[1:]
    known = count > 0.0
    have = known.sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = np.where(known, memory.sums[1:] / count, 0.0)
        # Minutes before now of the middle of each whole bucket; the newest of them is row 0.
        at = -(np.arange(BUCKETS - 1)[:, None] + 1.0)
        middle_t = np.where(known, at, 0.0).sum(axis=0) / have
        middle_w = mean.sum(axis=0) / have
        dt = np.where(known, at - middle_t, 0.0)
        dw = np.where(known, mean - middle_w, 0.0)
        slope = (dt * dw).sum(axis=0) / (dt * dt).sum(axis=0)
        fit = slope * (dt * dw).sum(axis=0) / (dw * dw).sum(axis=0)
        now_w = middle_w - slope * middle_t
        minutes = np.maximum((limit_w - now_w) / slope, 0.0)
        rising = (slope > 0.0) & (fit >= FIT) & (slope * have > RISE * limit_w)
    out = np.where(rising & np.isfinite(limit_w), minutes, np.inf)
    return np.where(have >= LEAST_MINUTES, out, np.nan)
