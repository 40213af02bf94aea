"""A trap makes the service look at once and say so; it never makes it believe the trap."""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
from collections.abc import AsyncIterator, Iterable

import pytest

from api.hall import Feed
from api.service.trapping import KIND, MOST, MOST_OF_ONE, STANDS_S, Trapping, senders
from drivers.collect import Collector
from drivers.credentials import Credentials
from drivers.device import ProfiledDevice
from drivers.profile.binding import bind
from drivers.sim.impersonation import Impersonation
from drivers.sim.source import Instruments
from drivers.sim.transport import SimTransport
from drivers.traps.receiver import Trap
from facility.clock import LoopClock, SystemClock
from facility.commands import AlarmEvent, Severity
from facility.config import DeviceConfig, Measures
from facility.points import PointTable, Scan
from facility.snapshot import LiveImage
from tests.api.hall import demo_facility
from tests.drivers.traps.test_receiver import ON_BATTERY, trap_of
from tests.drivers.wires import in_virtual_time, profile_of

PROFILE = profile_of(
    {"part": "total", "kind": "active_power", "at": {"modbus": {"address": 0, "type": "u32"}}},
    classes={"fast": {"period": "10 min", "stale_after": "1 h"}},
)
TRAP = Trap(("ups-1",), "127.0.0.1", ON_BATTERY, "UPS on battery", 5)


class Sink:
    def put(self, scan: Scan) -> None:
        """Nowhere."""


class Hall:
    """One device, its collector, and what was journalled."""

    def __init__(self, clock: SystemClock | LoopClock, port: int = 0) -> None:
        facility = demo_facility()
        devices = {"ups-1": device_at("modbus://127.0.0.1:502/1")}
        facility = facility.model_copy(update={"devices": devices})
        plant = Instruments({("ups-1", "total", "active_power"): 1000.0})
        rng = random.Random(3)
        self.wire = SimTransport(Impersonation(PROFILE, "ups-1", plant), clock, rng)
        self.device = ProfiledDevice(bind(PROFILE, "ups-1"), self.wire, clock)
        image = LiveImage(PointTable.of(self.device.layouts))
        self.collector = Collector([self.device], image, Sink(), clock, rng)
        self.feed = Feed()
        self.events: list[AlarmEvent] = []
        self.trapping = Trapping(
            facility,
            ("127.0.0.1", port),
            [Credentials("community", None, "hall")],
            self.collector,
            self.feed,
            self.journal,
            clock,
        )

    async def journal(self, events: Iterable[AlarmEvent]) -> None:
        self.events.extend(events)


def device_at(address: str) -> DeviceConfig:
    return DeviceConfig(profile="x", address=address, measures=Measures(nothing=True))


@pytest.fixture
async def hall() -> AsyncIterator[Hall]:
    made = Hall(SystemClock())
    tasks = [asyncio.create_task(w()) for w in (made.collector.run, made.trapping.run)]
    async with asyncio.timeout(5.0):
        while not made.trapping.port:  # noqa: ASYNC110
            await asyncio.sleep(0.002)
    await asyncio.sleep(0.02)
    yield made
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_trap_is_followed_by_a_look_and_an_event_that_names_it(hall: Hall) -> None:
    before = hall.wire.requests
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.sendto(trap_of(b"hall"), ("127.0.0.1", hall.trapping.port))
    async with asyncio.timeout(5.0):
        while hall.wire.requests == before or not hall.events:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
    (event,) = hall.events
    assert (event.kind, event.subject, event.active) == (KIND, "ups-1", True)
    assert (event.severity, event.page) == (Severity.INFO, False)
    assert "UPS on battery" in event.text
    assert hall.feed.active_alarms() == (event,)
    assert hall.trapping.counts["passed"] == 1


