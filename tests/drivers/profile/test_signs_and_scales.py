"""Signs that mean something else, scales and units in the device's own words, both decoders."""

from __future__ import annotations

import math

import pytest

from drivers.catalog import profiles
from drivers.profile.binding import BoundPoint, Places, bind
from drivers.profile.codec import Answer, decode
from drivers.profile.compiled import Decoder
from facility.points import Flaw, flaw_of


def bound(profile: str, part: str, kind: str) -> BoundPoint:
    binding = bind(profiles()[profile], "d", found={"phases": [1], "outlets": [6]})
    return next(p for p in binding.all() if (p.spec.id.part, p.spec.id.kind) == (part, kind))


def both(point: BoundPoint, *answers: Answer) -> tuple[float, Flaw]:
    """By the codec, and by what is compiled from it; they must say the same."""
    places = Places.of(point.places)
    told = dict(zip(places.at, answers, strict=True))
    one = decode(
        point,
        told[point.at],
        told[point.digits] if point.digits else None,
        told[point.unit_at] if point.unit_at else None,
    )
    values, grades = Decoder((point,), (), places)(answers)
    assert values[0] == one.value or (math.isnan(values[0]) and math.isnan(one.value))
    assert grades[0] == one.quality
    return one.value, flaw_of(one.quality)


def test_the_sign_of_a_power_factor_is_left_out() -> None:
    """HPE sends -707 for 0.707, Eaton -946: the sign says which way the current leads."""
    point = bound("pdu/hpe-mapdu", "outlet.6", "power_factor")
    assert both(point, -707) == (pytest.approx(0.707), Flaw.NONE)
    assert both(point, 707) == (pytest.approx(0.707), Flaw.NONE)


@pytest.mark.parametrize(
    ("scale", "unit", "amperes"),
    [
        (-100, b"A", 4.73),
        (1, b"A", 473.0),
        (0, b"mA", 0.473),
        (-10, b"mA", 0.0473),
        (10, b"A", 4730.0),
    ],
)
def test_a_device_tells_its_own_scale_and_unit(scale: int, unit: bytes, amperes: float) -> None:
    value, _ = both(bound("pdu/rittal-cmc3", "phase.1", "current"), 473, scale, unit)
    assert value == pytest.approx(amperes)


@pytest.mark.parametrize(
    ("scale", "unit"),
    [
        (-100, b"V"),
        (-100, b""),
        (-100, Flaw.REFUSED),
        (b"x", b"A"),
        (10**13, b"A"),
        (Flaw.TIMEOUT, b"A"),
    ],
)
def test_a_scale_or_a_unit_that_makes_no_sense_makes_no_number(scale: Answer, unit: Answer) -> None:
    value, flaw = both(bound("pdu/rittal-cmc3", "phase.1", "current"), 473, scale, unit)
    assert math.isnan(value)
    assert flaw is not Flaw.NONE


@pytest.mark.parametrize(("digits", "celsius"), [(1, 22.9), (0, 229.0), (2, 2.29)])
def test_tenths_that_a_device_tells_by_its_digits_are_not_rounded_away(
    digits: int, celsius: float
) -> None:
    """Case 31: networkupstools/nut#977: 229 with one digit is 22.9, not 23 and not 229."""
    binding = bind(profiles()["pdu/raritan-px"], "d", found={"temperatures": [1]})
    point = next(
        p for p in binding.all() if (p.spec.id.part, p.spec.id.kind) == ("sensor.1", "temperature")
    )
    told = {point.at: 229, point.digits: digits, point.unit_at: next(iter(point.switched), None)}
    answers = [told[place] for place in Places.of(point.places).at]
    assert both(point, *answers)[0] == pytest.approx(celsius, rel=1e-9)


@pytest.mark.parametrize(("code", "celsius"), [(1, 25.0), (0, 77.0)])
def test_one_number_is_fahrenheit_here_and_celsius_there(code: int, celsius: float) -> None:
    """Server Technology says 1 for Fahrenheit, Vertiv 0."""
    binding = bind(profiles()["pdu/sentry3"], "d", found={"sensors": [1]})
    point = next(p for p in binding.all() if p.spec.id.part == "sensor.1")
    assert both(point, 770, code)[0] == pytest.approx(celsius)
    geist = bind(profiles()["pdu/vertiv-geist"], "d", found={"sensors": [1]})
    other = next(p for p in geist.all() if p.spec.id.part == "sensor.1")
    assert both(other, 770, 1 - code)[0] == pytest.approx(celsius)
