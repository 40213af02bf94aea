"""Devices that publish: latest value, retained, silence, nonsense; profiles both ways."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from drivers.mqtt.device import MqttDevice
from drivers.mqtt.memory import MemoryBroker, MemoryBus
from drivers.profile import Profile
from drivers.profile.binding import bind
from drivers.sim.impersonation import Impersonation
from drivers.sim.publish import Publisher, messages
from drivers.sim.source import Instruments
from facility.clock import LoopClock
from facility.points import Flaw, Grade, flaw_of, grade_of
from tests.drivers.agent.rig import START_MS, in_virtual_time

NAMES = ("sensor/json-mqtt", "sim/weather", "sim/twin")


def profile(name: str) -> Profile:
    path = Path(__file__).resolve().parents[3] / "drivers" / "profiles" / f"{name}.yaml"
    return Profile.model_validate(yaml.safe_load(path.read_text("utf-8")))


class Seen(dict[str, tuple[float, Grade, Flaw]]):
    """part:kind -> value, grade, flaw."""


async def look(device: MqttDevice) -> Seen:
    layout = device.layouts[0]
    scan = await device.read(layout)
    return Seen(
        {
            f"{spec.id.part}:{spec.id.kind}": (
                float(scan.values[i]),
                grade_of(int(scan.quality[i])),
                flaw_of(int(scan.quality[i])),
            )
            for i, spec in enumerate(layout.points)
        }
    )


async def sensor() -> tuple[MqttDevice, MemoryBus, LoopClock]:
    clock = LoopClock(asyncio.get_running_loop(), START_MS)
    bus = MemoryBus(MemoryBroker())
    device = MqttDevice(bind(profile("sensor/json-mqtt"), "in-1"), bus, clock, "hall/r1/in")
    await bus.start()
    return device, bus, clock


async def say(bus: MemoryBus, body: Any, *, retain: bool = False) -> None:
    payload = body if isinstance(body, bytes) else json.dumps(body).encode()
    await bus.publish("hall/r1/in", payload, retain=retain)
    await asyncio.sleep(0.01)


@pytest.mark.parametrize("name", NAMES)
def test_a_profile_reads_back_what_it_published(name: str) -> None:
    async def work() -> None:
        clock = LoopClock(asyncio.get_running_loop(), START_MS)
        bus = MemoryBus(MemoryBroker())
        shape = profile(name)
        device = MqttDevice(bind(shape, "d"), bus, clock, "t")
        wanted = {
            f"{s.id.part}:{s.id.kind}": 0.25 * i for i, s in enumerate(device.layouts[0].points)
        }
        wanted = {
            key: float(round(v)) if "leak" in key or "state" in key else v
            for key, v in wanted.items()
        }
        await bus.start()
        simulated = Impersonation(shape, "d", Instruments.of("d", wanted))
        await Publisher(simulated, "t", bus, clock).publish(0)
        await asyncio.sleep(0.01)
        seen = await look(device)
        assert {key: value for key, (value, _, _) in seen.items()} == pytest.approx(wanted)
        assert {grade for _, grade, _ in seen.values()} == {Grade.GOOD}

    in_virtual_time(work)


def test_silence_makes_every_value_stale_and_a_word_makes_it_good_again() -> None:
    async def work() -> None:
        device, bus, _ = await sensor()
        assert (await look(device))["inlet:temperature"][2] is Flaw.TIMEOUT
        await say(bus, {"temperature_c": 24.5, "humidity_percent": 40.0})
        assert (await look(device))["inlet:temperature"] == (24.5, Grade.GOOD, Flaw.NONE)
        await asyncio.sleep(5.1)
        value, grade, flaw = (await look(device))["inlet:temperature"]
        assert value != value
        assert (grade, flaw) == (Grade.BAD, Flaw.STALE)
        await say(bus, {"temperature_c": 25.0, "humidity_percent": 40.0})
        assert (await look(device))["inlet:temperature"] == (25.0, Grade.GOOD, Flaw.NONE)

    in_virtual_time(work)


def test_a_retained_message_is_suspect_until_the_device_speaks() -> None:
    async def work() -> None:
        clock = LoopClock(asyncio.get_running_loop(), START_MS)
        broker = MemoryBroker()
        early = MemoryBus(broker)
        await early.start()
        await say(early, {"temperature_c": 24.5, "humidity_percent": 40.0}, retain=True)
        bus = MemoryBus(broker)
        device = MqttDevice(bind(profile("sensor/json-mqtt"), "in-1"), bus, clock, "hall/r1/in")
        await bus.start()
        await asyncio.sleep(0.01)
        assert (await look(device))["inlet:temperature"] == (24.5, Grade.SUSPECT, Flaw.RETAINED)
        await say(early, {"temperature_c": 26.0, "humidity_percent": 40.0})
        assert (await look(device))["inlet:temperature"] == (26.0, Grade.GOOD, Flaw.NONE)

    in_virtual_time(work)


def test_a_source_time_that_stands_still_is_an_old_value_sent_again() -> None:
    async def work() -> None:
        device, bus, clock = await sensor()
        stamp = clock.utc_ms()
        for _ in range(8):
            await say(bus, {"temperature_c": 24.5, "humidity_percent": 40, "utc_ms": stamp})
            await look(device)
            await asyncio.sleep(1.0)
        assert (await look(device))["inlet:temperature"][2] is Flaw.STALE

    in_virtual_time(work)


def test_a_wrong_clock_is_noted_and_believed_once_it_has_been_as_wrong_for_a_while() -> None:
    async def work() -> None:
        device, bus, clock = await sensor()
        grades = []
        for _ in range(14):
            await say(bus, {"temperature_c": 24.5, "utc_ms": clock.utc_ms() - 3_600_000})
            value, grade, flaw = (await look(device))["inlet:temperature"]
            assert (value, flaw) == (24.5, Flaw.CLOCK_SKEW)
            grades.append(grade)
            await asyncio.sleep(1.0)
        assert grades[0] is Grade.SUSPECT
        assert grades[-1] is Grade.GOOD
        scan = await device.read(device.layouts[0])
        assert scan.source_ms == scan.received_ms

    in_virtual_time(work)


def test_a_clock_that_is_ahead_is_wrong_but_its_value_is_of_now() -> None:
    async def work() -> None:
        device, bus, clock = await sensor()
        await say(bus, {"temperature_c": 24.5, "utc_ms": clock.utc_ms() + 3_600_000})
        assert (await look(device))["inlet:temperature"] == (24.5, Grade.GOOD, Flaw.CLOCK_SKEW)

    in_virtual_time(work)


def test_an_hour_of_old_values_sent_at_once_is_not_taken_for_the_present() -> None:
    """A gateway that was cut off sends what it kept, each value with the time it was taken."""

    async def work() -> None:
        device, bus, clock = await sensor()
        await say(bus, {"temperature_c": 24.0, "utc_ms": clock.utc_ms()})
        assert (await look(device))["inlet:temperature"][1] is Grade.GOOD
        late = clock.utc_ms() - 3_600_000
        for i in range(3_000):
            await bus.publish(
                "hall/r1/in",
                json.dumps({"temperature_c": 90.0, "utc_ms": late + 1000 * i}).encode(),
            )
            await asyncio.sleep(0.01)
            if i % 50 == 0:
                assert (await look(device))["inlet:temperature"][1] is Grade.BAD
        await say(bus, {"temperature_c": 25.0, "utc_ms": clock.utc_ms()})
        assert (await look(device))["inlet:temperature"] == (25.0, Grade.GOOD, Flaw.NONE)

    in_virtual_time(work)


@pytest.mark.parametrize(
    ("body", "flaw"),
    [
        (b'{"temperature_c": NaN}', Flaw.UNDECODABLE),
        (b'{"temperature_c": Infinity}', Flaw.UNDECODABLE),
        (b'{"temperature_c": 1e999}', Flaw.UNDECODABLE),
        (b'{"temperature_c": null}', Flaw.SENTINEL),
        (b'{"humidity_percent": 40}', Flaw.REFUSED),
        (b'{"temperature_c": {"value": 24}}', Flaw.UNDECODABLE),
        (b'{"temperature_c": "warm"}', Flaw.UNDECODABLE),
        (b"\xff\xfe", Flaw.UNDECODABLE),
        (b"[" * 60_000, Flaw.UNDECODABLE),
        (b"24.5", Flaw.REFUSED),
        (b"", Flaw.UNDECODABLE),
    ],
)
def test_nonsense_never_becomes_a_number(body: bytes, flaw: Flaw) -> None:
    async def work() -> None:
        device, bus, _ = await sensor()
        await say(bus, body)
        value, grade, found = (await look(device))["inlet:temperature"]
        assert value != value
        assert (grade, found) == (Grade.BAD, flaw)

    in_virtual_time(work)


def test_offline_makes_a_device_stale_at_once() -> None:
    async def work() -> None:
        device, bus, _ = await sensor()
        await say(bus, {"temperature_c": 24.5})
        await bus.publish("hall/r1/in/availability", b"offline")
        await asyncio.sleep(0.01)
        assert (await look(device))["inlet:temperature"][2] is Flaw.STALE
        await say(bus, {"temperature_c": 24.5})
        assert (await look(device))["inlet:temperature"][1] is Grade.GOOD

    in_virtual_time(work)


def test_an_implausible_value_is_kept_and_suspect() -> None:
    async def work() -> None:
        device, bus, _ = await sensor()
        await say(bus, {"temperature_c": 95.0})
        assert (await look(device))["inlet:temperature"] == (95.0, Grade.SUSPECT, Flaw.IMPLAUSIBLE)

    in_virtual_time(work)


def test_a_dead_slow_or_garbled_simulated_device_is_what_it_says() -> None:
    async def work() -> None:
        device, bus, clock = await sensor()
        source = Instruments.of("in-1", {"inlet:temperature": 24.0, "inlet:humidity": 0.4})
        publisher = Publisher(
            Impersonation(profile("sensor/json-mqtt"), "in-1", source), "hall/r1/in", bus, clock
        )
        source.health["in-1"] = "dead"
        await publisher.publish(0)
        await asyncio.sleep(0.01)
        assert (await look(device))["inlet:temperature"][2] is Flaw.TIMEOUT
        source.health["in-1"] = "garbage"
        await publisher.publish(0)
        await asyncio.sleep(0.01)
        assert (await look(device))["inlet:temperature"][2] is Flaw.UNDECODABLE

    in_virtual_time(work)


def test_what_the_plant_does_not_know_is_published_as_null() -> None:
    simulated = Impersonation(profile("sim/weather"), "w", Instruments.of("w", {}))
    body = json.loads(messages(simulated, 5)[""])
    assert body == {"temperature_c": None, "humidity_percent": None, "utc_ms": 5}


@settings(max_examples=200)
@given(payload=st.binary(max_size=200) | st.text(max_size=100).map(str.encode))
def test_no_bytes_crash_the_device(payload: bytes) -> None:
    async def work() -> None:
        device, bus, _ = await sensor()
        await say(bus, payload)
        for value, grade, _ in (await look(device)).values():
            assert (value != value) == (grade is Grade.BAD)

    in_virtual_time(work)
