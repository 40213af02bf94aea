"""One liquid loop: racks, CDUs, primary water, dry cooler and trim chiller.

Lumps: return (hot) and supply (cold) side of the secondary, and the primary water. Each CDU is a
counter-flow exchanger whose equal-percentage valve a PI moves within its stroke time; its two
pumps share its flow. The dry cooler's fans hold the primary an approach below the set-point, the
chiller trims what the fans cannot. Every watt that enters is either stored or rejected.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from drivers.sim.plant.parameters import (
    PG25_J_PER_L_K,
    PG25_W_PER_LPM_K,
    WATER_J_PER_L_K,
    WATER_W_PER_LPM_K,
    LoopData,
)
from drivers.sim.plant.rejection import chiller_cop, counter_flow, cross_flow
from facility.config import Loop, Power


@dataclass
class Cdu:
    """State of one coolant distribution unit.

    Attributes:
        setpoint_c: what its controller holds.
        valve: 0 shut to 1 open.
        spin: speed of each pump, 0 to 1.
        flow_lpm: secondary flow through it.
        heat_w: across its exchanger.
        power_w: electrical.
        stuck: the valve does not move.
        alive: it has power and is not lost.
    """

    name: str
    load: str
    rating_w: float
    setpoint_c: float
    valve: float = 0.6
    integral: float = 0.6
    spin: list[float] = field(default_factory=lambda: [1.0, 1.0])
    flow_lpm: float = 0.0
    primary_lpm: float = 0.0
    primary_return_c: float = 30.0
    heat_w: float = 0.0
    power_w: float = 0.0
    stuck: bool = False
    alive: bool = True


@dataclass(frozen=True)
class LoopSize:
    """Sizes of a loop's plant in SI, from the file's heat capacity and flow."""

    flow_lpm: float
    heat_w: float
    ua_w_k: float
    primary_lpm: float
    cooler_ua_w_k: float
    cooler_air_w_k: float
    fan_w: float
    chiller_w: float
    hot_j_k: float
    cold_j_k: float
    primary_j_k: float

    @classmethod
    def of(cls, loop: Loop, data: LoopData) -> LoopSize:
        """Size the exchangers for the stated heat at the stated approaches."""
        heat, flow = loop.heat_capacity, max(loop.design_flow, 1.0)
        secondary = flow * PG25_W_PER_LPM_K
        ua = secondary * (heat / secondary) / data.approach_k
        primary = secondary * data.primary_excess
        air, ntu = data.air_ratio * primary, data.air_ntu
        need = heat / data.itd_k
        # The nominal cooler may reject more or less than the stated heat: scale it to the stated.
        scale = need / cross_flow(ntu * min(air, primary), primary, air)
        litres = data.secondary_l_per_kw * heat / 1000.0
        return cls(
            flow_lpm=flow,
            heat_w=heat,
            ua_w_k=ua,
            primary_lpm=primary / WATER_W_PER_LPM_K,
            cooler_ua_w_k=ntu * min(air, primary) * scale,
            cooler_air_w_k=air * scale,
            fan_w=data.fan_share * heat,
            chiller_w=data.chiller_share * heat,
            hot_j_k=litres * (1.0 - data.cold_share) * PG25_J_PER_L_K,
            cold_j_k=litres * data.cold_share * PG25_J_PER_L_K,
            primary_j_k=data.primary_l_per_kw * heat / 1000.0 * WATER_J_PER_L_K,
        )


def cooler_w_per_k(size: LoopSize, fan: float, primary_w_k: float) -> float:
    """Heat of the dry cooler per kelvin between returning water and ambient, W/K."""
    if fan <= 0.0:
        return 0.0
    return cross_flow(size.cooler_ua_w_k * fan**0.6, primary_w_k, size.cooler_air_w_k * fan)


class LoopPlant:
    """A loop in motion.

    Attributes:
        supply_c, return_c, primary_c: lumps: to the racks, from the racks, to the CDUs.
        fan, chiller: 0 to 1.
        level: reservoir, 0 to 1.
        rejected_j, injected_j: running totals for the energy balance.
        cooling_w: fans, pumps, controls and chiller, electrical.
    """

    def __init__(
        self, name: str, loop: Loop, power: Power, data: LoopData, setpoint_c: float
    ) -> None:
        self.name = name
        self.config = loop
        self.data = data
        self.size = LoopSize.of(loop, data)
        ratings = {load: entry.rating for load, entry in power.loads.items()}
        spare = 0.03 * loop.heat_capacity / max(len(loop.cdus), 1)
        self.cdus = [
            Cdu(cdu, load, ratings.get(load, spare), setpoint_c) for cdu, load in loop.cdus.items()
        ]
        self.supply_c = setpoint_c
        self.return_c = setpoint_c + 8.0
        self.primary_c = setpoint_c - data.primary_approach_k
        self.primary_return_c = self.primary_c
        self.fan, self.fan_integral = 0.5, 0.5
        self.chiller = 0.0
        self.chiller_heat_w = 0.0
        self.level = 0.9
        self.flow_lpm = self.size.flow_lpm
        self.fan_w = 0.0
        self.chiller_power_w = 0.0
        self.cooling_w = 0.0
        self.heat_w = 0.0
        self.injected_j = 0.0
        self.rejected_j = 0.0
        pump_drop = 1.0 - loop.flow_one_pump_lost
        cdu_drop = 1.0 - loop.flow_one_cdu_lost
        count = len(self.cdus)
        self._pump_drop = min(pump_drop, cdu_drop) if count > 1 else pump_drop
        self._cdu_drop = cdu_drop if count > 1 else 1.0

    @property
    def flow_ratio(self) -> float:
        """Secondary flow as a share of design."""
        return self.flow_lpm / self.size.flow_lpm

    @property
    def setpoint_c(self) -> float:
        """What the running CDUs hold (their mean; of all when none runs)."""
        running = [c for c in self.cdus if c.alive] or self.cdus
        return sum(c.setpoint_c for c in running) / len(running) if running else math.nan

    @property
    def stored_j(self) -> float:
        """Heat stored above 0 degC, J."""
        size = self.size
        return (
            size.hot_j_k * self.return_c
            + size.cold_j_k * self.supply_c
            + size.primary_j_k * self.primary_c
        )

    def _pump(self, dt_s: float, running: list[tuple[bool, bool]]) -> None:
        """Spin the pumps; share out the flow. `running` says which pumps turn."""
        step = min(dt_s / self.data.pump_spin_s, 1.0)
        drop, living = 0.0, 0.0
        contributions: list[float] = []
        for cdu, turning in zip(self.cdus, running, strict=True):
            spin = cdu.spin
            for i in (0, 1):
                aim = 1.0 if turning[i] else 0.0
                spin[i] += step * (aim - spin[i])
                if abs(aim - spin[i]) < 1e-4:
                    spin[i] = aim
            more, less = max(spin), min(spin)
            lost = more * (1.0 - less) * self._pump_drop + (1.0 - more) * self._cdu_drop
            drop += lost
            living = max(living, more)
            contributions.append(more * max(1.0 / len(self.cdus) - lost, 0.05))
        self.flow_lpm = self.size.flow_lpm * max(1.0 - drop, 0.0) * (1.0 if living > 0.0 else 0.0)
        if self.level < 0.1:
            self.flow_lpm *= self.level / 0.1
        whole = sum(contributions)
        for cdu, part in zip(self.cdus, contributions, strict=True):
            cdu.flow_lpm = self.flow_lpm * part / whole if whole > 0.0 else 0.0
            pump_w = self.data.pump_share * cdu.rating_w / 2.0
            turned = cdu.spin[0] ** 3 + cdu.spin[1] ** 3
            cdu.power_w = pump_w * turned + (self.data.controls_w if cdu.alive else 0.0)

    def _move_valve(self, cdu: Cdu, dt_s: float) -> None:
        if cdu.stuck or not cdu.alive:
            return
        data = self.data
        error = self.supply_c - cdu.setpoint_c
        wanted = cdu.integral + data.valve_gain * error
        if 0.0 < wanted < 1.0 or (wanted <= 0.0) == (error > 0.0):
            cdu.integral = min(max(cdu.integral + data.valve_reset * error * dt_s, 0.0), 1.0)
        reach = dt_s / data.valve_stroke_s
        cdu.valve += min(max(min(max(wanted, 0.0), 1.0) - cdu.valve, -reach), reach)

    def step(
        self,
        dt_s: float,
        heat_w: float,
        ambient_c: float,
        running: list[tuple[bool, bool]],
        leaking: bool = False,
    ) -> None:
        """Move on by dt.

        Args:
            dt_s: seconds.
            heat_w: from the racks into the return side.
            ambient_c: outdoor dry bulb.
            running: per CDU, which of its two pumps turn.
            leaking: a hose is open.
        """
        data, size = self.data, self.size
        self._pump(dt_s, running)
        drop = data.leak_per_s if leaking else -data.make_up_per_s
        self.level = min(max(self.level - drop * dt_s, 0.0), 0.9)
        exchanged, out_c_flow, secondary = 0.0, 0.0, 0.0
        pumps_w, power_w = 0.0, 0.0
        count = max(len(self.cdus), 1)
        warm = self.return_c - self.primary_c
        for cdu in self.cdus:
            self._move_valve(cdu, dt_s)
            opening = data.valve_rangeability ** (cdu.valve - 1.0)
            cdu.primary_lpm = size.primary_lpm / count * opening
            c_primary = cdu.primary_lpm * WATER_W_PER_LPM_K
            c_secondary = cdu.flow_lpm * PG25_W_PER_LPM_K
            cdu.heat_w = counter_flow(size.ua_w_k / count, c_secondary, c_primary) * warm
            cdu.primary_return_c = self.primary_c + cdu.heat_w / c_primary
            exchanged += cdu.heat_w
            secondary += c_secondary
            out_c_flow += c_secondary * self.return_c - cdu.heat_w
            controls = data.controls_w if cdu.alive else 0.0
            pumps_w += cdu.power_w - controls
            power_w += cdu.power_w
        self._reject(dt_s, exchanged, ambient_c)
        cold_flow = out_c_flow - secondary * self.supply_c
        hot_flow = secondary * (self.supply_c - self.return_c)
        self.return_c += dt_s * (heat_w + pumps_w + hot_flow) / size.hot_j_k
        self.supply_c += dt_s * cold_flow / size.cold_j_k
        self.heat_w = exchanged
        self.injected_j += dt_s * (heat_w + pumps_w)
        self.cooling_w = power_w + self.fan_w + self.chiller_power_w

    def _reject(self, dt_s: float, exchanged_w: float, ambient_c: float) -> None:
        """Fans, chiller and the primary lump."""
        data, size = self.data, self.size
        target = self.setpoint_c - data.primary_approach_k
        error = self.primary_c - target
        wanted = self.fan_integral + 0.08 * error
        if 0.0 < wanted < 1.0 or (wanted <= 0.0) == (error > 0.0):
            self.fan_integral = min(max(self.fan_integral + 0.004 * error * dt_s, 0.0), 1.0)
        reach = dt_s / data.fan_ramp_s
        self.fan += min(max(min(max(wanted, 0.0), 1.0) - self.fan, -reach), reach)
        self.fan_w = size.fan_w * self.fan**3
        # The dry cooler sees the whole pumped primary; the valves only divert it past the CDUs.
        pumped = size.primary_lpm * WATER_W_PER_LPM_K
        self.primary_return_c = self.primary_c + exchanged_w / max(pumped, 1.0)
        cooled = cooler_w_per_k(size, self.fan, pumped) * (self.primary_return_c - ambient_c)
        trim = 0.25 * (error - 0.5) if self.fan > 0.98 else -1.0
        trim = min(max(trim, -1.0), 1.0)
        locked = ambient_c > data.chiller_lockout_c
        ramp = dt_s / data.chiller_ramp_s
        self.chiller = min(max(self.chiller + ramp * (-4.0 if locked else trim), 0.0), 1.0)
        self.chiller_heat_w = size.chiller_w * self.chiller
        cop = chiller_cop(self.primary_c, ambient_c, data.chiller_lift_k, data.chiller_carnot)
        self.chiller_power_w = self.chiller_heat_w / cop
        rejected = cooled + self.chiller_heat_w
        self.primary_c += dt_s * (exchanged_w - rejected) / size.primary_j_k
        self.rejected_j += dt_s * rejected
