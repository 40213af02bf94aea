"""What every Device must do, proved on each that is asked: Modbus, SNMP and in-process.

The servers on loopback impersonate the same plant from the same profiles.
"""

from __future__ import annotations

import math
import random
from collections.abc import AsyncIterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from drivers.catalog import build_device, profiles
from drivers.credentials import Credentials
from drivers.profile.binding import bind
from drivers.sim.serve_modbus import serve_modbus
from drivers.sim.serve_snmp import serve_snmp
from drivers.sim.source import Instruments
from drivers.sim.transport import simulated_device
from drivers.transport import Links
from facility.clock import SystemClock
from facility.commands import Command, Outcome
from facility.config import DeviceConfig
from facility.points import Flaw, Grade, PointId, flaw_of, grade_of
from facility.ports import Device

pytestmark = [
    pytest.mark.system,
    pytest.mark.filterwarnings("ignore::DeprecationWarning:pysnmp"),
]

READINGS = {
    "modbus": ("cdu/wattkeeper-sim", "modbus://cdu:502/5", "loop.secondary:flow", 151.5),
    "snmp": ("pdu/raritan-px", "snmp://pdu:161", "inlet.1:current", 7.467),
}
#: no profile that speaks SNMP is proven well enough to be written to
WRITABLE = pytest.mark.parametrize("subject", ["modbus", "sim-modbus"], indirect=True)


@dataclass
class Subject:
    device: Device
    plant: Instruments
    protocol: str
    name: str
    value: float


@pytest.fixture(params=["modbus", "snmp", "sim-modbus", "sim-snmp"])
async def subject(request: pytest.FixtureRequest) -> AsyncIterator[Subject]:
    protocol = request.param.removeprefix("sim-")
    profile, address, name, value = READINGS[protocol]
    config = DeviceConfig(profile=profile, address=address)
    plant = Instruments.of("d", {name: value, "loop.secondary:supply_setpoint": 30.0})
    clock, rng = SystemClock(), random.Random(5)
    served: Any = SimpleNamespace(close=lambda: None)
    if request.param.startswith("sim-"):
        device: Device = simulated_device(config, "d", plant, clock, rng)
    else:
        serve = serve_modbus if protocol == "modbus" else serve_snmp
        served = await serve(plant, {"d": config})
        device = build_device(
            config,
            "d",
            served["d"],
            {"x": Credentials()},
            clock,
            None,
            Links(clock, rng),
        )
    yield Subject(device, plant, protocol, name, value)
    await device.close()
    served.close()


def at(subject: Subject, layout: Any) -> int:
    part, _, kind = subject.name.partition(":")
    wanted = PointId("d", part, kind)
    return [spec.id for spec in layout.points].index(wanted)


async def test_layouts_are_known_before_the_first_contact(subject: Subject) -> None:
    assert subject.device.id == "d"
    assert subject.device.endpoint
    told = {spec.id for layout in subject.device.layouts for spec in layout.points}
    profile, *_ = READINGS[subject.protocol]
    expected = bind(profiles()[profile], "d")
    assert told == {spec.id for layout in expected.layouts for spec in layout.points}
    assert all(subject.device.period_s(layout) > 0.0 for layout in subject.device.layouts)


async def test_a_scan_has_full_length_and_nan_exactly_where_bad(subject: Subject) -> None:
    for layout in subject.device.layouts:
        scan = await subject.device.read(layout)
        bad = (scan.quality & 3) == int(Grade.BAD)
        assert (np.isnan(scan.values) == bad).all()
        assert scan.layout is layout


async def test_a_reading_is_what_the_plant_holds(subject: Subject) -> None:
    layout = subject.device.layouts[0]
    scan = await subject.device.read(layout)
    assert scan.values[at(subject, layout)] == pytest.approx(subject.value)
    assert grade_of(int(scan.quality[at(subject, layout)])) is Grade.GOOD


async def test_a_dead_device_gives_a_full_scan_of_timeouts(subject: Subject) -> None:
    subject.plant.health["d"] = "dead"
    layout = subject.device.layouts[0]
    scan = await subject.device.read(layout)
    assert np.isnan(scan.values).all()
    assert {flaw_of(int(q)) for q in scan.quality} == {Flaw.TIMEOUT}


async def test_garbage_never_becomes_a_number(subject: Subject) -> None:
    subject.plant.health["d"] = "garbage"
    scan = await subject.device.read(subject.device.layouts[0])
    assert np.isnan(scan.values).all()


async def test_a_slow_device_is_still_read(subject: Subject) -> None:
    subject.plant.health["d"] = "slow"
    layout = subject.device.layouts[0]
    scan = await subject.device.read(layout)
    assert scan.values[at(subject, layout)] == pytest.approx(subject.value)


async def test_a_point_that_cannot_be_written_is_refused_without_a_word(subject: Subject) -> None:
    part, _, kind = subject.name.partition(":")
    ack = await subject.device.write(_command(part, kind, 1.0))
    assert ack.outcome is Outcome.REJECTED
    assert "not writable" in ack.detail
    unknown = await subject.device.write(_command("nowhere", kind, 1.0))
    assert unknown.outcome is Outcome.REJECTED
    assert subject.plant.written == []


@WRITABLE
async def test_a_write_is_applied_and_read_back(subject: Subject) -> None:
    ack = await subject.device.write(_command("loop.secondary", "supply_setpoint", 33.5))
    assert (ack.outcome, ack.actual) == (Outcome.APPLIED, pytest.approx(33.5))
    assert len(subject.plant.written) == 1
    beyond = await subject.device.write(_command("loop.secondary", "supply_setpoint", 60.0))
    assert beyond.outcome is Outcome.REJECTED
    nothing = await subject.device.write(_command("loop.secondary", "supply_setpoint", math.nan))
    assert nothing.outcome is Outcome.REJECTED
    assert len(subject.plant.written) == 1


@WRITABLE
async def test_a_write_to_a_dead_device_is_unanswered(subject: Subject) -> None:
    subject.plant.health["d"] = "dead"
    ack = await subject.device.write(_command("loop.secondary", "supply_setpoint", 33.5))
    assert (ack.outcome, ack.actual) == (Outcome.UNANSWERED, None)


def _command(part: str, kind: str, value: float) -> Command:
    return Command(PointId("d", part, kind), value, 1, 1, SystemClock().utc_ms(), 60.0, "test")
