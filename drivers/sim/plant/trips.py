"""Trip clocks: how much of its overload band each element has used up.

x' = 1/T(r) above the rating, x' = -x/T(first band) below it, tripped at x = 1; r = load/rating.
The bands are the stated ones with their times cut by `harshness`; an element that states none and
carries a breaker gets the plant's default.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from drivers.sim.plant.electrical import Network
from drivers.sim.plant.parameters import ElectricalData
from facility.config import Power
from facility.points import FloatArray

_WITHOUT_BREAKER = frozenset({"source", "transformer", "shelf"})


class TripClocks:
    """One clock per element.

    Attributes:
        used: float64[E], 0 (rested) to 1 (tripped).
        bands: per element the (ratio, seconds) bands in force; empty: never trips.
    """

    def __init__(self, power: Power, network: Network, data: ElectricalData) -> None:
        self._rating_w = network.rating_w
        self.used: FloatArray = np.zeros(len(network.elements))
        self.bands: list[tuple[tuple[float, float], ...]] = []
        self._inverse: list[bool] = []
        self._hot_c: list[float] = []
        for element, rating in zip(power.elements.values(), self._rating_w, strict=True):
            stated = element.overload
            if not stated and element.kind not in _WITHOUT_BREAKER:
                stated = data.default_bands
            if not math.isfinite(rating):
                stated = ()
            harsher = tuple((r, t * data.band_harshness) for r, t in sorted(stated))
            self.bands.append(harsher)
            self._inverse.append(element.curve == "inverse")
            self._hot_c.append(math.inf if element.hot is None else element.hot)

    def seconds_allowed(self, element: int, ratio: float, air_c: float) -> float:
        """T(r) of an element above its rating, in seconds."""
        seconds = band_seconds(self.bands[element], ratio, inverse=self._inverse[element])
        return seconds / 2.0 if air_c >= self._hot_c[element] else seconds

    def step(self, dt_s: float, load_w: FloatArray, air_c: float) -> list[int]:
        """Move the clocks on; returns the elements that trip now."""
        over = load_w > self._rating_w
        if not over.any() and not self.used.any():
            return []
        tripped: list[int] = []
        for i in np.flatnonzero(over | (self.used > 0.0)).tolist():
            bands = self.bands[i]
            if not bands or self.used[i] >= 1.0:
                continue
            if over[i]:
                allowed = self.seconds_allowed(i, float(load_w[i] / self._rating_w[i]), air_c)
                self.used[i] = 1.0 if allowed <= dt_s else self.used[i] + dt_s / allowed
                if self.used[i] >= 1.0 - 1e-12:
                    self.used[i] = 1.0
                    tripped.append(i)
            else:
                self.used[i] -= self.used[i] * dt_s / bands[0][1]
                if self.used[i] < 1e-9:
                    self.used[i] = 0.0
        return tripped


def band_seconds(bands: Sequence[tuple[float, float]], ratio: float, *, inverse: bool) -> float:
    """Seconds allowed at load/rating `ratio`, which is above 1.

    The first band whose ratio is not exceeded; between two bands, log-log, if `inverse`; 0 above
    the last.
    """
    before: tuple[float, float] | None = None
    for high, seconds in bands:
        if ratio <= high:
            if not inverse or before is None or seconds <= 0.0 or before[1] <= 0.0:
                return seconds
            part = math.log(ratio / before[0]) / math.log(high / before[0])
            return math.exp(math.log(before[1]) * (1.0 - part) + math.log(seconds) * part)
        before = (high, seconds)
    return 0.0
