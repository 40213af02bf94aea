"""The air of the hall: takes what the liquid does not, gives it to the room units."""

from __future__ import annotations

from drivers.sim.plant.parameters import RoomData
from drivers.sim.plant.psychrometrics import dew_point_c, humidity_at


class Room:
    """One well-mixed air lump.

    Attributes:
        air_c: room air as racks draw it in.
        dew_c: its dew point.
        heat_w: handed to the room units.
        power_w: electricity of the room units.
    """

    def __init__(self, data: RoomData, stated_air_w: float) -> None:
        self._data = data
        stated = max(stated_air_w, 1000.0)
        self._conductance_w_k = stated / data.rise_k
        self._capacity_j_k = data.heat_capacity_j_per_w * stated
        self.air_c = data.supply_c + data.rise_k * 0.7
        self.dew_c = data.dew_point_c
        self.heat_w = 0.0
        self.power_w = 0.0
        self.injected_j = 0.0
        self.rejected_j = 0.0

    def step(self, dt_s: float, heat_w: float, dew_rise_k: float) -> None:
        """Move on by dt with `heat_w` entering the air."""
        data = self._data
        self.heat_w = self._conductance_w_k * (self.air_c - data.supply_c)
        self.power_w = max(self.heat_w, 0.0) / data.units_cop
        self.air_c += dt_s * (heat_w - self.heat_w) / self._capacity_j_k
        aim = data.dew_point_c + data.outdoor_coupling * dew_rise_k
        self.dew_c += min(dt_s / 60.0, 1.0) * (aim - self.dew_c)
        self.injected_j += dt_s * heat_w
        self.rejected_j += dt_s * self.heat_w

    @property
    def stored_j(self) -> float:
        """Heat stored above 0 degC, J."""
        return self._capacity_j_k * self.air_c

    def humidity(self, air_c: float) -> float:
        """Relative humidity (0 to 1) of room air warmed or cooled to `air_c`."""
        return humidity_at(air_c, self.dew_c)

    @property
    def dew_point_check_c(self) -> float:
        """Dew point recomputed from temperature and humidity, as a sensor would."""
        return dew_point_c(self.air_c, self.humidity(self.air_c))
