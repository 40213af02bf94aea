"""What units ask for at a price: the hot path, every unit of a class in one sweep.

With s = 1 + xⁿ the slope of a curve is v·g·Tm/k·s^(−(n+1)/n), so a price gives s, s gives x, and x
gives the cap, its tokens and how fast the cap gives way; all through one logarithm of s.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from controllers.allocation.curves import Units
from facility.points import FloatArray, IntArray
from facility.topology.graph import BoolArray

#: Least price that is told from none, and least −d²worth/dC² of a curve that counts as bent.
TINY, STRAIGHT = 1e-300, 1e-18


@dataclass(frozen=True, eq=False)
class Answer:
    """Per unit of the class: cap, its worth, and W that the cap gives way per unit of price."""

    cap_w: FloatArray
    worth: FloatArray
    give: FloatArray


class Response:
    """Best caps between tangent point and greatest cap, or the least where a unit is parked."""

    def __init__(self, units: Units, which: IntArray) -> None:
        one = units.alike().take(which)
        self.low, self.start, self.high = (a[which] for a in (units.low, units.start, units.high))
        # Where demand is met a watt more earns nothing.
        self.top = np.clip(one.cap_for(one.demand), self.start, self.high)
        self._c0, self._k, self._n = one.c0, one.k, one.n
        self._full = one.gain * one.tm
        with np.errstate(divide="ignore"):
            self._log = np.log(one.gain * one.tm / one.k)
        self._share = one.n / (one.n + 1.0)
        self._bend = one.gain * one.tm * (one.n + 1.0) / one.k**2
        self._mixed: IntArray = np.flatnonzero(~units.uniform[which])
        self._jobs = units.only(which[self._mixed]) if len(self._mixed) else None
        if self._jobs is not None:
            self.top[self._mixed] = self.high[self._mixed]
        ends = (self.low, self.start, self.top)
        self.worth_low, self.worth_start, self.worth_top = (
            self._worth_of(units, which, cap) for cap in ends
        )

    @staticmethod
    def _worth_of(units: Units, which: IntArray, cap_w: FloatArray) -> FloatArray:
        whole = units.low.copy()
        whole[which] = cap_w
        return units.worth(whole)[which]

    def at(self, price: FloatArray, runs: BoolArray) -> Answer:
        """The answer at prices of a watt of cap, float64[u]; where not `runs`, the least cap."""
        log_s = self._share * (self._log - np.log(np.maximum(price, TINY)))
        log_s = np.clip(log_s, TINY, 700.0)
        log_x = np.log(np.expm1(log_s)) / self._n
        cap = self._c0 + self._k * np.exp(np.minimum(log_x, 700.0))
        worth = self._full * np.exp(log_x - log_s / self._n)
        bend = self._bend * np.exp((self._n - 1.0) * log_x - (2.0 + 1.0 / self._n) * log_s)
        below, above = cap <= self.start, cap >= self.top
        cap = np.where(below, self.start, np.where(above, self.top, cap))
        worth = np.where(below, self.worth_start, np.where(above, self.worth_top, worth))
        inside = ~below & ~above & runs
        give = np.where(inside, 1.0 / np.maximum(bend, STRAIGHT), 0.0)
        if self._jobs is not None:
            m, jobs = self._mixed, self._jobs
            own = np.clip(jobs.respond(price[m]), self.start[m], self.high[m])
            cap[m], worth[m] = own, jobs.worth(own)
            bent = np.maximum(jobs.bend(own), STRAIGHT)
            moves = (own > self.start[m]) & (own < self.high[m]) & runs[m]
            give[m] = np.where(moves, 1.0 / bent, 0.0)
        if not runs.all():
            cap = np.where(runs, cap, self.low)
            worth = np.where(runs, worth, self.worth_low)
        return Answer(cap, worth, give)
