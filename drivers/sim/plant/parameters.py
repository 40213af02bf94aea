"""What the simulated hall is made of: plant data with sources, and the seeded draws around them.

Controllers cannot import this: they must live with what the facility file states and what the
devices say. Numbers without another source are those of the cooling and token research notes
behind the design (PG25 properties, cold plates, valves, dry coolers, leakage).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

#: Heat capacity flow of PG25 (25 % propylene glycol), W per (L/min) and K; flat to 0.3 % from 20
#: to 60 degC (CoolProp INCOMP::MPG).
PG25_W_PER_LPM_K: Final = 66.8
#: The same for water.
WATER_W_PER_LPM_K: Final = 69.0
#: Heat stored in coolant, J per litre and kelvin.
PG25_J_PER_L_K: Final = 4000.0
WATER_J_PER_L_K: Final = 4150.0

#: Bands of breakers whose file states none: an electronic long-time trip of a class that
#: protects busway joints (ratio of rating, seconds). Real units are slower below 125 %.
DEFAULT_BREAKER: Final = ((1.10, 120.0), (1.25, 30.0), (1.50, 5.0))


@dataclass(frozen=True, slots=True)
class GpuData:
    """One kind of accelerator board on its cold plate.

    Attributes:
        slowdown_c, shutdown_c: junction temperatures of hardware slowdown and of power-off.
        resume_k: how far below slowdown a throttled board must cool before it runs on.
        throttle_share: power of a throttled board as a share of its greatest cap.
        time_constant_s: of die, lid and cold plate at design flow.
        resistance_spread: each board's R lies within +- this share of the nominal one.
        leakage_exponent_per_k: k_l of P_leak = P0·exp(k_l·(T - T_ref)).
        reference_share: power, as a share of the greatest cap, at which dlnP/dT is the stated one.
        reference_supply_c: supply temperature at which the stated token curves hold.
        board_error_share: how much of the site's board accuracy the boards really use up.
        prompt_per_generated: prompt tokens worked off for each token generated.
        air_resistance: K/W of a board in a rack that no liquid loop reaches.
    """

    slowdown_c: float = 82.0
    shutdown_c: float = 91.0
    resume_k: float = 2.0
    throttle_share: float = 0.45
    time_constant_s: float = 12.0
    resistance_spread: float = 0.08
    leakage_exponent_per_k: float = 0.015
    reference_share: float = 0.65
    reference_supply_c: float = 30.0
    board_error_share: float = 0.8
    prompt_per_generated: float = 2.0
    air_resistance: float = 0.05
    memory_clock_hz: float = 2.6e9
    top_clock_hz: float = 1.98e9


@dataclass(frozen=True, slots=True)
class LoopData:
    """One secondary loop with its CDUs, and the primary water behind them.

    Sizes are per watt of the loop's stated heat capacity, so that any facility file gets a plant
    of its own size.

    Attributes:
        approach_k: CDU approach at stated heat and flow with equal heat capacity flows.
        primary_excess: primary flow at an open valve over the secondary flow (heat capacities).
        valve_rangeability: of the equal-percentage valve; f = R^(x-1).
        valve_stroke_s: from shut to open.
        valve_gain, valve_reset: of the CDU's PI on supply temperature, 1/K and 1/(K s).
        secondary_l_per_kw, primary_l_per_kw: coolant held, litres per kW of heat capacity.
        cold_share: part of the secondary volume downstream of the exchanger.
        pump_share: pump power of a CDU at full flow as a share of its electrical rating.
        controls_w: what a CDU draws with its pumps off.
        pump_spin_s: time constant of a pump that starts or stops.
        pump_rpm: at full speed.
        head_kpa: secondary pressure difference at design flow.
        primary_approach_k: how far below the supply set-point the primary is held.
        itd_k: initial temperature difference of the dry cooler at stated heat and full fans.
        air_ntu: number of transfer units of the dry cooler at full air, cross-flow.
        air_ratio: its air to water heat capacity flow ratio at full air.
        fan_share: fan power at full speed, share of heat capacity (25 kW a MW).
        fan_ramp_s: of the fan drives.
        chiller_share: trim chiller capacity as a share of heat capacity.
        chiller_ramp_s, chiller_carnot, chiller_lift_k: ramp, share of Carnot, condenser approach.
        chiller_lockout_c: ambient at which the trim chiller trips on head pressure.
        leak_per_s: share of the reservoir that a burst hose loses each second.
        make_up_per_s: share that the make-up pump returns.
    """

    approach_k: float = 5.0
    primary_excess: float = 1.05
    valve_rangeability: float = 30.0
    valve_stroke_s: float = 60.0
    valve_gain: float = 0.05
    valve_reset: float = 0.0015
    secondary_l_per_kw: float = 0.35
    primary_l_per_kw: float = 0.4
    cold_share: float = 0.4
    pump_share: float = 0.6
    controls_w: float = 300.0
    pump_spin_s: float = 1.5
    pump_rpm: float = 2900.0
    head_kpa: float = 180.0
    primary_approach_k: float = 5.0
    itd_k: float = 20.0
    air_ntu: float = 1.2
    air_ratio: float = 1.0
    fan_share: float = 0.025
    fan_ramp_s: float = 45.0
    chiller_share: float = 0.35
    chiller_ramp_s: float = 60.0
    chiller_carnot: float = 0.5
    chiller_lift_k: float = 12.0
    chiller_lockout_c: float = 33.0
    leak_per_s: float = 0.002
    make_up_per_s: float = 0.0005


@dataclass(frozen=True, slots=True)
class RoomData:
    """The air side: what the liquid does not take.

    Attributes:
        supply_c: air that the room units deliver.
        rise_k: room air over supply air at the stated air heat.
        heat_capacity_j_per_w: thermal mass per watt of stated air heat.
        units_cop: room units' watts of heat per watt of electricity.
        dew_point_c: room dew point on an ordinary day.
        outdoor_coupling: how much of an outdoor dew point rise reaches the room.
    """

    supply_c: float = 22.0
    rise_k: float = 3.0
    heat_capacity_j_per_w: float = 60.0
    units_cop: float = 5.0
    dew_point_c: float = 11.0
    outdoor_coupling: float = 0.6


@dataclass(frozen=True, slots=True)
class WeatherData:
    """Outdoor air: a daily wave around a seeded mean."""

    mean_c: float = 20.0
    spread_c: float = 1.0
    daily_k: float = 4.0
    dew_point_c: float = 11.0


@dataclass(frozen=True, slots=True)
class DemandData:
    """Offered load of each node as a share of what it serves at full power.

    Mostly above 1 (saturated); slow seeded waves of the given periods. `ripple` is how much the
    draw of a capped board swings as batches come and go, share of its cap.
    """

    mean: float = 1.12
    node_spread: float = 0.08
    wave: float = 0.06
    periods_s: tuple[float, ...] = (410.0, 1130.0, 7300.0)
    least: float = 0.8
    most: float = 1.35
    ripple: float = 0.002
    ripple_periods_s: tuple[float, ...] = (5.3, 11.9, 29.0)


@dataclass(frozen=True, slots=True)
class ElectricalData:
    """What breakers, boards and meters really do.

    Attributes:
        band_harshness: real trip times as a share of the stated ones (10 % harsher).
        power_factor: of the racks' supplies.
        line_voltage_v: phase to neutral.
        unequipped_share: load of a rack without nodes, share of its rating.
        other_share: load of what is neither rack nor CDU, share of its rating.
        restart_s: from the return of power until a rack's nodes work again.
        battery_recharge: recharge rate over discharge rate.
    """

    band_harshness: float = 0.9
    power_factor: float = 0.98
    line_voltage_v: float = 230.0
    unequipped_share: float = 0.7
    other_share: float = 0.8
    restart_s: float = 30.0
    battery_recharge: float = 0.1
    default_bands: tuple[tuple[float, float], ...] = DEFAULT_BREAKER


@dataclass(frozen=True, slots=True)
class PlantData:
    """Everything that the plant is and the facility file does not say."""

    gpu: GpuData = field(default_factory=GpuData)
    loop: LoopData = field(default_factory=LoopData)
    room: RoomData = field(default_factory=RoomData)
    weather: WeatherData = field(default_factory=WeatherData)
    demand: DemandData = field(default_factory=DemandData)
    electrical: ElectricalData = field(default_factory=ElectricalData)
