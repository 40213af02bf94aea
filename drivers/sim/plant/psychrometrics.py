"""Moist air: Magnus' formula (WMO, a = 17.62, b = 243.12 degC), valid above -45 degC."""

from __future__ import annotations

import math
from typing import Final

_A: Final = 17.62
_B: Final = 243.12


def dew_point_c(temperature_c: float, humidity: float) -> float:
    """Dew point of air at `humidity` (0 to 1, above 0)."""
    g = math.log(max(humidity, 1e-4)) + _A * temperature_c / (_B + temperature_c)
    return _B * g / (_A - g)


def humidity_at(temperature_c: float, dew_c: float) -> float:
    """Relative humidity (0 to 1) of air whose dew point is `dew_c`."""
    wet = _A * dew_c / (_B + dew_c)
    dry = _A * temperature_c / (_B + temperature_c)
    return min(math.exp(wet - dry), 1.0)
