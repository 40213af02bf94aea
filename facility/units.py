"""Physical quantities: one canonical unit each, and the text people write for them.

Numbers inside Wattkeeper are always in the canonical unit of their quantity and carry it in
their name (`load_w`, `supply_c`, `flow_lpm`). Files for people write text with a unit
("400 kW", "32 degC"); a bare number is refused where a unit is due.
"""

from __future__ import annotations

import math
import re
from typing import Final, NewType

Watts = NewType("Watts", float)
VoltAmperes = NewType("VoltAmperes", float)
WattHours = NewType("WattHours", float)
Amperes = NewType("Amperes", float)
Volts = NewType("Volts", float)
Celsius = NewType("Celsius", float)
Kelvin = NewType("Kelvin", float)
LitresPerMinute = NewType("LitresPerMinute", float)
Kilopascals = NewType("Kilopascals", float)
Seconds = NewType("Seconds", float)
TokensPerSecond = NewType("TokensPerSecond", float)
UtcMillis = NewType("UtcMillis", int)

#: quantity -> unit text -> (scale, offset) so that canonical = number * scale + offset.
UNITS: Final[dict[str, dict[str, tuple[float, float]]]] = {
    "power": {"W": (1.0, 0.0), "kW": (1e3, 0.0), "MW": (1e6, 0.0)},
    "apparent_power": {"VA": (1.0, 0.0), "kVA": (1e3, 0.0), "MVA": (1e6, 0.0)},
    "energy": {"Wh": (1.0, 0.0), "kWh": (1e3, 0.0), "MWh": (1e6, 0.0)},
    "current": {"A": (1.0, 0.0), "mA": (1e-3, 0.0), "kA": (1e3, 0.0)},
    "voltage": {"V": (1.0, 0.0), "mV": (1e-3, 0.0), "kV": (1e3, 0.0)},
    "temperature": {
        "degC": (1.0, 0.0),
        "°C": (1.0, 0.0),
        "degF": (5.0 / 9.0, -160.0 / 9.0),
        "°F": (5.0 / 9.0, -160.0 / 9.0),
    },
    "temperature_difference": {"K": (1.0, 0.0)},
    "temperature_rate": {"K/min": (1.0, 0.0)},
    "flow": {"L/min": (1.0, 0.0), "l/min": (1.0, 0.0), "m3/h": (1000.0 / 60.0, 0.0)},
    "pressure": {"kPa": (1.0, 0.0), "Pa": (1e-3, 0.0), "bar": (100.0, 0.0), "psi": (6.894757, 0.0)},
    "time": {"ms": (1e-3, 0.0), "s": (1.0, 0.0), "min": (60.0, 0.0), "h": (3600.0, 0.0)}
    | {"d": (86400.0, 0.0)},
    "ratio": {"%": (0.01, 0.0)},
    "power_ramp": {"W/min": (1.0, 0.0), "kW/min": (1e3, 0.0), "MW/min": (1e6, 0.0)},
    "thermal_resistance": {"K/W": (1.0, 0.0)},
    "per_kelvin": {"%/K": (0.01, 0.0), "1/K": (1.0, 0.0)},
    "token_rate": {"tok/s": (1.0, 0.0)},
    "mass": {"kg": (1.0, 0.0), "t": (1e3, 0.0), "lb": (0.45359237, 0.0)},
    "data": {"kB": (1e3, 0.0), "MB": (1e6, 0.0), "GB": (1e9, 0.0), "TB": (1e12, 0.0)}
    | {"KiB": (2.0**10, 0.0), "MiB": (2.0**20, 0.0), "GiB": (2.0**30, 0.0)},
}

_NUMBER: Final = re.compile(r"^\s*([+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)\s*(\S*)\s*$")


class QuantityError(ValueError):
    """A text that is not a number with a unit of the wanted quantity."""


def parse_quantity(text: object, quantity: str) -> float:
    """Return `text` ("400 kW") in the canonical unit of `quantity`.

    Raises:
        QuantityError: no number, no unit, a unit of another quantity, or not finite.
    """
    units = UNITS[quantity]
    known = ", ".join(units)
    if isinstance(text, bool) or not isinstance(text, str):
        raise QuantityError(f"{text!r} has no unit; write it as text with one of: {known}")
    match = _NUMBER.match(text)
    if match is None:
        raise QuantityError(f"{text!r} is not a number with a unit ({known})")
    number, unit = float(match.group(1)), match.group(2)
    if not unit:
        raise QuantityError(f"{text!r} has no unit; write one of: {known}")
    if unit not in units:
        raise QuantityError(f"{text!r}: {unit!r} is no unit of {quantity}; write one of: {known}")
    scale, offset = units[unit]
    value = number * scale + offset
    if not math.isfinite(value):
        raise QuantityError(f"{text!r} is not finite")
    return value
