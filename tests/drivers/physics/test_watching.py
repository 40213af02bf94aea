"""Physics on line: what contradicts itself is marked, what is well is left alone."""

from __future__ import annotations

import random
from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drivers.physics import Physics
from drivers.profile.binding import bind
from facility.points import Flaw, Grade, Scan, quality
from tests.drivers.physics.looks import Watched, scan_of, shipped
from tests.drivers.wires import profile_of

APC = {"phases": "1"}


def outlet(amperes: float, volts: float = 230.0, factor: float = 0.95) -> dict[str, float]:
    """One phase of a rack PDU, rounded as its registers are."""
    apparent = volts * amperes
    power = round(apparent * factor, -1)
    return {
        "phase.1:voltage": round(volts),
        "phase.1:current": round(amperes, 1),
        "phase.1:apparent_power": round(apparent, -1),
        "phase.1:active_power": power,
        "total:active_power": power,
        "total:apparent_power": round(apparent, -1),
    }


def test_a_wrong_scale_makes_the_power_suspect_within_a_few_looks_and_says_why() -> None:
    box = Watched(shipped("pdu/apc-rpdu2", **APC))
    wrong = outlet(12.0) | {"phase.1:active_power": 26200.0, "total:active_power": 26200.0}
    box.run(12.0, lambda _: wrong)
    assert box.doubted["phase.1:active_power"] is Flaw.INCONSISTENT
    assert box.doubted["total:active_power"] is Flaw.INCONSISTENT
    # Apparent power is the product of voltage and current: those three vouch for each other.
    assert set(box.doubted) == {"phase.1:active_power", "total:active_power"}
    texts = [str(doubt) for doubt in box.physics.doubts]
    assert "phase.1: active power within voltage x current fails (26200 W, 12 A x 230 V)" in texts


def test_a_scale_that_becomes_wrong_later_is_found_and_forgotten_once_it_is_right() -> None:
    box = Watched(shipped("pdu/apc-rpdu2", **APC))
    box.run(120.0, lambda _: outlet(12.0))
    assert not box.ever
    box.run(30.0, lambda _: outlet(12.0) | {"phase.1:current": 1.2})
    assert set(box.doubted) == {"phase.1:current", "phase.1:voltage"}
    box.run(30.0, lambda _: outlet(12.0))
    assert box.doubted  # a minute has not passed
    box.run(90.0, lambda _: outlet(12.0))
    assert not box.doubted
    assert not box.physics.doubts


def test_a_load_that_swings_between_the_readings_of_one_look_is_no_contradiction() -> None:
    box = Watched(shipped("pdu/apc-rpdu2", **APC))
    rng = random.Random(3)

    def swings(_: float) -> Mapping[str, float]:
        before, after = outlet(rng.uniform(6.0, 14.0)), outlet(rng.uniform(6.0, 14.0))
        return before | {k: v for k, v in after.items() if k.endswith("power")}

    box.run(1200.0, swings)
    assert not box.ever


@settings(max_examples=25, deadline=None)
@given(
    st.floats(0.0, 32.0),
    st.floats(0.3, 1.0),
    st.floats(100.0, 250.0),
    st.integers(0, 2**32),
)
def test_a_sound_meter_is_never_marked(
    amperes: float, factor: float, volts: float, seed: int
) -> None:
    """Any load, any power factor, readings up to a tenth apart."""
    box = Watched(shipped("pdu/apc-rpdu2", **APC))
    rng = random.Random(seed)
    box.run(
        90.0,
        lambda _: {
            **outlet(amperes * rng.uniform(0.97, 1.03), volts * rng.uniform(0.99, 1.01), factor)
        },
    )
    assert not box.ever


@pytest.mark.parametrize("factor", [0.001, 0.01, 100.0])
@pytest.mark.parametrize("kind", ["current", "voltage", "active_power"])
def test_a_power_of_ten_is_always_found_under_load(kind: str, factor: float) -> None:
    box = Watched(shipped("pdu/apc-rpdu2", **APC))
    sound = outlet(16.0)
    box.run(12.0, lambda _: sound | {f"phase.1:{kind}": sound[f"phase.1:{kind}"] * factor})
    assert f"phase.1:{kind}" in box.doubted


