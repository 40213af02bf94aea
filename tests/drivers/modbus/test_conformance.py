"""One suite for both readers: our own frames and pymodbus, the same servers, the same readings.

Servers are pymodbus' own (TCP, RTU over TCP), raw ones that answer as field devices do, one under
TLS with a private authority, and a serial line on a pseudo-terminal.
"""

from __future__ import annotations

import asyncio
import os
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from pymodbus import FramerType
from pymodbus.server import ModbusTcpServer
from pymodbus.simulator import DataType, SimData, SimDevice

from drivers.address import parse_address
from drivers.device import ProfiledDevice
from drivers.modbus import ModbusTransport, second_opinion
from drivers.modbus.framing import crc16
from drivers.profile.binding import Binding
from drivers.profile.codec import Decoded
from drivers.transport import Transport
from facility.clock import SystemClock
from facility.points import Flaw, Grade, flaw_of, grade_of
from tests.drivers.modbus.lines import echoed, registers
from tests.drivers.modbus.test_devices import raw_server
from tests.drivers.modbus.test_wires import Authority, Serial, serve_rtu, tls_server
from tests.drivers.wires import binding_of, links

pytestmark = pytest.mark.system

Make = Callable[..., Transport]
READERS: tuple[Make, ...] = (ModbusTransport, second_opinion)
#: type -> the four registers that hold 12345.5 or 12345 (two or one for the narrower)
WORDS = {
    "u16": struct.pack(">H", 12345),
    "s16": struct.pack(">h", -12345),
    "u32": struct.pack(">I", 1234567),
    "s32": struct.pack(">i", -1234567),
    "u64": struct.pack(">Q", 1234567),
    "s64": struct.pack(">q", -1234567),
    "f32": struct.pack(">f", 12345.5),
    "f64": struct.pack(">d", 12345.5),
}
REFUSED = bytes((0x83, 2))


def box(make: Make, address: str, binding: Binding) -> ProfiledDevice:
    profile = binding.profile
    transport = make(parse_address(address), links(), profile.modbus, profile.quirks)
    return ProfiledDevice(binding, transport, SystemClock())


async def look(make: Make, address: str, binding: Binding) -> list[Decoded]:
    """All points of a device, poll class by poll class, as one reader sees them."""
    device = box(make, address, binding)
    try:
        return [d for layout in device.layouts for d in await device.look(layout)]
    finally:
        await device.close()


async def alike(address: str, binding: Binding) -> list[Decoded]:
    """What both readers see, which has to be the same to the raw."""
    own, reference = [await look(make, address, binding) for make in READERS]
    assert list(map(repr, own)) == list(map(repr, reference))
    return own


def every_type() -> tuple[Binding, dict[int, bytes], list[float]]:
    """A device with every type in every order, in both tables of registers, and bits."""
    points: list[dict[str, Any]] = []
    held: dict[int, bytes] = {}
    values: list[float] = []
    address = 10

    def add(function: str, value: float, **more: Any) -> None:
        number = len(points)
        where = {"modbus": {"function": function, **more}}
        points.append({"part": f"outlet.{number}", "kind": "reactive_power", "at": where})
        values.append(value)

    for name, data in WORDS.items():
        for words in ("big", "little"):
            for octets in ("big", "little"):
                pairs = [data[i : i + 2] for i in range(0, len(data), 2)]
                pairs = [p[::-1] for p in pairs] if octets == "little" else pairs
                held[address] = b"".join(reversed(pairs) if words == "little" else pairs)
                value = struct.unpack(f">{_FORMS[name]}", data)[0]
                for function in ("holding", "input"):
                    add(
                        function,
                        value,
                        address=address,
                        type=name,
                        word_order=words,
                        byte_order=octets,
                    )
                address += len(pairs) + 1
    held[address] = struct.pack(">H", 0xABCD)
    add("holding", 0xC, address=address, type="u16", bits=[4, 7])
    for at in (0, 3, 4, 17):
        for function in ("coil", "discrete"):
            add(function, float(at % 3 == 0), address=at, type="bit")
    return binding_of(*points), held, values


