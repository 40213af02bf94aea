"""Physics that readings of one device must agree with: a wrong scale shows here first.

A failed check says that a profile, a wiring or a sensor is wrong; it never alters a value.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from drivers.profile import Profile

#: readings of one look are seconds apart in the device, and meters round
TOLERANCE: Final = 0.12
#: what rounding alone explains at small loads
SLACK_VA: Final = 15.0
#: W per L/min and K: water at 40 degC 69, PG25 66.8 (CoolProp); see research of coolants
WATER_W: Final = (62.0, 72.0)

Readings = Mapping[tuple[str, str], float]


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One check of one part, in words."""

    check: str
    part: str
    ok: bool
    detail: str


def run_checks(profile: Profile, readings: Readings) -> list[CheckResult]:
    """Every check that the profile asks for, at every part that has all it needs.

    Args:
        profile: of the device.
        readings: (part, kind) -> value in canonical units; only what may be believed.
    """
    made = {
        "apparent power = voltage x current": _apparent,
        "active power within voltage x current": _active,
        "heat = flow x temperature difference": _heat,
    }
    return [result for name in profile.checks for result in made[name](name, readings)]


def _systems(part: str) -> tuple[float, ...]:
    """By how much V x I may have to be multiplied: an inlet does not say how many phases it has.

    1 for one phase, sqrt(3) for three with the voltage between lines, 3 with that to neutral.
    """
    return (1.0, math.sqrt(3.0), 3.0) if part.startswith("inlet") else (1.0,)


def _times(fits: Sequence[float]) -> str:
    """The phases' factor with which a product fits, in words: what is printed must multiply up."""
    if not fits or fits[0] == 1.0:
        return ""
    return " x 3" if fits[0] == 3.0 else " x sqrt(3)"


def _volt_amperes(readings: Readings) -> Iterator[tuple[str, float, str]]:
    """Part, volts x amperes of one phase, and both in words."""
    for part in dict.fromkeys(part for part, _ in readings):
        volts, amperes = readings.get((part, "voltage")), readings.get((part, "current"))
        if volts is not None and amperes is not None:
            yield part, volts * amperes, f"{amperes:g} A x {volts:g} V"


def _apparent(check: str, readings: Readings) -> Iterator[CheckResult]:
    for part, product_va, text in _volt_amperes(readings):
        stated_va = readings.get((part, "apparent_power"))
        if stated_va is not None:
            fits = [
                k
                for k in _systems(part)
                if abs(stated_va - k * product_va) <= TOLERANCE * k * product_va + SLACK_VA
            ]
            detail = f"{stated_va:g} VA, {text}{_times(fits)}"
            yield CheckResult(check, part, bool(fits), detail)


def _active(check: str, readings: Readings) -> Iterator[CheckResult]:
    """P <= 1.05 V I, and >= 0.05 V I once there is a load to speak of."""
    for part, product_va, text in _volt_amperes(readings):
        watts = readings.get((part, "active_power"))
        if watts is not None:
            low_w = 0.05 * product_va - SLACK_VA
            fits = [
                k for k in _systems(part) if low_w <= abs(watts) <= 1.05 * k * product_va + SLACK_VA
            ]
            yield CheckResult(check, part, bool(fits), f"{watts:g} W, {text}{_times(fits)}")


def _heat(check: str, readings: Readings) -> Iterator[CheckResult]:
    heat_w = readings.get(("total", "heat"))
    loop = "loop.secondary"
    names = ("flow", "supply_temperature", "return_temperature")
    flow, supply_c, return_c = (readings.get((loop, name)) for name in names)
    if heat_w is None or flow is None or supply_c is None or return_c is None:
        return
    low_w, high_w = sorted(flow * (return_c - supply_c) * k for k in WATER_W)
    slack_w = 500.0 + 0.05 * abs(heat_w)
    ok = low_w - slack_w <= heat_w <= high_w + slack_w
    detail = f"{heat_w:.0f} W, {flow:g} L/min x {return_c - supply_c:.2f} K"
    yield CheckResult(check, loop, ok, detail)
