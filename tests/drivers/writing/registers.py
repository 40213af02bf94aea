"""One holding register behind a real Modbus TCP server, in the moods that real devices have."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from drivers.address import parse_address
from drivers.catalog import build_transport
from drivers.credentials import Credentials
from drivers.device import ProfiledDevice
from drivers.profile.binding import Binding
from facility.clock import SystemClock
from facility.commands import Command
from facility.points import PointId
from tests.drivers.wires import links

POINT = PointId("d", "loop", "supply_setpoint")


@dataclass
class Register:
    """A register and what it does with what is written to it.

    Attributes:
        mood: obeys, refuses (exception 3), ignores (acknowledges and keeps the old value), clamps
            (500 becomes 450), dawdles (changes 2 s later), or never acks.
        loses: so many first writes are lost: neither taken nor answered.
        ack_after_s: how late a write is acknowledged; it is carried out at once.
        frames: every request that came, as it came.
    """

    mood: str = "obeys"
    value: int = 300
    loses: int = 0
    ack_after_s: float = 0.0
    late_s: float = 2.0
    frames: list[bytes] = field(default_factory=list)

    @property
    def writes(self) -> int:
        """Frames of function 6 that came."""
        return sum(frame[0] == 6 for frame in self.frames)

    async def answer(self, pdu: bytes) -> bytes | None:
        """The answer to a request, None for silence."""
        self.frames.append(pdu)
        if pdu[0] == 3:
            return bytes((3, 2)) + self.value.to_bytes(2, "big")
        wanted = int.from_bytes(pdu[3:5], "big")
        if self.writes <= self.loses:
            return None
        match self.mood:
            case "refuses":
                return bytes((0x86, 3))
            case "ignores":
                return pdu
            case "clamps":
                self.value = min(wanted, 450)
            case "dawdles":
                asyncio.get_running_loop().call_later(self.late_s, self._take, wanted)
            case _:
                self.value = wanted
        await asyncio.sleep(self.ack_after_s)
        return None if self.mood == "never acks" else pdu

    def _take(self, wanted: int) -> None:
        self.value = wanted


@asynccontextmanager
async def served(register: Register) -> AsyncIterator[int]:
    """Serve a register on a port of the loopback; requests are answered one by one."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readexactly(7)
                transaction, _, length, unit = struct.unpack(">HHHB", head)
                reply = await register.answer(await reader.readexactly(length - 1))
                if reply is not None:
                    mbap = struct.pack(">HHHB", transaction, 0, len(reply) + 1, unit)
                    writer.write(mbap + reply)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            return
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


def asked(binding: Binding, port: int) -> ProfiledDevice:
    """A device on a link of its own to that port."""
    address = parse_address(f"modbus://127.0.0.1:{port}/1")
    transport = build_transport(binding.profile, address, Credentials(), links())
    return ProfiledDevice(binding, transport, SystemClock())


def command(value: float, *, deadline_s: float = 2.0) -> Command:
    """Ask for a value now."""
    now_ms = SystemClock().utc_ms()
    return Command(POINT, value, 1, 1, now_ms, deadline_s, "test")
