from __future__ import annotations

import math
from typing import Any

import pytest

from drivers.catalog import profiles
from drivers.sim.plant.instruments import BIT_HW_THERMAL, BIT_POWER_CAP, ServedPlant
from drivers.sim.plant.world import World
from drivers.sim.scenarios import Scenario
from facility.kinds import KINDS
from tests.drivers.sim.halls import demo_hall, good_start, world


def scenario(**fault: Any) -> Scenario:
    return Scenario.model_validate({"name": "test", "about": "Test.", "faults": [fault]})


def served(here: World) -> ServedPlant:
    return here.plant


def number(here: World, device: str, part: str, kind: str) -> float:
    value = here.plant.value(device, part, kind)
    assert value is not None
    return value


def test_a_rack_is_the_sum_of_its_two_feeds() -> None:
    here = world("steady")
    here.advance(2.0)
    halves = [number(here, f"pdu-r03-{feed}", "total", "active_power") for feed in "ab"]
    assert sum(halves) == pytest.approx(here.plant.truth.rack_w[2])
    assert halves[0] == pytest.approx(halves[1])


def test_phases_add_up_and_agree_with_voltage_times_current() -> None:
    here = world("steady")
    here.advance(1.0)
    device = "pdu-r01-a"
    phases = [number(here, device, f"phase.{n}", "active_power") for n in (1, 2, 3)]
    assert sum(phases) == pytest.approx(number(here, device, "total", "active_power"))
    for n in (1, 2, 3):
        volts, amps, va = (
            number(here, device, f"phase.{n}", kind)
            for kind in ("voltage", "current", "apparent_power")
        )
        assert volts * amps == pytest.approx(va, rel=1e-6)
    assert here.plant.value(device, "phase.4", "current") is None


def test_energy_counts_what_power_delivers() -> None:
    here = world("steady")
    here.advance(1.0)
    before = number(here, "pdu-r01-a", "total", "energy")
    power = number(here, "pdu-r01-a", "total", "active_power")
    here.advance(36.0)
    rise = number(here, "pdu-r01-a", "total", "energy") - before
    assert rise == pytest.approx(power * 0.01, rel=0.01)


def test_a_lost_feed_kills_the_meters_on_it_and_nothing_else() -> None:
    here = world("feed-loss")
    here.advance(50.0)
    dead = {d for d in here.facility.devices if here.plant.device_health(d) == "dead"}
    assert dead == {f"pdu-r0{n}-b" for n in range(1, 9)}
    assert number(here, "pdu-r01-b", "total", "active_power") == 0.0
    whole = number(here, "pdu-r01-a", "total", "active_power")
    assert whole == pytest.approx(here.plant.truth.rack_w[0])
    here.advance(40.0)
    assert here.plant.device_health("pdu-r01-b") == "ok"


def test_ups_shows_its_source_load_and_battery() -> None:
    lost = scenario(kind="element_lost", named="utility-1", start=0.0, end=1.0)
    facility = demo_hall()
    here = World.of(facility, 1, lost, 120.0, good_start(facility))
    assert number(here, "ups-a1", "total", "state") == 3.0
    assert number(here, "ups-a1", "battery", "charge") == 1.0
    here.advance(30.0)
    assert number(here, "ups-a1", "total", "state") == 5.0
    assert number(here, "ups-a1", "input.1", "voltage") == 0.0
    assert number(here, "ups-a1", "output.1", "voltage") > 200.0
    assert number(here, "ups-b1", "total", "state") == 3.0
    charge = number(here, "ups-a1", "battery", "charge")
    load = number(here, "ups-a1", "output.1", "load")
    assert charge == pytest.approx(1.0 - 30.0 * load / 300.0, abs=0.002)
    lines = [number(here, "ups-a1", f"output.{n}", "active_power") for n in (1, 2, 3)]
    assert sum(lines) == pytest.approx(number(here, "ups-a1", "total", "active_power"))


