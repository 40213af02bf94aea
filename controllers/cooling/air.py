"""Moist air."""

from __future__ import annotations

import numpy as np

from facility.points import FloatArray


def dew_point_c(temperature_c: FloatArray, humidity: FloatArray) -> FloatArray:
    """Dew point in °C from °C and relative humidity (0–1).

    Magnus formula with the WMO coefficients 17.62 and 243.12 °C; NaN where an input is NaN or the
    humidity is not above zero.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        humid = np.where(humidity > 0.0, humidity, np.nan)
        g = np.log(humid) + 17.62 * temperature_c / (243.12 + temperature_c)
        return np.asarray(243.12 * g / (17.62 - g), dtype=np.float64)
