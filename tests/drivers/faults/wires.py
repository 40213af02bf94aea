"""The wires under test: servers in which place n holds n, so that a wrong number shows at once."""

from __future__ import annotations

import asyncio
import random
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from drivers.address import parse_address
from drivers.catalog import build_transport
from drivers.credentials import Credentials
from drivers.profile.binding import Places, bind
from drivers.profile.codec import Answer
from drivers.sim import ber
from drivers.transport import Links, Transport
from facility.clock import SystemClock
from facility.points import Flaw
from tests.drivers.wires import profile_of

#: one request of the driver under test waits this long
TIMEOUT_S = 0.15
#: longer than any unit is left alone, so that a jump of the clock makes a driver ask again
LONG_AFTER_S = 10_000.0
COLUMN = (1, 3, 6, 1, 4, 1, 9, 1)
NUMBERS = (3, 4, 7, 300, 301, 1000)


class JumpingClock(SystemClock):
    """The machine's clock, which a test can move on: waits for a silent unit are then over."""

    def __init__(self) -> None:
        self.ahead_s = 0.0

    def monotonic_s(self) -> float:
        """The machine's monotonic clock and what it was moved on by."""
        return super().monotonic_s() + self.ahead_s

    def jump(self) -> None:
        """Move on by more than any back-off."""
        self.ahead_s += LONG_AFTER_S


class Wire:
    """A transport that looks at `NUMBERS` through something on the way."""

    def __init__(self, scheme: str, port: int) -> None:
        self.clock = JumpingClock()
        profile = profile_of(
            *(
                {"part": f"outlet.{n}", "kind": "active_power", "at": {scheme.split("+")[0]: at}}
                for n in NUMBERS
                for at in [self._at(scheme, n)]
            ),
            protocol=scheme.split("+")[0],
        )
        points = bind(profile, "d").all()
        self.places = Places.of(p.at for p in points)
        self.truth = tuple(n if scheme == "snmp" else (n,) for n in NUMBERS)
        self.transport: Transport = build_transport(
            profile,
            parse_address(f"{scheme}://127.0.0.1:{port}"),
            Credentials(),
            Links(self.clock, random.Random(5), TIMEOUT_S),
        )

    @staticmethod
    def _at(scheme: str, number: int) -> dict[str, Any]:
        if scheme == "snmp":
            return {"oid": ".".join(map(str, (*COLUMN, number)))}
        return {"address": number}

    async def look(self) -> tuple[Answer, ...]:
        """One look, long after the last."""
        self.clock.jump()
        return tuple(await self.transport.fetch(self.places))

    def lies(self, seen: tuple[Answer, ...]) -> list[tuple[Answer, Answer]]:
        """What was seen that is neither the truth nor said to be missing: (seen, true)."""
        pairs = zip(seen, self.truth, strict=True)
        return [(s, t) for s, t in pairs if s != t and not isinstance(s, Flaw)]


def _crc(frame: bytes) -> bytes:
    """CRC-16 of Modbus over serial line (specification V1.02, appendix B), low byte first."""
    crc = 0xFFFF
    for octet in frame:
        crc ^= octet
        for _ in range(8):
            crc = (crc >> 1) ^ 0xA001 if crc & 1 else crc >> 1
    return crc.to_bytes(2, "little")


def _registers(pdu: bytes) -> bytes:
    address, count = struct.unpack(">HH", pdu[1:5])
    words = struct.pack(f">{count}H", *(n % 65536 for n in range(address, address + count)))
    return bytes((pdu[0], len(words))) + words


async def _mbap(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while True:
        head = await reader.readexactly(7)
        transaction, _, length, unit = struct.unpack(">HHHB", head)
        pdu = await reader.readexactly(length - 1)
        reply = _registers(pdu)
        writer.write(struct.pack(">HHHB", transaction, 0, len(reply) + 1, unit) + reply)


async def _rtu(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while True:
        frame = await reader.readexactly(8)
        if _crc(frame[:6]) == frame[6:]:
            body = frame[:1] + _registers(frame[1:6])
            writer.write(body + _crc(body))


class _Agent(asyncio.DatagramProtocol):
    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def datagram_received(self, data: bytes, addr: Any) -> None:
        try:
            request = ber.parse(data)
        except Exception:  # noqa: BLE001 - a mangled question gets no answer
            return
        held = [
            (name, ber.Value(ber.INTEGER, ber.of_integer(name[-1])))
            for name, _, _ in request.variables
        ]
        self.transport.sendto(ber.response(request, held), addr)


@asynccontextmanager
async def server(scheme: str) -> AsyncIterator[int]:
    """A well-behaved device of a scheme; its port."""
    if scheme == "snmp":
        loop = asyncio.get_running_loop()
        agent, _ = await loop.create_datagram_endpoint(_Agent, local_addr=("127.0.0.1", 0))
        try:
            yield agent.get_extra_info("sockname")[1]
        finally:
            agent.close()
        return
    speak = _rtu if scheme == "modbus+rtu" else _mbap

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await speak(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError, ValueError, struct.error, IndexError):
            return
        finally:
            writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield listening.sockets[0].getsockname()[1]
    finally:
        listening.close()
