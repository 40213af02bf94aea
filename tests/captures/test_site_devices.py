"""What only some site devices do: physics that decides between two scales, and roles by parts."""

from __future__ import annotations

import pytest

from drivers.capture import shown_reading
from drivers.catalog import profiles
from drivers.device import ProfiledDevice
from drivers.profile import Profile
from drivers.profile.binding import bind
from facility.clock import SystemClock
from tests.captures.shared.reading import looked, recording

#: kW of water per litre a minute and kelvin (4.19 kJ/kg K at 15 degC)
WATER_KW = 0.0698
#: kW of air per cubic metre a second and kelvin (20 degC)
AIR_KW = 1.2
#: what RFC 1628 upsOutputSource can say
SOURCES = range(1, 8)


@pytest.fixture(autouse=True)
def no_captures_no_test(request: pytest.FixtureRequest) -> None:
    if "capture" in request.keywords:
        recording("eaton-mgeups_93ps")


def number(name: str, reading: str) -> float:
    seen = looked(name)
    assert seen is not None
    return seen.value(reading).value


async def readings(profile: str, name: str, rows: dict[str, list[int]]) -> dict[str, object]:
    """A shared capture through a profile that is named, and rows that are."""
    device = ProfiledDevice(
        bind(profiles()[profile], "d", found=rows), recording(name), SystemClock()
    )
    return {
        f"{spec.id.part}:{spec.id.kind}": shown_reading(decoded)
        for layout in device.layouts
        for spec, decoded in zip(layout.points, await device.look(layout), strict=True)
    }


async def test_a_null_of_a_phase_that_is_not_there_never_becomes_0() -> None:
    """Case 21: the test data has 0 V, 0 A and 0 W for the two phases of a single-phase UPS."""
    recording("deltaups_rfc1628string")
    rows = {"lines": [1, 2, 3], "inputs": [1, 2, 3], "bypasses": [1, 2, 3]}
    seen = await readings("ups/delta-mini-snmp", "deltaups_rfc1628string", rows)
    assert seen["output.1:voltage"] == 230.0
    absent = [v for k, v in seen.items() if k.split(":")[0].endswith((".2", ".3"))]
    assert len(absent) == 14
    assert set(absent) == {"UNDECODABLE"}
    assert seen["total:active_power"] == "UNDECODABLE"


async def test_the_standard_mib_on_a_card_that_sends_tenths_shows() -> None:
    recording("deltaups_rfc1628string")
    rows = {"lines": [1], "inputs": [1], "bypasses": []}
    seen = await readings("ups/rfc1628", "deltaups_rfc1628string", rows)
    assert seen["output.1:voltage"] == 2300.0  # kept, and SUSPECT: no grid has it
    assert bind(profiles()["ups/rfc1628"], "d").all()[0].spec.high < 2300.0 * 1000.0


def test_a_chiller_shows_no_return_temperature_that_its_own_heat_denies() -> None:
    """141 l/min x 0.1 K is 1 kW where the unit says 33.9 kW: "in" is not the racks' return."""
    recording("pcoweb-rittalchiller")
    flow, supply = (
        number("pcoweb-rittalchiller", f"loop.secondary:{k}")
        for k in ("flow", "supply_temperature")
    )
    before = number("pcoweb-rittalchiller", "evaporator:temperature")
    assert WATER_KW * flow * (before - supply) < 0.05 * number("pcoweb-rittalchiller", "total:heat")
    kinds = {
        p.kind
        for p in profiles()["cooling/rittal-chiller-pco"].points
        if p.part == "loop.secondary"
    }
    assert "return_temperature" not in kinds


def test_whole_degrees_hold_a_heat_balance_within_their_rounding_only() -> None:
    recording("rittal-cmc")
    heat = number("rittal-cmc", "total:heat") / 1000.0
    flow = number("rittal-cmc", "loop.secondary:flow")
    warm = number("rittal-cmc", "loop.secondary:return_temperature")
    cold = number("rittal-cmc", "loop.secondary:supply_temperature")
    assert WATER_KW * flow * (warm - cold - 1.0) < heat < WATER_KW * flow * (warm - cold + 1.0)
    assert not profiles()["cooling/rittal-lcp-cmctc"].checks


def test_the_water_of_a_room_cooler_takes_what_its_air_loses() -> None:
    """As whole cubic metres an hour, as the test data has it, it would take ten times as much."""
    recording("stulz_wib8000")
    seen = {
        k: number("stulz_wib8000", k)
        for k in (
            "water.5:flow",
            "water.5:supply_temperature",
            "water.5:return_temperature",
            "unit.5:return_temperature",
            "unit.5:supply_temperature",
        )
    }
    rise = seen["water.5:return_temperature"] - seen["water.5:supply_temperature"]
    fall = seen["unit.5:return_temperature"] - seen["unit.5:supply_temperature"]
    water = WATER_KW * seen["water.5:flow"] * rise
    # A unit of this size blows 2 to 6 cubic metres a second.
    assert AIR_KW * 2.0 * fall < water < AIR_KW * 6.0 * fall


def test_an_in_row_cooler_agrees_with_its_air() -> None:
    recording("apc_inrow-dx")
    heat = number("apc_inrow-dx", "total:heat") / 1000.0
    fall = number("apc_inrow-dx", "unit:return_temperature") - number(
        "apc_inrow-dx", "unit:supply_temperature"
    )
    assert heat == pytest.approx(AIR_KW * 1.083 * fall, rel=0.1)  # its airflow: 1083 l/s


def of(folder: str) -> list[Profile]:
    return [p for name, p in sorted(profiles().items()) if name.startswith(f"{folder}/")]


@pytest.mark.parametrize("profile", of("ups"), ids=lambda p: p.profile)
def test_every_ups_says_in_the_same_words_whether_it_is_on_battery(profile: Profile) -> None:
    state = next((p for p in profile.points if (p.part, p.kind) == ("total", "state")), None)
    if state is None:
        assert profile.profile == "ups/vertiv-smart-cabinet"
        return
    assert set(state.codes.values()) <= set(SOURCES)
    assert 5 in state.codes.values()
    assert state.states[5] == "battery"


@pytest.mark.parametrize(
    "profile",
    [p for p in (*of("cdu"), *of("cooling")) if p.profile != "cooling/liebert-xdp"],
    ids=lambda p: p.profile,
)
def test_every_cooler_names_its_water_or_its_air(profile: Profile) -> None:
    parts = {p.part for p in profile.points if p.kind == "supply_temperature"}
    assert parts & {"loop.secondary", "unit", "unit.*"}


def test_no_profile_that_nobody_has_seen_write_can_write() -> None:
    for folder in ("ups", "cooling", "sensor", "meter", "shelf"):
        for profile in of(folder):
            assert not any(p.write for p in profile.points), profile.profile