def test_what_is_missing_is_not_judged_and_keeps_its_own_reason() -> None:
    box = Watched(shipped("pdu/apc-rpdu2", **APC))
    wrong = outlet(12.0) | {"phase.1:active_power": 26200.0}
    box.run(12.0, lambda _: wrong)
    fast = box.binding.layouts[0]
    silent = Scan.missing(fast, Flaw.TIMEOUT, 1, box.now_s + 1.0)
    judged = box.physics.judge(silent)
    assert set(judged.quality.tolist()) == {quality(Grade.BAD, Flaw.TIMEOUT)}
    # Silence proves nothing: the doubt stands until the device has shown otherwise.
    assert box.physics.doubts


def test_a_retained_reading_is_not_held_against_a_live_one() -> None:
    physics = Physics(shipped("pdu/apc-rpdu2", **APC))
    layout = shipped("pdu/apc-rpdu2", **APC).layouts[0]
    wrong = outlet(12.0) | {"phase.1:active_power": 26200.0}
    retained = quality(Grade.SUSPECT, Flaw.RETAINED)
    for second in range(20):
        scan = scan_of(layout, wrong, float(second))
        packed = np.where(scan.quality == 0, retained, scan.quality).astype(np.uint8)
        marked = Scan(layout, scan.values, packed, 0, 0, float(second))
        assert physics.judge(marked) is marked


@pytest.mark.parametrize(("heat_w", "marked"), [(64_500.0, False), (6_450.0, True)])
def test_heat_is_held_against_flow_and_temperatures(heat_w: float, marked: bool) -> None:
    box = Watched(shipped("cdu/wattkeeper-sim"))
    readings = {
        "loop.secondary:flow": 150.0,
        "loop.secondary:supply_temperature": 30.0,
        "loop.secondary:return_temperature": 36.44,
        "total:heat": heat_w,
    }
    box.run(630.0, lambda _: readings)
    assert ("total:heat" in box.doubted) is marked


def test_a_loop_that_warms_for_minutes_is_no_contradiction() -> None:
    """Half of the heat goes into the coolant and the metal meanwhile (the demo's hot day)."""
    box = Watched(shipped("cdu/wattkeeper-sim"))

    def warming(now_s: float) -> dict[str, float]:
        stored = 0.5 if now_s < 480.0 else 0.0
        return {
            "loop.secondary:flow": 150.0,
            "loop.secondary:supply_temperature": 30.0 + min(now_s, 480.0) / 60.0,
            "loop.secondary:return_temperature": 36.44 + min(now_s, 480.0) / 60.0,
            "total:heat": 64_500.0 * (1.0 - stored),
        }

    box.run(1200.0, warming)
    assert not box.ever


def test_temperatures_that_are_not_across_the_load_are_left_out_by_the_profile() -> None:
    """A chiller's free cooling: 33.9 kW at 141.3 L/min, and 0.1 K between inlet and outlet."""
    places = {
        "flow": 0,
        "supply_temperature": 1,
        "return_temperature": 2,
        "heat": 3,
    }
    points = [
        {"part": "loop.primary", "kind": kind, "at": {"modbus": {"address": at}}}
        for kind, at in places.items()
    ]
    readings = {
        "loop.primary:flow": 141.3,
        "loop.primary:supply_temperature": 17.9,
        "loop.primary:return_temperature": 18.0,
        "loop.primary:heat": 33_900.0,
    }
    check = "heat = flow x temperature difference"
    off = [{"check": check, "because": "both temperatures lie before the free cooler"}]
    for unchecked, marked in (([], True), (off, False)):
        box = Watched(bind(profile_of(*points, unchecked=unchecked), "d"))
        box.run(630.0, lambda _: readings)
        assert bool(box.doubted) is marked


def test_points_of_one_law_may_be_read_at_different_paces() -> None:
    slow = {"slow": {"period": "10 s", "stale_after": "30 s"}}
    points = [
        {"part": "total", "kind": kind, "at": {"modbus": {"address": at}}, "poll": poll}
        for kind, at, poll in (
            ("active_power", 0, "fast"),
            ("current", 1, "fast"),
            ("voltage", 2, "slow"),
        )
    ]
    profile = profile_of(*points, classes={"fast": {"period": "1 s", "stale_after": "5 s"}} | slow)
    box = Watched(bind(profile, "d"))
    sound = {"total:active_power": 2200.0, "total:current": 10.0, "total:voltage": 230.0}
    box.run(100.0, lambda _: sound)
    assert not box.ever
    box.run(240.0, lambda _: sound | {"total:active_power": 22_000.0})
    assert set(box.doubted) == {"total:active_power", "total:current", "total:voltage"}
