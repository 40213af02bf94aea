"""Tokens against watts: the curve of one GPU, its slope, and where a watt earns its price.

x = (C − C0)/k, T = Tm·x/(1 + xⁿ)^(1/n) above C0, 0 below. Source: the control laws, §3; fitted to
measured sweeps of seven GPU types. T is concave above C0; below the tangent from a cap at which
it is zero it is not, and there a GPU either runs above the tangent point or is parked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from facility import config
from facility.points import FloatArray, IntArray
from facility.topology.graph import BoolArray

#: Idle share and knee of the greatest cap, and sharpness, where nobody stated or learned a curve:
#: medians of published power-cap sweeps (C0/max 0.13-0.31, knee 0.5-0.78, n 4-6).
PRIOR_SHARES: Final = (0.2, 0.65, 5.0)
#: The same for the big Blackwell parts, whose idle share is lower.
PRIOR_BLACKWELL: Final = (0.14, 0.65, 5.0)
_BLACKWELL: Final = ("b200", "b300", "gb200", "gb300")


def prior_curve(gpu: str, max_cap_w: float) -> config.Curve:
    """The shape assumed for a GPU type; one token a second at full speed, so no claim of tokens."""
    shares = PRIOR_BLACKWELL if gpu.lower() in _BLACKWELL else PRIOR_SHARES
    idle, knee, sharp = shares
    return config.Curve.model_construct(
        tm=1.0, c0=idle * max_cap_w, k=(knee - idle) * max_cap_w, n=sharp
    )


@dataclass(frozen=True)
class Curves:
    """Curves of many nodes side by side; every array is float64[N].

    Attributes:
        tm: tok/s of one GPU; c0, k: W; n: sharpness.
        gain: worth of one tok/s of one GPU of the node × GPUs of the node.
        demand: tok/s that one GPU is offered (× 1.2), inf where not known.
    """

    tm: FloatArray
    c0: FloatArray
    k: FloatArray
    n: FloatArray
    gain: FloatArray
    demand: FloatArray

    def tokens(self, cap_w: FloatArray) -> FloatArray:
        """float64[N]: tok/s of one GPU at a cap, demand not regarded."""
        x = np.maximum(cap_w - self.c0, 0.0) / self.k
        return np.asarray(self.tm * x * _power_of_one_plus(x, self.n, -1.0 / self.n))

    def served(self, cap_w: FloatArray) -> FloatArray:
        """float64[N]: tok/s of one GPU, at most what it is offered."""
        return np.minimum(self.tokens(cap_w), self.demand)

    def worth(self, cap_w: FloatArray) -> FloatArray:
        """float64[N]: worth of a node's tokens."""
        return self.gain * self.served(cap_w)

    def slope(self, cap_w: FloatArray) -> FloatArray:
        """float64[N]: worth of one more watt of cap, 0 below C0 and where demand is met."""
        x = np.maximum(cap_w - self.c0, 0.0) / self.k
        raw = self.tm / self.k * _power_of_one_plus(x, self.n, -(self.n + 1.0) / self.n)
        lives = (cap_w >= self.c0) & (self.tokens(cap_w) < self.demand)
        return np.asarray(np.where(lives, self.gain * raw, 0.0))

    def bend(self, cap_w: FloatArray) -> FloatArray:
        """float64[N]: −d²worth/dC², at least 0."""
        x = np.maximum(cap_w - self.c0, 0.0) / self.k
        shape = _power_of_one_plus(x, self.n, -(2.0 * self.n + 1.0) / self.n)
        root = np.power(np.maximum(x, 1e-12), self.n - 1.0)
        return np.asarray(self.gain * (self.n + 1.0) * self.tm / self.k**2 * root * shape)

    def at_price(self, price: FloatArray) -> FloatArray:
        """float64[N]: the cap above C0 whose slope is `price` (worth per W of cap of the node).

        x = ((Tm·v/(k·p))^(n/(n+1)) − 1)^(1/n); C0 where even the first watt costs more than it
        earns, inf at a price of zero.
        """
        with np.errstate(divide="ignore", over="ignore"):
            ratio = self.gain * self.tm / (self.k * np.maximum(price, 0.0))
            inner = np.power(ratio, self.n / (self.n + 1.0)) - 1.0
            x = np.power(np.maximum(inner, 0.0), 1.0 / self.n)
        return np.asarray(self.c0 + self.k * x)

    def cap_for(self, tokens: FloatArray) -> FloatArray:
        """float64[N]: least cap that gives `tokens` per GPU; inf where none does."""
        y = tokens / self.tm
        within = y < 1.0
        safe = np.where(within, y, 0.0)
        x = safe / np.power(1.0 - np.power(safe, self.n), 1.0 / self.n)
        return np.asarray(np.where(within, self.c0 + self.k * x, np.inf))

    def take(self, which: IntArray | BoolArray) -> Curves:
        """The curves of some nodes."""
        fields = (self.tm, self.c0, self.k, self.n, self.gain, self.demand)
        return Curves(*(values[which] for values in fields))


