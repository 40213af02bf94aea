"""Small parts that controllers are made of; each a pure function of its past and the present."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from facility.points import FloatArray


def slew(present: float, target: float, up: float, down: float) -> float:
    """Move from `present` towards `target` by at most `up` or `down` (both >= 0)."""
    return min(max(target, present - down), present + up)


def dwelt(last_s: float | None, now_s: float, dwell_s: float) -> bool:
    """Whether at least `dwell_s` have passed since the last event (None: there was none)."""
    return last_s is None or now_s - last_s >= dwell_s


def above(value: float, was: bool, set_at: float, clear_at: float) -> bool:
    """Hysteresis: true from `set_at` up, false again only below `clear_at` (<= set_at).

    An unknown value (NaN) changes nothing.
    """
    if math.isnan(value):
        return was
    return value >= clear_at if was else value >= set_at


@dataclass(frozen=True, slots=True)
class Delayed:
    """A condition with an on-delay and an off-delay.

    Attributes:
        on: the delayed condition.
        since_s: since when the raw condition has differed from `on`; None while they agree.
    """

    on: bool = False
    since_s: float | None = None

    def step(self, raw: bool, now_s: float, on_delay_s: float, off_delay_s: float) -> Delayed:
        """The condition one observation later."""
        if raw == self.on:
            return Delayed(self.on, None)
        since = now_s if self.since_s is None else self.since_s
        wait = on_delay_s if raw else off_delay_s
        return Delayed(raw, None) if now_s - since >= wait else Delayed(self.on, since)


def low_pass(past: FloatArray, present: FloatArray, dt_s: float, tau_s: float) -> FloatArray:
    """First-order filter, element by element; starts at the first value that is a number."""
    weight = 1.0 - math.exp(-max(dt_s, 0.0) / tau_s)
    moved = past + weight * (present - past)
    return np.where(np.isnan(past), present, np.where(np.isnan(present), past, moved))


@dataclass(frozen=True, eq=False)
class Extremes:
    """Sliding extreme of a vector over a window, in buckets.

    Attributes:
        buckets: float64[B, n], newest first; NaN where nothing was seen.
        started_s: when the newest bucket began; None before the first value.
    """

    buckets: FloatArray
    started_s: float | None = None

    @classmethod
    def empty(cls, buckets: int, n: int) -> Extremes:
        """Nothing seen yet."""
        return cls(np.full((buckets, n), np.nan))

    def take(self, values: FloatArray, now_s: float, width_s: float, *, least: bool) -> Extremes:
        """Add one observation (NaN: none); buckets older than the window fall off the end."""
        pick = np.fmin if least else np.fmax
        buckets, started = self.buckets, self.started_s
        if started is None:
            started = now_s
        turns = int((now_s - started) // width_s)
        if turns > 0:
            kept = max(len(buckets) - turns, 0)
            fresh = np.full((len(buckets) - kept, buckets.shape[1]), np.nan)
            buckets = np.concatenate([fresh, buckets[:kept]])
            started += turns * width_s
        else:
            buckets = buckets.copy()
        buckets[0] = pick(buckets[0], values)
        return Extremes(buckets, started)

    def least(self) -> FloatArray:
        """float64[n]: least of the window, NaN where nothing was seen."""
        return np.asarray(np.fmin.reduce(self.buckets, axis=0), dtype=np.float64)

    def greatest(self) -> FloatArray:
        """float64[n]: greatest of the window, NaN where nothing was seen."""
        return np.asarray(np.fmax.reduce(self.buckets, axis=0), dtype=np.float64)