def test_cdu_readings_balance() -> None:
    here = world("steady")
    here.advance(5.0)
    flow = number(here, "cdu-1", "loop.secondary", "flow")
    rise = number(here, "cdu-1", "loop.secondary", "return_temperature") - number(
        here, "cdu-1", "loop.secondary", "supply_temperature"
    )
    assert 66.8 * flow * rise == pytest.approx(number(here, "cdu-1", "total", "heat"), rel=0.03)
    assert number(here, "cdu-1", "pump.1", "state") == 1.0
    assert here.plant.value("cdu-1", "pump.3", "state") is None
    assert 0.0 < number(here, "cdu-1", "loop.primary", "valve") < 1.0


def test_failed_pumps_show_and_halve_the_flow() -> None:
    here = world("pump-loss")
    here.advance(70.0)
    assert number(here, "cdu-1", "pump.1", "state") == 2.0
    assert number(here, "cdu-1", "pump.2", "rotation") < 1.0
    assert number(here, "cdu-1", "loop.secondary", "flow") < 1.0
    assert number(here, "cdu-2", "loop.secondary", "flow") == pytest.approx(150.0, rel=0.01)
    assert here.plant.device_health("cdu-1") == "ok"


def test_a_setpoint_moves_the_plant_and_nothing_else_can_be_written() -> None:
    here = world("steady")
    for cdu in ("cdu-1", "cdu-2"):
        here.plant.write(cdu, "loop.secondary", "supply_setpoint", 35.0)
    assert number(here, "cdu-1", "loop.secondary", "supply_setpoint") == 35.0
    here.advance(60.0)
    assert number(here, "cdu-2", "loop.secondary", "supply_temperature") > 34.0
    with pytest.raises(KeyError):
        here.plant.write("cdu-1", "pump.1", "speed", 0.5)
    with pytest.raises(KeyError):
        here.plant.write("pdu-r01-a", "loop.secondary", "supply_setpoint", 30.0)
    with pytest.raises(ValueError, match="nan"):
        here.plant.write("cdu-1", "loop.secondary", "supply_setpoint", math.nan)


def test_boards_take_limits_in_their_range_and_say_why_they_are_slow() -> None:
    here = world("steady")
    node = here.plant.nodes[0]
    here.plant.set_gpu_limit(node, 0, 250.0)
    here.advance(1.0)
    reading = here.plant.gpu_reading(node, 0)
    assert reading.limit_w == reading.enforced_w == 250.0
    assert reading.power_w == pytest.approx(250.0, rel=0.05)
    assert reading.event_bits == BIT_POWER_CAP
    assert (reading.min_w, reading.max_w, reading.default_w) == (200.0, 700.0, 700.0)
    with pytest.raises(ValueError, match="outside"):
        here.plant.set_gpu_limit(node, 0, 800.0)
    with pytest.raises(IndexError):
        here.plant.set_gpu_limit(node, 8, 300.0)
    with pytest.raises(KeyError):
        here.plant.gpu_reading("nobody", 0)
    uuids = {here.plant.gpu_reading(n, i).uuid for n in here.plant.nodes for i in range(8)}
    assert len(uuids) == 256


def test_throttled_boards_say_so() -> None:
    here = world("hot-day")
    here.advance(105.0)
    twin = ServedPlant(here.twin)
    bits = [twin.gpu_reading(n, i).event_bits for n in twin.nodes for i in range(8)]
    throttled = [b for b in bits if b & BIT_HW_THERMAL]
    assert len(throttled) == int(here.twin.bank.throttled.sum())


def test_tokens_of_a_node_only_rise() -> None:
    here = world("steady")
    here.advance(5.0)
    before = here.plant.tokens("r01-n1")
    here.advance(5.0)
    after = here.plant.tokens("r01-n1")
    assert after[1] - before[1] == pytest.approx(5.0 * 8 * 815, rel=0.1)
    assert after[0] > before[0]
    assert after[2] > 0.0