def test_a_trap_stands_for_a_minute_and_one_of_the_same_name_holds_it_up() -> None:
    async def main(clock: LoopClock) -> None:
        hall = Hall(clock)
        telling = asyncio.create_task(hall.trapping._tell())
        hall.trapping.heard(TRAP)
        await asyncio.sleep(0.75 * STANDS_S)
        hall.trapping.heard(TRAP)
        await asyncio.sleep(0.75 * STANDS_S)
        assert [e.active for e in hall.events] == [True]
        await asyncio.sleep(STANDS_S)
        assert [e.active for e in hall.events] == [True, False]
        assert hall.feed.active_alarms() == ()
        telling.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await telling

    in_virtual_time(main)


def test_a_trap_that_stood_when_the_service_ended_is_taken_down_at_the_next_start() -> None:
    async def main(clock: LoopClock) -> None:
        hall = Hall(clock)
        old = AlarmEvent("trap:ups-1:1.3", KIND, "ups-1", Severity.INFO, True, "x", 1)
        hall.feed.remember([old])
        hall.trapping.take_down_old()
        telling = asyncio.create_task(hall.trapping._tell())
        await asyncio.sleep(1.0)
        assert [(e.key, e.active) for e in hall.events] == [(old.key, False)]
        telling.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await telling

    in_virtual_time(main)


async def test_senders_are_found_by_address_and_by_name() -> None:
    found = await senders(
        {
            "ups-1": device_at("snmp://127.0.0.1:161"),
            "pdu-1": device_at("snmp://localhost"),
            "cdu-1": device_at("modbus://192.0.2.7/3"),
            "cdu-2": device_at("modbus://192.0.2.7/4"),
            "sensor-6": device_at("snmp://[fe80::7%eth0]"),
            "gone": device_at("snmp://no-such-host.invalid"),
            "no name": device_at("snmp://pdu..example"),
            "sensor": device_at("mqtt:a/b"),
        }
    )
    assert {"ups-1", "pdu-1"} <= set(found["127.0.0.1"])
    assert found["192.0.2.7"] == ("cdu-1", "cdu-2")
    assert found["fe80::7"] == ("sensor-6",)
    assert not any("gone" in names or "sensor" in names for names in found.values())


async def test_an_engine_at_the_address_of_a_pdu_was_said_to_have_sent_its_trap() -> None:
    pdu = DeviceConfig(profile="pdu/apc-rpdu2", address="snmp://10.0.0.1")
    engine = DeviceConfig(profile="engine/vllm", address="http://10.0.0.1:8000")
    meter = DeviceConfig(profile="meter/abb-b", address="modbus://10.0.0.2/1")
    found = await senders({"engine": engine, "pdu": pdu, "meter": meter})
    assert found == {"10.0.0.1": ("pdu",), "10.0.0.2": ("meter",)}


async def test_numeric_senders_are_known_before_any_name_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With the name server gone all traps were a stranger's, for half a minute a name."""

    def asked(*_where: object, **_more: object) -> list[object]:
        raise AssertionError("a name server was asked")

    monkeypatch.setattr(socket, "getaddrinfo", asked)
    devices = {"a": device_at("snmp://name.example"), "b": device_at("snmp://192.0.2.7")}
    assert await senders(devices, by_name=False) == {"192.0.2.7": ("b",)}


def test_a_device_that_sends_ever_other_names_leaves_room_for_the_others() -> None:
    async def main(clock: LoopClock) -> None:
        hall = Hall(clock)
        telling = asyncio.create_task(hall.trapping._tell())
        for i in range(2 * MOST):
            hall.trapping.heard(Trap(("ups-1",), "127.0.0.1", (1, 3, i), "x", 5))
        hall.trapping.heard(Trap(("ups-2",), "127.0.0.2", ON_BATTERY, "UPS on battery", 5))
        await asyncio.sleep(1.0)
        assert sum(e.subject == "ups-1" for e in hall.events) == MOST_OF_ONE
        assert "ups-2" in {e.subject for e in hall.events}
        telling.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await telling

    in_virtual_time(main)
