"""Quantities as a facility file writes them: text with a unit, within what a site can have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, Field

from facility.units import QuantityError, parse_quantity

#: quantity -> the largest magnitude that any site has, canonical unit. Beyond it lie slips of the
#: pen, and numbers whose products are infinite.
MOST: Final[Mapping[str, float]] = {
    "power": 1e11,
    "apparent_power": 1e11,
    "current": 1e6,
    "voltage": 1e6,
    "temperature": 1e3,
    "temperature_difference": 1e3,
    "temperature_rate": 1e3,
    "flow": 1e7,
    "time": 1e9,
    "ratio": 100.0,
    "power_ramp": 1e12,
    "thermal_resistance": 1e3,
    "token_rate": 1e9,
    "data": 1e14,
    "mass": 1e6,
}


def plausible(text: object, name: str) -> float:
    """The canonical value of a text.

    Raises:
        ValueError: no such quantity, or more of it than any site has.
    """
    try:
        value = parse_quantity(text, name)
    except QuantityError as error:
        raise ValueError(str(error)) from None
    if abs(value) > MOST.get(name, float("inf")):
        raise ValueError(f"{text!r} is more than any site has")
    return value


def _quantity(
    name: str,
    *,
    positive: bool = False,
    at_least_zero: bool = False,
    least: str | None = None,
    most: str | None = None,
) -> Any:
    def read(text: object) -> float:
        value = plausible(text, name)
        if least is not None and value < parse_quantity(least, name):
            raise ValueError(f"{text!r} must be at least {least}")
        if most is not None and value > parse_quantity(most, name):
            raise ValueError(f"{text!r} must be at most {most}")
        if positive and value <= 0.0:
            raise ValueError(f"{text!r} must be above zero")
        if at_least_zero and value < 0.0:
            raise ValueError(f"{text!r} must not be negative")
        return value

    return BeforeValidator(read)


PowerW = Annotated[float, _quantity("power", at_least_zero=True)]
CurrentA = Annotated[float, _quantity("current", positive=True)]
VoltageV = Annotated[float, _quantity("voltage", positive=True)]
TemperatureC = Annotated[float, _quantity("temperature")]
DifferenceK = Annotated[float, _quantity("temperature_difference", at_least_zero=True)]
RateKMin = Annotated[float, _quantity("temperature_rate", positive=True)]
FlowLpm = Annotated[float, _quantity("flow", at_least_zero=True)]
DurationS = Annotated[float, _quantity("time", at_least_zero=True)]
#: how often something is done; below this a cycle would have no time to end
PeriodS = Annotated[float, _quantity("time", least="100 ms")]
#: how long something is kept; what is younger than a day is still being summed up
RetentionS = Annotated[float, _quantity("time", least="1 d")]
#: agents refuse a lease that lives longer
LeaseS = Annotated[float, _quantity("time", least="1 s", most="60 s")]
#: and one that has them hold their caps for longer
HoldS = Annotated[float, _quantity("time", at_least_zero=True, most="1 d")]
Share = Annotated[float, _quantity("ratio", at_least_zero=True)]
RampWMin = Annotated[float, _quantity("power_ramp", positive=True)]
ResistanceKW = Annotated[float, _quantity("thermal_resistance", positive=True)]
PerKelvin = Annotated[float, _quantity("per_kelvin", at_least_zero=True), Field(le=0.02)]
TokenRate = Annotated[float, _quantity("token_rate", at_least_zero=True)]
MassKg = Annotated[float, _quantity("mass", at_least_zero=True)]
#: room on a disk; below this not even one segment of a spool has room
DiskBytes = Annotated[float, _quantity("data", least="8 MB")]


def rating_text(text: object) -> str:
    """A rating that is plausible in watts or volt-amperes, kept as text.

    Raises:
        ValueError: it is neither.
    """
    if not isinstance(text, str):
        raise ValueError(f"{text!r} has no unit; write 450 kW or 500 kVA")
    for quantity in ("power", "apparent_power"):
        try:
            value = parse_quantity(text, quantity)
        except QuantityError:
            continue
        if value < 0.0:
            raise ValueError(f"{text!r} must not be negative")
        if value > MOST[quantity]:
            raise ValueError(f"{text!r} is more than any site has")
        return text
    raise ValueError(f"{text!r} is neither watts (450 kW) nor volt-amperes (500 kVA)")


def share_text(text: object) -> str:
    """A share of an element's limit: "40 %" of it, or watts; kept as text.

    Raises:
        ValueError: it is neither, or none at all.
    """
    share, watts = share_of(text)
    if share is None and watts is None:
        raise ValueError(f"{text!r} is no share; write 40 % or 200 kW")
    value = share if share is not None else watts
    if value is None or value <= 0.0:
        raise ValueError(f"{text!r} must be above zero")
    if share is not None and share > 1.0:
        raise ValueError(f"{text!r} is more than all of it")
    return str(text)


def share_of(text: object) -> tuple[float | None, float | None]:
    """A share as (part of the limit, W): one of them, or neither."""
    for at, quantity in enumerate(("ratio", "power")):
        try:
            value = plausible(text, quantity)
        except ValueError:
            continue
        return (value, None) if at == 0 else (None, value)
    return None, None


def resecure_of(text: object) -> object:
    """Seconds, or the words `never` and `at once`.

    Raises:
        ValueError: none of these.
    """
    if text in ("never", "at once"):
        return text
    try:
        return plausible(text, "time")
    except ValueError as error:
        raise ValueError(f"{error}, or never, or at once") from None
