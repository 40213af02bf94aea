"""How numbers, times and states are written for people: always a unit, a zone, and "—" for unknown.

Every function takes None for "not known" and never turns it into a number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final
from zoneinfo import ZoneInfo

from api.picture import iso
from controllers.wording import runs
from facility.commands import Mode
from facility.points import PointId

NOTHING: Final = "—"
#: So many names are not counted for the reader.
FEW: Final = 8
_MINUS: Final = "\N{MINUS SIGN}"

#: What a mode means for the person who looks.
MODES: Final[Mapping[Mode, tuple[str, str]]] = {
    Mode.AUTO: ("auto", "Wattkeeper acts"),
    Mode.ADVISE: ("advise", "Wattkeeper proposes, a person approves"),
    Mode.OBSERVE: ("observe", "Wattkeeper computes and writes nothing"),
    Mode.OFF: ("off", "local control"),
}


def decimal(value: float | None, digits: int = 0, unit: str = "") -> str:
    """`12.3 K`; digits after the point are fixed, so that columns stay still."""
    if value is None:
        return NOTHING
    text = f"{value:,.{digits}f}".replace(",", "\N{NARROW NO-BREAK SPACE}")
    if float(f"{value:.{digits}f}") == 0.0:
        text = text.lstrip("-")
    text = text.replace("-", _MINUS)
    return f"{text}\N{NO-BREAK SPACE}{unit}" if unit else text


def power(watts: float | None, digits: int | None = None) -> str:
    """Watts below 1 kW, kilowatts below 10 MW, else megawatts."""
    if watts is None:
        return NOTHING
    size = abs(watts)
    if size < 1e3:
        return decimal(watts, digits or 0, "W")
    if size < 1e7:
        places = digits if digits is not None else (1 if size < 1e5 else 0)
        return decimal(watts / 1e3, places, "kW")
    return decimal(watts / 1e6, 2 if digits is None else digits, "MW")


def kilowatts(watts: float | None) -> str:
    """Always kilowatts with one digit: for table columns."""
    return NOTHING if watts is None else decimal(watts / 1e3, 1, "kW")


def celsius(value: float | None) -> str:
    """`33.5 °C`."""
    return decimal(value, 1, "°C")


def kelvin(value: float | None) -> str:
    """`6.2 K`."""
    return decimal(value, 1, "K")


def per_watt(value: float | None) -> str:
    """Tokens per joule, which is tokens per second per watt."""
    return decimal(value, 3, "tok/s per W")


def share(value: float | None) -> str:
    """A ratio to 1 as a signed difference: 1.18 is "+18.0 %"."""
    if value is None:
        return NOTHING
    text = decimal((value - 1.0) * 100.0, 1, "%")
    return text if text.startswith(_MINUS) else f"+{text}"


def cap(low_w: float | None, high_w: float | None) -> str:
    """Caps per GPU of a rack: one number, or the range."""
    if low_w is None or high_w is None:
        return NOTHING
    if round(low_w) == round(high_w):
        return decimal(low_w, 0, "W")
    return f"{low_w:.0f}–{high_w:.0f}\N{NO-BREAK SPACE}W"


def moment(at_ms: int | None, zone: ZoneInfo) -> str:
    """`14:03:22 CET` in site time."""
    if at_ms is None:
        return NOTHING
    return f"{datetime.fromtimestamp(at_ms / 1e3, UTC).astimezone(zone):%H:%M:%S %Z}"


def date(at_ms: int | None, zone: ZoneInfo) -> str:
    """`2026-11-30 14:03:22 CET` in site time."""
    if at_ms is None:
        return NOTHING
    return f"{datetime.fromtimestamp(at_ms / 1e3, UTC).astimezone(zone):%Y-%m-%d %H:%M:%S %Z}"


def point_value(value: float | None, kind_unit: str) -> str:
    """A reading in its canonical unit, with as many digits as help."""
    if value is None:
        return NOTHING
    unit = {"degC": "°C", "1": "", "code": "", "bool": ""}.get(kind_unit, kind_unit)
    return decimal(value, 0 if float(value).is_integer() and abs(value) < 1e6 else 2, unit)


def point_name(text: str) -> str:
    """`r01-n1 power cap` for `r01-n1:total:power_cap`."""
    try:
        point = PointId.parse(text)
    except ValueError:
        return text
    part = "" if point.part == "total" else f" {point.part}"
    return f"{point.device}{part} {point.kind.replace('_', ' ')}"


def scope_name(scope: str) -> str:
    """`Hall`, `Rack r01`, `Loop loop-1`."""
    kind, _, name = scope.partition(":")
    if not name:
        return kind.capitalize()
    return name if name.startswith(kind) else f"{kind.capitalize()} {name}"


def shortened(name: str, most: int = 18) -> str:
    """A name that fits, its end kept: names of one kind differ there."""
    return name if len(name) <= most else f"…{name[1 - most :]}"


def counted(names: Sequence[str]) -> str:
    """Every name, of many how many and runs drawn together: "120: r001 to r120"."""
    many = f"{len(names)}: " if len(names) > FEW else ""
    return many + ", ".join(runs(names))


def filters(zone: ZoneInfo) -> dict[str, Any]:
    """What templates may call."""
    return {
        "power": power,
        "kilowatts": kilowatts,
        "celsius": celsius,
        "kelvin": kelvin,
        "per_watt": per_watt,
        "share": share,
        "decimal": decimal,
        "iso": lambda at_ms: iso(at_ms) or "",
        "point_name": point_name,
        "shortened": shortened,
        "counted": counted,
        "scope_name": scope_name,
        "moment": lambda at_ms: moment(at_ms, zone),
        "date": lambda at_ms: date(at_ms, zone),
    }