_FORMS = {
    "u16": "H", "s16": "h", "u32": "I", "s32": "i", "u64": "Q", "s64": "q", "f32": "f", "f64": "d",
}  # fmt: skip


@asynccontextmanager
async def pymodbus_server(held: dict[int, bytes], framer: FramerType) -> AsyncIterator[int]:
    """Its own server, as unit 3, with these registers in both tables and every third bit set."""
    values = [0] * 200
    for address, data in held.items():
        words = struct.unpack(f">{len(data) // 2}H", data)
        values[address : address + len(words)] = words
    table = lambda: [SimData(0, values=values, datatype=DataType.REGISTERS)]  # noqa: E731
    bits = lambda: [  # noqa: E731
        SimData(0, values=[i % 3 == 0 for i in range(32)], datatype=DataType.BITS)
    ]
    device = SimDevice(3, simdata=(bits(), bits(), table(), table()))
    server = ModbusTcpServer(device, framer=framer, address=("127.0.0.1", 0))
    await server.serve_forever(background=True)
    assert server.transport is not None
    try:
        yield server.transport.sockets[0].getsockname()[1]
    finally:
        await server.shutdown()


@pytest.mark.parametrize(
    ("scheme", "framer"), [("modbus", FramerType.SOCKET), ("modbus+rtu", FramerType.RTU)]
)
async def test_both_read_every_type_of_every_function_from_the_server_of_pymodbus(
    scheme: str, framer: FramerType
) -> None:
    binding, held, values = every_type()
    async with pymodbus_server(held, framer) as port:
        seen = await alike(f"{scheme}://127.0.0.1:{port}/3", binding)
    assert [d.value for d in seen] == pytest.approx(values)
    assert {grade_of(d.quality) for d in seen} <= {Grade.GOOD, Grade.SUSPECT}


async def test_both_read_texts_of_a_device_that_says_who_it_is() -> None:
    text = {"modbus": {"address": 20, "type": "text", "length": 4}}
    binding = binding_of(
        {"part": "total", "kind": "active_power", "at": {"modbus": {"address": 0}}},
        identity={"model": [{"at": text}]},
    )
    async with pymodbus_server({20: b"PM-5\0\0\0\0"}, FramerType.SOCKET) as port:
        for make in READERS:
            device = box(make, f"modbus://127.0.0.1:{port}/3", binding)
            assert (await device.identify()).model == "PM-5"
            await device.close()


async def test_both_read_under_tls_and_on_a_serial_line_and_behind_a_device_server(
    tmp_path: Path,
) -> None:
    binding = registers(*range(100))
    ours, other = Authority(tmp_path, "ours"), Authority(tmp_path, "other")
    cert, key = ours.issue("wattkeeper")
    async with tls_server(ours, "cdu-1") as port:
        at = f"modbus+tls://127.0.0.1:{port}/1?cert={cert}&key={key}&name=cdu-1"
        assert [d.value for d in await alike(f"{at}&ca={ours.ca}", binding)] == list(range(100))
        seen = await alike(f"{at}&ca={other.ca}", binding)
        assert {flaw_of(d.quality) for d in seen} == {Flaw.TIMEOUT}
    server = await asyncio.start_server(serve_rtu, "127.0.0.1", 0)
    behind = f"modbus+rtu://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    assert [d.value for d in await alike(f"{behind}/3", binding)] == list(range(100))
    assert {flaw_of(d.quality) for d in await alike(f"{behind}/4", binding)} == {Flaw.TIMEOUT}
    server.close()
    line = Serial()
    near = f"modbus+serial://{line.path}/2?baud=115200&parity=none"
    assert [d.value for d in await alike(near, binding)] == list(range(100))
    line.unplug()


def without(*absent: int) -> Callable[[bytes, int], bytes]:
    """A device that refuses every block that these registers lie in."""

    def answer(pdu: bytes, _transaction: int) -> bytes:
        first, count = struct.unpack(">HH", pdu[1:5])
        return REFUSED if any(first <= a < first + count for a in absent) else echoed(pdu)

    return answer


