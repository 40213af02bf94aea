"""Small parts that controllers are made of; each a pure function of its past and the present."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt

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

    Only the newest bucket changes from look to look, so the extreme of the others is kept.

    Attributes:
        newest: float64[n], the bucket that is filled now; NaN where nothing was seen.
        older: float64[B - 1, n], the full ones, newest first.
        started_s: when the newest bucket began; None before the first value.
    """

    newest: FloatArray
    older: FloatArray
    started_s: float | None = None

    @classmethod
    def empty(cls, buckets: int, n: int) -> Extremes:
        """Nothing seen yet."""
        return cls(np.full(n, np.nan), np.full((buckets - 1, n), np.nan))

    def take(self, values: FloatArray, now_s: float, width_s: float, *, least: bool) -> Extremes:
        """Add one observation (NaN: none); buckets older than the window fall off the end."""
        pick = np.fmin if least else np.fmax
        started = self.started_s
        if started is None:
            started = now_s
        turns = int((now_s - started) // width_s)
        if turns <= 0:
            after = Extremes(pick(self.newest, values), self.older, started)
            after.__dict__.update(
                {name: self.__dict__[name] for name in _OF_OLDER if name in self.__dict__}
            )
            return after
        full = np.concatenate([self.newest[None, :], self.older])
        kept = max(len(full) - turns, 0)
        gone = np.full((len(full) - kept - 1, len(self.newest)), np.nan)
        older = np.concatenate([gone, full[:kept]])
        nothing = np.full(len(self.newest), np.nan)
        return Extremes(pick(nothing, values), older, started + turns * width_s)

    def forget(self, which: npt.NDArray[np.bool_]) -> Extremes:
        """Nothing was ever seen of those of which `which` (bool[n]) is true."""
        newest = np.where(which, np.nan, self.newest)
        return Extremes(newest, np.where(which[None, :], np.nan, self.older), self.started_s)

    def least(self) -> FloatArray:
        """float64[n]: least of the window, NaN where nothing was seen."""
        return np.asarray(np.fmin(self.newest, self._older_least), dtype=np.float64)

    def greatest(self) -> FloatArray:
        """float64[n]: greatest of the window, NaN where nothing was seen."""
        return np.asarray(np.fmax(self.newest, self._older_greatest), dtype=np.float64)

    @cached_property
    def _older_least(self) -> FloatArray:
        return np.asarray(np.fmin.reduce(self.older, axis=0, initial=np.nan))

    @cached_property
    def _older_greatest(self) -> FloatArray:
        return np.asarray(np.fmax.reduce(self.older, axis=0, initial=np.nan))


#: What a look that fills the same bucket need not work out again.
_OF_OLDER: Final = ("_older_least", "_older_greatest")