def _power_of_one_plus(x: FloatArray, n: FloatArray, exponent: FloatArray) -> FloatArray:
    """(1 + xⁿ)^exponent without overflow."""
    with np.errstate(divide="ignore"):
        logs = np.logaddexp(0.0, n * np.log(x))
    return np.asarray(np.exp(exponent * logs))


def best_cap(curve: config.Curve, overhead_w: float) -> float:
    """The cap with the most tokens per watt of cap plus `overhead_w`, all per GPU.

    C* = C0 + k·((C0 + h)/k)^(1/(n+1)); h = 0 gives board tokens per joule.
    """
    base = (curve.c0 + overhead_w) / curve.k
    return curve.c0 + curve.k * float(base ** (1.0 / (curve.n + 1.0)))


@dataclass(frozen=True)
class Units:
    """Nodes that share one cap, as one thing with a value per watt.

    Attributes:
        curves: of the nodes; unit: int64[N], which unit each belongs to.
        low, high: float64[U], W per GPU.
        start: float64[U]; the tangent point: caps strictly between `low` and `start` are useless.
        uniform: bool[U]; all members have one curve, so that the closed form holds.
    """

    curves: Curves
    unit: IntArray
    low: FloatArray
    high: FloatArray
    start: FloatArray
    uniform: BoolArray
    _first: IntArray
    _gain: FloatArray

    @classmethod
    def of(cls, curves: Curves, unit: IntArray, low: FloatArray, high: FloatArray) -> Units:
        """Find tangent points and whether members are alike."""
        count = len(low)
        first = np.full(count, len(unit), dtype=np.int64)
        np.minimum.at(first, unit, np.arange(len(unit)))
        same = np.ones(len(unit), dtype=np.bool_)
        for values in (curves.tm, curves.c0, curves.k, curves.n, curves.demand):
            same &= values == values[first[unit]]
        uniform = np.ones(count, dtype=np.bool_)
        np.logical_and.at(uniform, unit, same)
        gain = np.bincount(unit, curves.gain, count).astype(np.float64)
        half = cls(curves, unit, low, high, low, uniform, first, gain)
        start = half._tangent()
        return cls(curves, unit, low, high, start, uniform, first, gain)

    def alike(self) -> Curves:
        """One curve per unit: the first member's with the worth of all, right where uniform."""
        one = self.curves.take(self._first)
        return Curves(one.tm, one.c0, one.k, one.n, self._gain, one.demand)

    def only(self, which: IntArray) -> Units:
        """Some of the units, by number, as units of their own."""
        place = np.full(len(self.low), -1, dtype=np.int64)
        place[which] = np.arange(len(which))
        on = np.flatnonzero(place[self.unit] >= 0)
        curves, unit = self.curves.take(on), place[self.unit[on]]
        return Units.of(curves, unit, self.low[which], self.high[which])

    def worth(self, cap_w: FloatArray) -> FloatArray:
        """float64[U]: worth of all members at a cap per unit."""
        node = self.curves.worth(cap_w[self.unit])
        return np.bincount(self.unit, node, len(self.low)).astype(np.float64)

    def slope(self, cap_w: FloatArray) -> FloatArray:
        """float64[U]: worth per watt of the unit's cap."""
        node = self.curves.slope(cap_w[self.unit])
        return np.bincount(self.unit, node, len(self.low)).astype(np.float64)

    def bend(self, cap_w: FloatArray) -> FloatArray:
        """float64[U]: how fast the slope falls."""
        node = self.curves.bend(cap_w[self.unit])
        return np.bincount(self.unit, node, len(self.low)).astype(np.float64)

    def respond(self, price: FloatArray) -> FloatArray:
        """float64[U]: the best cap between `start` and `high` at a price per watt of cap."""
        alike = self.alike()
        cap = np.minimum(alike.at_price(price), alike.cap_for(alike.demand))
        if not self.uniform.all():
            cap = np.where(self.uniform, cap, self._bisect(price))
        return np.clip(cap, self.start, self.high)

    def best(self, price: FloatArray) -> FloatArray:
        """float64[U]: as `respond`, or `low` where parking pays better."""
        cap = self.respond(price)
        runs = self.worth(cap) - price * cap
        parked = self.worth(self.low) - price * self.low
        return np.where(runs >= parked, cap, self.low)

    def chord(self) -> FloatArray:
        """float64[U]: worth per watt of cap from `low` to `start`; inf where they are one."""
        width = self.start - self.low
        rise = self.worth(self.start) - self.worth(self.low)
        return np.where(width > 0.0, rise / np.where(width > 0.0, width, 1.0), np.inf)

    def _bisect(self, price: FloatArray) -> FloatArray:
        low, high = self.start.copy(), self.high.copy()
        for _ in range(60):
            middle = 0.5 * (low + high)
            more = self.slope(middle) > price
            low, high = np.where(more, middle, low), np.where(more, high, middle)
        return low

    def _tangent(self) -> FloatArray:
        """Where the line from (low, worth(low)) touches the curve; `low` where it is concave.

        With all members alike the line starts at no tokens and touches where T/(C − low) is
        greatest: C0 + k·((C0 − low)/k)^(1/(n+1)).
        """
        knee = np.zeros(len(self.low))
        np.maximum.at(knee, self.unit, self.curves.c0)
        convex = self.low < knee
        if not convex.any():
            return self.low
        one = self.curves.take(self._first)
        bow = np.maximum(one.c0 - self.low, 0.0) / one.k
        touch = np.clip(one.c0 + one.k * np.power(bow, 1.0 / (one.n + 1.0)), self.low, self.high)
        if bool(np.any(convex & ~self.uniform)):
            touch = np.where(self.uniform, touch, self._touch(knee))
        return np.where(convex, touch, self.low)

    def _touch(self, knee: FloatArray) -> FloatArray:
        """The tangent point above the last knee, by bisection."""
        left, right = np.clip(knee, self.low, self.high), self.high.copy()
        base = self.worth(self.low)
        for _ in range(60):
            middle = 0.5 * (left + right)
            short = self.worth(middle) - base < self.slope(middle) * (middle - self.low)
            left, right = np.where(short, middle, left), np.where(short, right, middle)
        return right


def stack(
    curves: Sequence[config.Curve],
    gpus: Sequence[int],
    worth: Sequence[float],
    demand_per_gpu: Sequence[float],
) -> Curves:
    """Lay curves side by side; `worth` is per token/s of one GPU."""
    array = np.array([(c.tm, c.c0, c.k, c.n) for c in curves], dtype=np.float64).reshape(-1, 4)
    gain = np.array(worth, dtype=np.float64) * np.array(gpus, dtype=np.float64)
    demand = np.array(demand_per_gpu, dtype=np.float64)
    return Curves(array[:, 0], array[:, 1], array[:, 2], array[:, 3], gain, demand)
