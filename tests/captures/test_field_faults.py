"""Readings of real devices that others took for numbers, or for the wrong ones: cases 29 to 31."""

from __future__ import annotations

import math
from collections import defaultdict

import pytest

from drivers.catalog import profiles
from drivers.profile.binding import bind
from drivers.profile.codec import decode
from facility.points import Flaw, Grade, flaw_of, grade_of
from tests.captures.shared.reading import looked, recording

#: capture -> how many of its readings are that device's word for nothing
NOTHING = {
    "socomec-ups": ({"65535", "65534", "655350"}, 5),
    "vertiv-dcs": ({"9999"}, 1),
    "nti_micro": ({"-2147483648"}, 5),
    "teracom": ({"-2147483648"}, 1),
}


@pytest.mark.parametrize("name", list(NOTHING))
def test_a_word_for_nothing_in_a_capture_is_no_number(name: str) -> None:
    """Case 29: centreon-plugins#2540 showed 6553.5 Hz and 65535 A; LibreNMS 999.9 A."""
    recording(name)
    words, least = NOTHING[name]
    seen = looked(name)
    assert seen is not None
    told = [decoded for _, _, decoded in seen.readings if decoded.raw in words]
    assert len(told) >= least
    assert {flaw_of(decoded.quality) for decoded in told} == {Flaw.SENTINEL}
    assert all(math.isnan(decoded.value) for decoded in told)


@pytest.mark.parametrize(
    ("profile", "point", "raws"),
    [
        ("ups/socomec-netvision", "input:frequency", [65535, 65534, 655350]),
        ("ups/socomec-netvision", "battery:current", [65535]),
        ("ups/vertiv-smart-cabinet", "output.1:current", [9999]),
        ("pdu/sentry4", "sensor.1:temperature", [-410]),
        ("sensor/nti-enviromux-micro", "room:temperature", [-2147483648]),
        ("sensor/teracom-tcw241", "sensor.1:temperature", [-2147483648]),
        ("cooling/apc-cooling-unit", "inlet:temperature", [-2147483648]),
    ],
)
def test_a_word_for_nothing_is_no_number_by_its_profile(
    profile: str, point: str, raws: list[int]
) -> None:
    """Case 29, the profiles alone: no capture is needed to know a device's word for nothing."""
    tables = {name: [1] for name in profiles()[profile].tables}
    binding = bind(profiles()[profile], "d", found=tables)
    part, _, kind = point.partition(":")
    bound = next(p for p in binding.all() if (p.spec.id.part, p.spec.id.kind) == (part, kind))
    scale, unit = (10, b"C") if bound.digits else (None, next(iter(bound.switched), None))
    for raw in raws:
        decoded = decode(bound, raw, scale, unit)
        assert flaw_of(decoded.quality) is Flaw.SENTINEL, raw
        assert math.isnan(decoded.value)


@pytest.mark.parametrize(
    ("name", "least"),
    [("conteg-pdu", 6), ("raritan-pdu_px3", 1), ("vertiv-pdu_mn03edr1", 3), ("sentry4", 6)],
)
def test_no_power_of_a_capture_is_a_hundred_times_wrong(name: str, least: int) -> None:
    """Case 30: librenms PR 19384, 13768, #17332, #14414, #10098: scales that physics denies.

    Reckoned here by itself, not by the checks of the product: P <= 1.05 V I, and P >= 0.05 V I
    where a current flows; V between two lines makes P of that pair.
    """
    recording(name)
    seen = looked(name)
    assert seen is not None
    parts: dict[str, dict[str, float]] = defaultdict(dict)
    for spec, _, decoded in seen.readings:
        if grade_of(decoded.quality) is Grade.GOOD:
            parts[spec.id.part][spec.id.kind] = decoded.value
    compared = 0
    for part, told in parts.items():
        if not {"active_power", "voltage", "current"} <= set(told):
            continue
        apparent_va = told["voltage"] * told["current"]
        assert told["active_power"] <= 1.05 * apparent_va + 1.0, (part, told)
        if told["current"] > 0.1:
            assert told["active_power"] >= 0.05 * apparent_va, (part, told)
            compared += 1
    assert compared >= least