def test_the_twin_is_a_device() -> None:
    here = world("feed-loss")
    here.advance(30.0)
    assert number(here, "twin", "total", "state") == 0.0
    assert number(here, "twin", "total", "tokens_generated") == pytest.approx(
        float(here.twin.tokens.sum())
    )
    energy = number(here, "twin", "total", "energy")
    assert energy == pytest.approx(226e3 * 30.0 / 3600.0, rel=0.03)
    here.advance(20.0)
    assert number(here, "twin", "total", "state") == 2.0


@pytest.mark.parametrize(
    ("kind", "value", "wanted"),
    [
        ("sensor_frozen", 0.0, "first"),
        ("sensor_nan", 0.0, None),
        ("sensor_offset", 5.0, "plus five"),
        ("sensor_unit_swapped", 0.0, "fahrenheit"),
    ],
)
def test_broken_sensors(kind: str, value: float, wanted: str | None) -> None:
    facility = demo_hall()
    broken = scenario(
        kind=kind, named="cdu-1", points=["loop.secondary:supply_temperature"], value=value,
        start=0.1, end=0.9,
    )  # fmt: skip
    here = World.of(facility, 1, broken, 100.0, good_start(facility))
    for cdu in ("cdu-1", "cdu-2"):
        here.plant.write(cdu, "loop.secondary", "supply_setpoint", 36.0)
    here.advance(11.0)
    first = here.plant.value("cdu-1", "loop.secondary", "supply_temperature")
    here.advance(20.0)
    shown = here.plant.value("cdu-1", "loop.secondary", "supply_temperature")
    true = here.plant.truth.loops[0].supply_c
    expected = {
        None: None, "first": first, "plus five": true + 5.0, "fahrenheit": true * 1.8 + 32.0
    }[wanted]  # fmt: skip
    assert shown == expected
    assert here.plant.value("cdu-2", "loop.secondary", "supply_temperature") == true
    here.advance(65.0)
    healed = here.plant.value("cdu-1", "loop.secondary", "supply_temperature")
    assert healed == here.plant.truth.loops[0].supply_c


@pytest.mark.parametrize(
    ("kind", "health"),
    [("device_dead", "dead"), ("device_slow", "slow"), ("device_garbage", "garbage")],
)
def test_broken_devices(kind: str, health: str) -> None:
    facility = demo_hall()
    here = World.of(facility, 1, scenario(kind=kind, of=["ups"], index=-1), 30.0)
    here.advance(15.0)
    assert here.plant.device_health("ups-b3") == health
    assert here.plant.device_health("ups-b2") == "ok"
    here.advance(10.0)
    assert here.plant.device_health("ups-b3") == "ok"


def test_a_flapping_device_comes_and_goes() -> None:
    facility = demo_hall()
    flapping = scenario(kind="device_flapping", of=["cdu"], start=0.0, end=1.0)
    here = World.of(facility, 1, flapping, 60.0)
    seen = set()
    for _ in range(30):
        here.advance(1.0)
        seen.add(here.plant.device_health("cdu-1"))
    assert seen == {"ok", "dead"}


def test_whatever_a_profile_asks_of_the_demo_hall_is_plausible() -> None:
    """Every point of every device in the file: the plant answers, inside the kind's range."""
    from drivers.profile.binding import bind

    here = world("steady")
    here.advance(3.0)
    known = profiles()
    asked = unanswered = 0
    for name, config in here.facility.devices.items():
        for point in bind(known[config.profile], name, config.parameters).all():
            spec = point.spec.id
            value = here.plant.value(name, spec.part, spec.kind)
            asked += 1
            if value is None:
                unanswered += 1
                continue
            kind = KINDS[spec.kind]
            assert kind.low <= value <= kind.high, (spec, value)
    assert asked > 300
    assert unanswered < 0.2 * asked