async def test_both_find_the_registers_that_a_device_does_not_have() -> None:
    async with raw_server(without(7, 31)) as (port, _):
        seen = await alike(f"modbus://127.0.0.1:{port}/1", registers(*range(60)))
        assert [i for i, d in enumerate(seen) if flaw_of(d.quality) is Flaw.REFUSED] == [7, 31]
        seen = await alike(f"modbus://127.0.0.1:{port}/1", registers(6, 8))  # 7 is only a gap
        assert [d.value for d in seen] == [6.0, 8.0]


@pytest.mark.parametrize(
    ("answer", "flaw"),
    [
        (lambda p: None, Flaw.TIMEOUT),
        (lambda p: bytes((p[0] | 0x80, 4)), Flaw.DEVICE_FAULT),
        (lambda p: bytes((p[0] | 0x80, 11)), Flaw.TIMEOUT),  # a gateway: nobody there
        (lambda p: echoed(p)[:-2], Flaw.UNDECODABLE),  # cut short
        (lambda p: echoed(p) + b"\x00\x07", Flaw.UNDECODABLE),  # more than was asked for
        (lambda p: bytes((p[0], 2 * 3)) + bytes(2), Flaw.UNDECODABLE),  # says more than it has
        (lambda p: b"\x04" + echoed(p)[1:], Flaw.UNDECODABLE),  # of another function
        (lambda p: bytes((p[0], 0)), Flaw.UNDECODABLE),  # empty
    ],
)
async def test_neither_makes_a_number_of_what_is_no_answer(
    answer: Callable[[bytes], bytes | None], flaw: Flaw
) -> None:
    binding = registers(5, 6)
    async with raw_server(lambda pdu, _: answer(pdu)) as (port, _):
        seen = await alike(f"modbus://127.0.0.1:{port}/1", binding)
    assert [flaw_of(d.quality) for d in seen] == [flaw, flaw]


@pytest.mark.parametrize("quirk", ["close_after_each", "single_client", "one_field_per_request"])
async def test_both_mind_what_a_device_cannot_do(quirk: str) -> None:
    async with raw_server(lambda pdu, _: echoed(pdu)) as (port, asked):
        seen = await alike(f"modbus://127.0.0.1:{port}/1", registers(1, 2, 3, quirks=[quirk]))
        assert [d.value for d in seen] == [1.0, 2.0, 3.0]
        assert len(asked) == (6 if quirk == "one_field_per_request" else 2)


async def test_the_second_opinion_never_writes_and_leaves_no_socket_behind() -> None:
    binding = registers(5)
    async with raw_server(lambda pdu, _: echoed(pdu)) as (port, asked):
        await look(second_opinion, f"modbus://127.0.0.1:{port}/1", binding)
        asked.clear()
        await asyncio.sleep(0.05)
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(3):
            device = box(second_opinion, f"modbus://127.0.0.1:{port}/1", binding)
            reply = await device.transport.put(binding.all()[0].at, (9,))
            assert reply.outcome == "rejected"
            assert not asked
            assert [d.value for d in await device.look(device.layouts[0])] == [5.0]
            await device.close()
            asked.clear()
        await asyncio.sleep(0.05)
        assert len(os.listdir("/proc/self/fd")) == before


async def test_the_second_opinion_takes_no_late_answer_for_that_to_another_question() -> None:
    """pymodbus hands RTU answers that come late to the next request; the link is dropped first."""
    asked: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                frame = await reader.readexactly(8)
                asked.append(frame)
                await asyncio.sleep(0.5 if len(asked) <= 2 else 0.0)  # later than the timeout
                writer.write(rtu(frame))
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    first, second = registers(5), registers(900)
    shared = links()
    transport = second_opinion(
        parse_address(f"modbus+rtu://127.0.0.1:{port}/1"), shared, first.profile.modbus
    )
    one = ProfiledDevice(first, transport, SystemClock())
    two = ProfiledDevice(second, transport, SystemClock())
    assert flaw_of((await one.look(one.layouts[0]))[0].quality) is Flaw.TIMEOUT
    assert (await two.look(two.layouts[0]))[0].value == 900.0
    await one.close()
    server.close()


def rtu(frame: bytes) -> bytes:
    """The right answer to an RTU request."""
    body = frame[:1] + echoed(frame[1:-2])
    return body + crc16(body).to_bytes(2, "little")
