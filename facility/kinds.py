"""The closed list of what a point can measure: its unit, its nature and its plausible range.

Names and units are those that `--json` prints. A profile may narrow the plausible range of a
point; it never widens it beyond physics.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final


class Nature(Enum):
    """How a kind behaves in time."""

    GAUGE = "gauge"
    COUNTER = "counter"
    STATE = "state"
    SETPOINT = "setpoint"


@dataclass(frozen=True, slots=True)
class Kind:
    """One measurable quantity.

    Attributes:
        name: the last part of a point's identity.
        unit: canonical unit as printed.
        nature: gauge, counter (only rises, may reset), state (code) or set-point (writable).
        low, high: the widest physically plausible range, in the unit.
        quantity: key of `facility.units.UNITS`, or None for codes and plain numbers.
    """

    name: str
    unit: str
    nature: Nature
    low: float
    high: float
    quantity: str | None = None


_G, _C, _S, _P = Nature.GAUGE, Nature.COUNTER, Nature.STATE, Nature.SETPOINT

_ALL: Final = (
    Kind("active_power", "W", _G, -5e7, 5e7, "power"),
    Kind("apparent_power", "VA", _G, 0.0, 5e7, "apparent_power"),
    Kind("reactive_power", "var", _G, -5e7, 5e7),
    Kind("power_factor", "1", _G, -1.0, 1.0, "ratio"),
    Kind("energy", "Wh", _C, 0.0, 1e15, "energy"),
    Kind("current", "A", _G, 0.0, 1e5, "current"),
    Kind("voltage", "V", _G, 0.0, 1e5, "voltage"),
    Kind("frequency", "Hz", _G, 0.0, 500.0),
    Kind("temperature", "degC", _G, -60.0, 200.0, "temperature"),
    Kind("humidity", "1", _G, 0.0, 1.0, "ratio"),
    Kind("dew_point", "degC", _G, -60.0, 60.0, "temperature"),
    Kind("flow", "L/min", _G, 0.0, 1e5, "flow"),
    Kind("pressure", "kPa", _G, -200.0, 5000.0, "pressure"),
    Kind("pressure_difference", "kPa", _G, -2000.0, 2000.0, "pressure"),
    Kind("speed", "1", _G, 0.0, 1.0, "ratio"),
    Kind("rotation", "rpm", _G, 0.0, 1e5),
    Kind("valve", "1", _G, 0.0, 1.0, "ratio"),
    Kind("level", "1", _G, 0.0, 1.0, "ratio"),
    Kind("leak", "bool", _S, 0.0, 1.0),
    Kind("state", "code", _S, 0.0, 2**32),
    Kind("load", "1", _G, 0.0, 10.0, "ratio"),
    Kind("supply_temperature", "degC", _G, -20.0, 120.0, "temperature"),
    Kind("return_temperature", "degC", _G, -20.0, 120.0, "temperature"),
    Kind("supply_setpoint", "degC", _P, -20.0, 80.0, "temperature"),
    Kind("runtime", "s", _G, 0.0, 1e8, "time"),
    Kind("charge", "1", _G, 0.0, 1.0, "ratio"),
    Kind("heat", "W", _G, -5e7, 5e7, "power"),
    Kind("power_off", "1", _P, 0.0, 1.0),
    Kind("power_cap", "W", _P, 0.0, 1e5, "power"),
    Kind("power_cap_enforced", "W", _G, 0.0, 1e5, "power"),
    Kind("clock", "Hz", _G, 0.0, 1e11),
    Kind("margin", "K", _G, -100.0, 200.0, "temperature_difference"),
    Kind("tokens_prompt", "tok", _C, 0.0, 1e18),
    Kind("tokens_generated", "tok", _C, 0.0, 1e18),
    Kind("requests_running", "1", _G, 0.0, 1e7),
    Kind("requests_waiting", "1", _G, 0.0, 1e7),
    Kind("kv_cache", "1", _G, 0.0, 1.0, "ratio"),
)

KINDS: Final[dict[str, Kind]] = {kind.name: kind for kind in _ALL}
