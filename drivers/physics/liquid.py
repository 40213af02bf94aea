"""Laws of water and air."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Final

from drivers.physics.rules import Values
from drivers.physics.vocabulary import DEW, HEAT

#: W per L/min and K: water at 40 degC 69, PG25 66.8 (CoolProp)
WATER_W: Final = (62.0, 72.0)
#: K between a dew point told and one computed by the formula of Magnus: sensors are good to 2 K
DEW_K: Final = 3.0


@dataclass(frozen=True, slots=True)
class Heat:
    """Heat against flow times temperature difference, where both temperatures are of one loop.

    It can judge only what lies across the load: of a machine that mixes, by-passes or cools freely
    beside the loop, inlet and outlet say nothing of the heat, and their profile must not call them
    supply and return.
    """

    part: str
    heat: int
    flow: int
    supply: int
    back: int
    steps: tuple[float, float, float]
    check: ClassVar[str] = HEAT
    equal: ClassVar[bool] = True

    @property
    def members(self) -> tuple[int, ...]:
        """Heat, flow, supply and return."""
        return self.heat, self.flow, self.supply, self.back

    def fits(self, low: Values, high: Values) -> bool | None:
        """The heat lies between what water and a quarter of glycol would carry."""
        step_w, step_flow, step_c = self.steps
        flows = max(low[self.flow] - 0.5 * step_flow, 0.0), high[self.flow] + 0.5 * step_flow
        spans = low[self.back] - high[self.supply] - step_c, high[self.back] - low[self.supply]
        spans = spans[0], spans[1] + step_c
        a, b = low[self.heat], high[self.heat]
        total = sum(flows) + sum(spans) + a + b
        if total != total:
            return None
        corners = [f * k * s for f in flows for k in WATER_W for s in spans]
        slack = 500.0 + step_w + 0.05 * max(abs(a), abs(b))
        return min(corners) - slack <= b and a <= max(corners) + slack

    def firm(self, values: Values) -> bool:
        """A few kilowatts flow."""
        return abs(values[self.heat]) > 2000.0

    def words(self, values: Values) -> str:
        """`64536 W, 150 L/min x 6.44 K`."""
        span_k = values[self.back] - values[self.supply]
        return f"{values[self.heat]:.0f} W, {values[self.flow]:g} L/min x {span_k:.2f} K"


@dataclass(frozen=True, slots=True)
class Dew:
    """A dew point told against that of the temperature and humidity beside it (Magnus)."""

    part: str
    dew: int
    temperature: int
    humidity: int
    steps: tuple[float, float, float]
    check: ClassVar[str] = DEW
    equal: ClassVar[bool] = True

    @property
    def members(self) -> tuple[int, ...]:
        """Dew point, temperature, humidity."""
        return self.dew, self.temperature, self.humidity

    def fits(self, low: Values, high: Values) -> bool | None:
        """Within 3 K, and the steps of the three registers; dry air is not judged."""
        step_dew, step_c, step_1 = self.steps
        humid = low[self.humidity] - 0.5 * step_1, high[self.humidity] + 0.5 * step_1
        warm = low[self.temperature] - 0.5 * step_c, high[self.temperature] + 0.5 * step_c
        total = sum(humid) + sum(warm) + low[self.dew] + high[self.dew]
        if total != total:
            return None
        slack = DEW_K + step_dew
        most = dew_point_c(warm[1], min(max(humid[1], 0.05), 1.0))
        least = -math.inf if humid[0] < 0.05 else dew_point_c(warm[0], min(humid[0], 1.0))
        return least - slack <= high[self.dew] and low[self.dew] <= most + slack

    def firm(self, values: Values) -> bool:
        """Always."""
        return True

    def words(self, values: Values) -> str:
        """`12.1 degC, air 24 degC and 47 %`."""
        air = f"air {values[self.temperature]:g} degC and {100.0 * values[self.humidity]:g} %"
        return f"{values[self.dew]:g} degC, {air}"


def dew_point_c(air_c: float, humidity: float) -> float:
    """Dew point over water, by Magnus' formula with the constants of Sonntag (1990).

    Args:
        air_c: of the air, degC.
        humidity: relative, above 0 to 1.
    """
    gamma = math.log(humidity) + 17.62 * air_c / (243.12 + air_c)
    return 243.12 * gamma / (17.62 - gamma)
