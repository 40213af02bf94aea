"""Modbus against pymodbus' own server and against servers that misbehave."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from pymodbus.server import ModbusTcpServer
from pymodbus.simulator import DataType, SimData, SimDevice

from drivers.address import Address
from drivers.device import ProfiledDevice
from drivers.modbus import ModbusTransport
from drivers.profile.binding import Binding, may_write
from facility.clock import SystemClock
from facility.commands import Command, Outcome
from facility.points import Flaw, PointId, flaw_of
from tests.drivers.wires import binding_of, links

pytestmark = pytest.mark.system

Answer = Callable[[bytes, int], bytes | None]


@asynccontextmanager
async def raw_server(answer: Answer, *, delay_s: float = 0.0) -> AsyncIterator[tuple[int, list]]:
    """A TCP server that hands each PDU to `answer(pdu, transaction)`; None says nothing."""
    seen: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readexactly(7)
                transaction, _, length, unit = struct.unpack(">HHHB", head)
                pdu = await reader.readexactly(length - 1)
                seen.append(pdu)
                if delay_s:
                    await asyncio.sleep(delay_s)
                reply = answer(pdu, transaction)
                if reply is not None:
                    mbap = struct.pack(">HHHB", transaction, 0, len(reply) + 1, unit)
                    writer.write(mbap + reply)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            return
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1], seen
    finally:
        server.close()


def echo_addresses(pdu: bytes, _transaction: int) -> bytes:
    """Register n holds n."""
    address, count = struct.unpack(">HH", pdu[1:5])
    words = struct.pack(f">{count}H", *range(address, address + count))
    return bytes((pdu[0], len(words))) + words


def registers(*addresses: int, **more: object) -> Binding:
    return binding_of(
        *(
            {"part": f"outlet.{a}", "kind": "active_power", "at": {"modbus": {"address": a}}}
            for a in addresses
        ),
        **more,
    )


def device(binding: Binding, port: int, unit: int = 1) -> ProfiledDevice:
    address = Address("modbus", "127.0.0.1", port, unit)
    transport = ModbusTransport(address, links(), binding.profile.modbus, binding.profile.quirks)
    return ProfiledDevice(binding, transport, SystemClock())


def flaws(values: object) -> list[Flaw]:
    return [flaw_of(int(q)) for q in values.quality]  # type: ignore[attr-defined]


async def test_reads_and_writes_a_pymodbus_server() -> None:
    inputs = [SimData(0, values=[2345, 0x8000, 0x0001, 0x86A0], datatype=DataType.REGISTERS)]
    holding = [SimData(0, values=[300], datatype=DataType.REGISTERS)]
    empty = [SimData(0, values=[False], datatype=DataType.BITS)]
    coils = [SimData(0, values=[True, False], datatype=DataType.BITS)]
    sim = SimDevice(3, simdata=(coils, empty, holding, inputs))
    server = ModbusTcpServer(sim, address=("127.0.0.1", 0))
    await server.serve_forever(background=True)
    port = server.transport.sockets[0].getsockname()[1]
    points = (
        {
            "part": "inlet",
            "kind": "temperature",
            "scale": 0.01,
            "at": {"modbus": {"function": "input", "address": 0, "type": "s16"}},
        },
        {
            "part": "outlet",
            "kind": "temperature",
            "sentinels": [32768],
            "at": {"modbus": {"function": "input", "address": 1, "type": "s16"}},
        },
        {
            "part": "total",
            "kind": "active_power",
            "at": {"modbus": {"function": "input", "address": 2, "type": "u32"}},
        },
        {
            "part": "total",
            "kind": "leak",
            "at": {"modbus": {"function": "coil", "address": 0, "type": "bit"}},
        },
        {
            "part": "loop",
            "kind": "supply_setpoint",
            "scale": 0.1,
            "at": {"modbus": {"address": 0, "type": "s16"}},
            "write": {"min": "15 degC", "max": "45 degC", "step": "0.1 K"},
        },
    )
    box = device(binding_of(*points), port, unit=3)
    try:
        scan = await box.read(box.layouts[0])
        assert list(scan.values[[0, 2, 3, 4]]) == pytest.approx([23.45, 100000.0, 1.0, 30.0])
        assert flaws(scan)[1] is Flaw.SENTINEL
        ack = await box.write(command("loop", "supply_setpoint", 32.5))
        assert (ack.outcome, ack.actual) == (Outcome.APPLIED, pytest.approx(32.5))
    finally:
        await box.close()
        await server.shutdown()


def command(part: str, kind: str, value: float, deadline_s: float = 60.0) -> Command:
    now_ms = SystemClock().utc_ms()
    return Command(PointId("d", part, kind), value, 1, 1, now_ms, deadline_s, "test")


async def test_ten_asked_two_answered_stores_nothing() -> None:
    """Case 6: pymodbus takes two registers where ten were asked for."""

    def short(pdu: bytes, _: int) -> bytes:
        return bytes((3, 4, 0, 1, 0, 2))

    async with raw_server(short) as (port, _seen):
        box = device(registers(*range(10)), port)
        scan = await box.read(box.layouts[0])
        assert set(flaws(scan)) == {Flaw.UNDECODABLE}
        await box.close()


async def test_an_answer_to_another_function_stores_nothing() -> None:
    """Case 6: function 4 in answer to function 3."""

    async with raw_server(lambda pdu, t: bytes((4,)) + echo_addresses(pdu, t)[1:]) as (port, _seen):
        box = device(registers(0, 1), port)
        assert set(flaws(await box.read(box.layouts[0]))) == {Flaw.UNDECODABLE}
        await box.close()


async def test_one_illegal_address_costs_no_other_point_its_value() -> None:
    def hole(pdu: bytes, transaction: int) -> bytes:
        address, count = struct.unpack(">HH", pdu[1:5])
        if address <= 7 < address + count:
            return bytes((pdu[0] | 0x80, 2))
        return echo_addresses(pdu, transaction)

    async with raw_server(hole) as (port, _seen):
        box = device(registers(*range(12)), port)
        for _ in range(2):
            scan = await box.read(box.layouts[0])
            assert [i for i, f in enumerate(flaws(scan)) if f is not Flaw.NONE] == [7]
            assert flaws(scan)[7] is Flaw.REFUSED
            assert scan.values[11] == 11.0
        await box.close()


async def test_a_device_slower_than_the_timeout_never_gives_another_requests_value() -> None:
    async with raw_server(echo_addresses, delay_s=0.5) as (port, _seen):
        transport = ModbusTransport(
            Address("modbus", "127.0.0.1", port), links(), registers(0).profile.modbus
        )
        for address in (100, 101):
            binding = registers(address)
            box = ProfiledDevice(binding, transport, SystemClock())
            scan = await box.read(box.layouts[0])
            assert flaws(scan) == [Flaw.TIMEOUT]
        await transport.close()


async def test_a_dead_unit_is_left_alone_and_its_neighbour_keeps_reading() -> None:
    def only_unit_one(pdu: bytes, transaction: int) -> bytes:
        return echo_addresses(pdu, transaction)

    async with raw_server(only_unit_one) as (port, _seen):
        shared = links()
        binding = registers(5)
        limits = binding.profile.modbus
        alive = ModbusTransport(Address("modbus", "127.0.0.1", port, 1), shared, limits)
        dead = ModbusTransport(Address("modbus", "127.0.0.1", 9, 2), shared, limits)
        good = ProfiledDevice(binding, alive, SystemClock())
        bad = ProfiledDevice(binding, dead, SystemClock())
        first = await bad.read(bad.layouts[0])
        again = dead.requests
        second = await bad.read(bad.layouts[0])
        assert flaws(first) == flaws(second) == [Flaw.TIMEOUT]
        assert dead.requests == again  # in back-off: nothing went out
        assert flaws(await good.read(good.layouts[0])) == [Flaw.NONE]
        await good.close()


async def test_two_units_share_one_connection() -> None:
    """Case 8: one connection for all units behind an endpoint."""
    async with raw_server(echo_addresses) as (port, _seen):
        shared = links()
        limits = registers(5).profile.modbus
        units = [
            ModbusTransport(Address("modbus", "127.0.0.1", port, u), shared, limits)
            for u in (1, 2, 3)
        ]
        boxes = [ProfiledDevice(registers(5), unit, SystemClock()) for unit in units]
        scans = await asyncio.gather(*(box.read(box.layouts[0]) for box in boxes))
        assert all(flaws(scan) == [Flaw.NONE] for scan in scans)
        assert units[0].link is units[2].link
        assert units[0].link.connects == 1
        await boxes[0].close()


async def test_good_values_come_back_after_the_device_was_away() -> None:
    clock = SystemClock()
    async with raw_server(echo_addresses) as (port, _seen):
        box = device(registers(4), port)
        assert flaws(await box.read(box.layouts[0])) == [Flaw.NONE]
        await box.close()
    assert flaws(await box.read(box.layouts[0])) == [Flaw.TIMEOUT]
    server = await asyncio.start_server(_answer_forever, "127.0.0.1", port)
    deadline_s = clock.monotonic_s() + 5.0
    seen = [Flaw.TIMEOUT]
    while seen != [Flaw.NONE] and clock.monotonic_s() < deadline_s:
        await asyncio.sleep(0.1)
        seen = flaws(await box.read(box.layouts[0]))
    assert seen == [Flaw.NONE]
    await box.close()
    server.close()


async def _answer_forever(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            transaction, _, length, unit = struct.unpack(">HHHB", await reader.readexactly(7))
            reply = echo_addresses(await reader.readexactly(length - 1), transaction)
            writer.write(struct.pack(">HHHB", transaction, 0, len(reply) + 1, unit) + reply)
    except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
        writer.close()


SETPOINT = {
    "part": "loop",
    "kind": "supply_setpoint",
    "at": {"modbus": {"address": 0, "type": "s16"}},
    "scale": 0.1,
    "write": {"min": "15 degC", "max": "45 degC", "step": "0.5 K", "settle": "50 ms"},
}


class Setpoint:
    """A holding register that obeys, refuses, ignores, clamps, obeys late or never acks."""

    def __init__(self, mood: str) -> None:
        self.mood, self.value, self.writes, self.pending = mood, 300, 0, None

    def __call__(self, pdu: bytes, _: int) -> bytes | None:
        if pdu[0] == 3:
            return bytes((3, 2)) + self.value.to_bytes(2, "big")
        self.writes += 1
        wanted = int.from_bytes(pdu[3:5], "big")
        if self.mood == "refuses":
            return bytes((0x86, 3))
        if self.mood != "ignores":
            self.value = min(wanted, 350) if self.mood == "clamps" else wanted
        return None if self.mood == "never acks" else pdu


@pytest.mark.parametrize(
    ("mood", "outcome", "actual"),
    [
        ("obeys", Outcome.APPLIED, 40.0),
        ("refuses", Outcome.REJECTED, 30.0),
        ("ignores", Outcome.REJECTED, 30.0),
        ("clamps", Outcome.CLAMPED, 35.0),
        ("never acks", Outcome.APPLIED, 40.0),
    ],
)
async def test_a_write_is_what_the_read_back_says(
    mood: str, outcome: Outcome, actual: float
) -> None:
    register = Setpoint(mood)
    async with raw_server(register) as (port, _seen):
        box = device(binding_of(SETPOINT), port)
        ack = await box.write(command("loop", "supply_setpoint", 40.0))
        assert (ack.outcome, ack.actual) == (outcome, pytest.approx(actual))
        assert register.writes == 1  # never repeated, whatever came back
        await box.close()


async def test_a_write_that_nobody_answers_stays_unanswered() -> None:
    async with raw_server(lambda _pdu, _t: None) as (port, _seen):
        box = device(binding_of(SETPOINT), port)
        ack = await box.write(command("loop", "supply_setpoint", 40.0))
        assert (ack.outcome, ack.actual) == (Outcome.UNANSWERED, None)
        await box.close()


@pytest.mark.parametrize("value", [14.9, 45.1, float("nan"), float("inf")])
async def test_a_value_outside_the_profile_is_not_sent(value: float) -> None:
    register = Setpoint("obeys")
    async with raw_server(register) as (port, _seen):
        box = device(binding_of(SETPOINT), port)
        ack = await box.write(command("loop", "supply_setpoint", value))
        assert ack.outcome is Outcome.REJECTED
        assert register.writes == 0
        await box.close()


async def test_a_command_past_its_deadline_is_not_sent() -> None:
    register = Setpoint("obeys")
    async with raw_server(register) as (port, _seen):
        box = device(binding_of(SETPOINT), port)
        ack = await box.write(command("loop", "supply_setpoint", 40.0, deadline_s=-1.0))
        assert ack.outcome is Outcome.REJECTED
        assert register.writes == 0


@pytest.mark.parametrize(
    ("verified", "host", "allowed"),
    [
        ("sim", "127.0.0.1", True),
        ("sim", "127.8.9.1", True),
        ("sim", "10.0.0.1", False),
        ("sim", "127.0.0.1.example.com", False),
        ("bench", "10.0.0.1", True),
        ("field", "cdu-1", True),
    ],
)
def test_an_unproven_profile_writes_to_loopback_only(
    verified: str, host: str, allowed: bool
) -> None:
    profile = binding_of(SETPOINT, verified=verified).profile
    assert may_write(profile, host) is allowed


async def test_a_sim_profile_is_not_written_to_a_network_address() -> None:
    binding = binding_of(SETPOINT)
    transport = ModbusTransport(
        Address("modbus", "192.0.2.1", 502), links(), binding.profile.modbus
    )
    box = ProfiledDevice(binding, transport, SystemClock())
    ack = await box.write(command("loop", "supply_setpoint", 40.0))
    assert ack.outcome is Outcome.REJECTED
    assert transport.requests == 0


FRAMES = {
    "another transaction": lambda t, u: struct.pack(">HHHB", t + 1, 0, 5, u) + bytes((3, 2, 0, 9)),
    "another unit": lambda t, u: struct.pack(">HHHB", t, 0, 5, u + 1) + bytes((3, 2, 0, 9)),
    "another protocol": lambda t, u: struct.pack(">HHHB", t, 7, 5, u) + bytes((3, 2, 0, 9)),
    "cut off": lambda t, u: struct.pack(">HHHB", t, 0, 5, u) + bytes((3, 2)),
    "a length that lies": lambda t, u: struct.pack(">HHHB", t, 0, 5, u) + bytes((3, 200, 0, 9)),
    "noise": lambda _t, _u: bytes(range(40, 80)),
    "a hang-up": lambda _t, _u: b"",
}


@pytest.mark.parametrize("name", list(FRAMES))
async def test_a_frame_that_is_no_answer_never_becomes_a_number(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            transaction, _, length, unit = struct.unpack(">HHHB", await reader.readexactly(7))
            await reader.readexactly(length - 1)
            writer.write(FRAMES[name](transaction, unit))
            await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            return
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    binding = registers(0)
    address = Address("modbus", "127.0.0.1", port)
    transport = ModbusTransport(address, links(), binding.profile.modbus)
    box = ProfiledDevice(binding, transport, SystemClock())
    scan = await box.read(box.layouts[0])
    assert scan.values[0] != scan.values[0]
    assert flaws(scan)[0] in (Flaw.TIMEOUT, Flaw.UNDECODABLE)
    assert not [record for record in caplog.records if record.levelname == "ERROR"]
    await box.close()
    server.close()


async def test_a_device_that_hangs_up_after_each_answer_is_read_without_a_storm() -> None:
    async with raw_server(echo_addresses) as (port, _seen):
        box = device(registers(3, quirks=["close_after_each"]), port)
        for _ in range(3):
            assert flaws(await box.read(box.layouts[0])) == [Flaw.NONE]
        assert box.transport.link.connects == 3
        await box.close()


async def test_a_device_that_needs_a_pause_between_requests_gets_it() -> None:
    """Case 15, over a real socket."""
    clock, last = SystemClock(), [float("-inf")]

    def impatient(pdu: bytes, transaction: int) -> bytes | None:
        now_s = clock.monotonic_s()
        early, last[0] = now_s - last[0] < 0.05, now_s
        return None if early else echo_addresses(pdu, transaction)

    async with raw_server(impatient) as (port, seen):
        quirks = ["pause_between_requests"]
        box = device(registers(3, 500, modbus={"max_hole": 0}, quirks=quirks), port)
        for _ in range(2):
            assert flaws(await box.read(box.layouts[0])) == [Flaw.NONE, Flaw.NONE]
        assert len(seen) == 4
        await box.close()


async def test_a_device_that_ignores_its_first_second_is_waited_for() -> None:
    """Case 9, over a real socket."""
    clock, opened = SystemClock(), []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        opened.append(clock.monotonic_s())
        try:
            while True:
                transaction, _, length, unit = struct.unpack(">HHHB", await reader.readexactly(7))
                reply = echo_addresses(await reader.readexactly(length - 1), transaction)
                if clock.monotonic_s() - opened[-1] > 1.0:
                    writer.write(struct.pack(">HHHB", transaction, 0, len(reply) + 1, unit) + reply)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    box = device(registers(3, quirks=["pause_after_connect"]), port)
    assert flaws(await box.read(box.layouts[0])) == [Flaw.NONE]
    assert len(opened) == 1
    await box.close()
    server.close()
