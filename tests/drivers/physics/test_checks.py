"""Physics shows a wrong scale."""

from __future__ import annotations

import pytest

from drivers.catalog import profiles
from drivers.physics import CheckResult, run_checks
from drivers.profile.binding import bind

PHASE = {
    ("phase.1", "voltage"): 231.0,
    ("phase.1", "current"): 1.3,
    ("phase.1", "apparent_power"): 300.0,
    ("phase.1", "active_power"): 250.0,
}


def checked(profile: str, readings: dict[tuple[str, str], float]) -> list[CheckResult]:
    return run_checks(bind(profiles()[profile], "d"), readings)


def failed(profile: str, readings: dict[tuple[str, str], float]) -> list[str]:
    return [c.check for c in checked(profile, readings) if not c.ok]


def test_a_healthy_phase_passes_and_says_its_numbers() -> None:
    results = checked("pdu/apc-rpdu2", PHASE)
    assert [r.ok for r in results] == [True, True]
    assert results[0].detail == "300 VA, 1.3 A x 231 V"


@pytest.mark.parametrize(
    ("kind", "factor", "check"),
    [
        ("apparent_power", 10.0, "apparent power = voltage x current"),
        ("active_power", 10.0, "active power within voltage x current"),
    ],
)
def test_a_power_ten_times_too_high_fails(kind: str, factor: float, check: str) -> None:
    readings = PHASE | {("phase.1", kind): PHASE[("phase.1", kind)] * factor}
    assert failed("pdu/apc-rpdu2", readings) == [check]


def test_a_power_a_hundred_times_too_low_fails() -> None:
    readings = {
        ("phase.1", "voltage"): 230.0,
        ("phase.1", "current"): 38.0,
        ("phase.1", "active_power"): 70.0,
    }
    assert failed("pdu/apc-rpdu2", readings) == ["active power within voltage x current"]


def test_an_inlet_may_have_three_phases() -> None:
    readings = {
        ("inlet.1", "voltage"): 230.0,
        ("inlet.1", "current"): 12.8,
        ("inlet.1", "apparent_power"): 8832.0,
        ("inlet.1", "active_power"): 8654.0,
    }
    assert failed("pdu/raritan-px", readings) == []
    told = [c.detail for c in checked("pdu/raritan-px", readings)]
    assert told == ["8832 VA, 12.8 A x 230 V x 3", "8654 W, 12.8 A x 230 V x 3"]
    assert failed("pdu/raritan-px", readings | {("inlet.1", "active_power"): 86540.0})


@pytest.mark.parametrize(("heat_w", "ok"), [(64536.0, True), (20000.0, False), (640000.0, False)])
def test_heat_must_be_flow_times_temperature_difference(heat_w: float, ok: bool) -> None:
    readings = {
        ("loop.secondary", "flow"): 150.0,
        ("loop.secondary", "supply_temperature"): 30.0,
        ("loop.secondary", "return_temperature"): 36.44,
        ("total", "heat"): heat_w,
    }
    assert (failed("cdu/wattkeeper-sim", readings) == []) is ok


def test_what_is_missing_is_not_checked() -> None:
    assert checked("cdu/wattkeeper-sim", {("total", "heat"): 1.0}) == []
