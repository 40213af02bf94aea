"""What the hall cannot choose: weather and offered load, both seeded functions of time."""

from __future__ import annotations

import math

import numpy as np

from drivers.sim.plant.parameters import DemandData, WeatherData
from facility.points import FloatArray


class Weather:
    """Outdoor air: a daily wave around a seeded mean, starting in mid-morning."""

    def __init__(self, data: WeatherData, rng: np.random.Generator) -> None:
        self._data = data
        self._mean_c = data.mean_c + data.spread_c * float(rng.uniform(-1.0, 1.0))
        self._dew_c = data.dew_point_c + float(rng.uniform(-0.5, 0.5))

    def ambient_c(self, t_s: float) -> float:
        """Dry bulb at `t_s` seconds of the run."""
        return self._mean_c + self._data.daily_k * math.sin(2.0 * math.pi * t_s / 86400.0)

    def dew_point_c(self, t_s: float) -> float:
        """Outdoor dew point."""
        return self._dew_c + 0.5 * math.sin(2.0 * math.pi * t_s / 86400.0 + 1.0)


class Demand:
    """Offered load of each node, share of what it serves at full power."""

    def __init__(self, data: DemandData, nodes: int, rng: np.random.Generator) -> None:
        self._data = data
        self._mean: FloatArray = data.mean + data.node_spread * rng.uniform(-1.0, 1.0, nodes)
        waves = len(data.periods_s)
        self._phase: FloatArray = rng.uniform(0.0, 2.0 * np.pi, (waves, nodes))
        self._rate: FloatArray = 2.0 * np.pi / np.array(data.periods_s)[:, None]
        beats = len(data.ripple_periods_s)
        self._beat: FloatArray = rng.uniform(0.0, 2.0 * np.pi, (beats, nodes))
        self._beat_rate: FloatArray = 2.0 * np.pi / np.array(data.ripple_periods_s)[:, None]

    def shares(self, t_s: float) -> FloatArray:
        """float64[N] at `t_s` seconds of the run."""
        waves = np.sin(self._rate * t_s + self._phase).sum(axis=0)
        shares = self._mean + self._data.wave * waves
        return np.asarray(np.clip(shares, self._data.least, self._data.most))

    def ripple(self, t_s: float) -> FloatArray:
        """float64[N]: swing of a capped board's draw at `t_s`, share of its cap."""
        beats = np.sin(self._beat_rate * t_s + self._beat).sum(axis=0)
        return np.asarray(self._data.ripple * beats)
