"""Lines over real sockets and in real time: a dead unit of seven, a listener that is down."""

from __future__ import annotations

import asyncio
import resource
import socket
import struct

import pytest

from drivers.address import parse_address
from drivers.device import ProfiledDevice
from drivers.modbus import ModbusTransport
from drivers.modbus.framing import crc16
from drivers.transport import Links
from facility.clock import SystemClock
from facility.points import Flaw
from tests.drivers.modbus.lines import echoed, flaws, read, registers

CYCLES = 60


class Gateway:
    """A TCP gateway to one serial line: requests wait their turn, 5 ms each."""

    def __init__(self, sick: str, *, rtu: bool) -> None:
        self._sick, self._rtu = sick, rtu
        self._line = asyncio.Lock()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readexactly(8 if self._rtu else 12)
                unit, pdu = (head[0], head[1:-2]) if self._rtu else (head[6], head[7:])
                async with self._line:
                    answer = await self._ask(unit, pdu)
                if answer is None:
                    continue
                body = bytes((unit,)) + answer
                if self._rtu:
                    writer.write(body + crc16(body).to_bytes(2, "little"))
                else:
                    writer.write(head[:4] + struct.pack(">H", len(body)) + body)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            writer.close()

    async def _ask(self, unit: int, pdu: bytes) -> bytes | None:
        if unit != 7:
            await asyncio.sleep(0.005)
            return echoed(pdu)
        if self._sick == "silent":
            return None
        await asyncio.sleep(0.5)
        return bytes((pdu[0] | 0x80, 0x0B))


@pytest.mark.soak
@pytest.mark.parametrize("rtu", [False, True], ids=["tcp", "rtu"])
@pytest.mark.parametrize("sick", ["silent", "exception 0x0B after 0.5 s"])
async def test_six_of_seven_units_keep_their_cycles_over_real_sockets(sick: str, rtu: bool) -> None:
    """Case 1: at least 99 % of 60 one-second cycles of the six."""
    server = await asyncio.start_server(Gateway(sick, rtu=rtu).serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    clock = SystemClock()
    shared, binding = Links(clock), registers(*range(60))
    scheme = "modbus+rtu" if rtu else "modbus"
    boxes = [
        ProfiledDevice(
            binding,
            ModbusTransport(
                parse_address(f"{scheme}://127.0.0.1:{port}/{unit}"),
                shared,
                binding.profile.modbus,
            ),
            clock,
        )
        for unit in range(1, 8)
    ]
    kept = [0] * 7

    async def cycle(place: int) -> None:
        start_s = clock.monotonic_s() + place / 7
        for turn in range(CYCLES):
            await asyncio.sleep(max(start_s + turn - clock.monotonic_s(), 0.0))
            scan = await read(boxes[place])
            whole = set(flaws(scan)) == {Flaw.NONE}
            kept[place] += whole and clock.monotonic_s() < start_s + turn + 1.0

    await asyncio.gather(*(cycle(place) for place in range(7)))
    print(f"cycles kept by the six: {sum(kept[:6])} of {6 * CYCLES}")
    assert sum(kept[:6]) >= 0.99 * 6 * CYCLES, kept
    assert kept[6] == 0
    await boxes[0].close()
    server.close()


def cpu_s() -> float:
    """Of this process, in user and system mode."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


@pytest.mark.soak
async def test_a_listener_that_is_down_for_half_a_minute_costs_no_core() -> None:
    """Case 10: pymodbus-dev/pymodbus#1794: reconnect_delay=0 took a whole core; bar 2 %."""
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        port = nobody.getsockname()[1]
        clock, binding = SystemClock(), registers(*range(60))
        transport = ModbusTransport(
            parse_address(f"modbus://127.0.0.1:{port}/1"), Links(clock), binding.profile.modbus
        )
        box = ProfiledDevice(binding, transport, clock)
        began_s, used_s = clock.monotonic_s(), cpu_s()
        while clock.monotonic_s() - began_s < 30.0:
            assert set(flaws(await read(box))) == {Flaw.TIMEOUT}
            await asyncio.sleep(0.1)
        assert cpu_s() - used_s < 0.02 * 30.0
        assert 3 <= transport.link.connects <= 10
        await box.close()
