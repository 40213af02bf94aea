"""A line in virtual time: what devices and gateways do to frames, without sockets."""

from __future__ import annotations

import asyncio
import random
import struct
from collections.abc import Callable, Sequence

from drivers.address import Address, parse_address
from drivers.device import ProfiledDevice
from drivers.modbus import ModbusTransport
from drivers.modbus.framing import crc16
from drivers.modbus.wire import OnData, OnLost
from drivers.profile.binding import Binding
from drivers.transport import Links
from facility.clock import LoopClock
from facility.points import Flaw, Scan, flaw_of
from tests.drivers.wires import binding_of

#: what comes back to a PDU: (seconds later, unit, PDU) each; a PDU of None hangs up
Reply = tuple[float, int, bytes | None]
Answers = Callable[[int, bytes], Sequence[Reply]]


def echoed(pdu: bytes) -> bytes:
    """Register n holds n; a write comes back."""
    if pdu[0] > 4:
        return pdu[:5]
    address, count = struct.unpack(">HH", pdu[1:5])
    if pdu[0] <= 2:
        bits = sum(((address + i) & 1) << i for i in range(count))
        data = bits.to_bytes(-(-count // 8), "little")
    else:
        data = struct.pack(f">{count}H", *((address + i) & 0xFFFF for i in range(count)))
    return bytes((pdu[0], len(data))) + data


def after(delay_s: float) -> Answers:
    """Every unit answers after so long."""
    return lambda unit, pdu: [(delay_s, unit, echoed(pdu))]


class Line:
    """Something to dial; counts what happens to it.

    Attributes:
        up: whether it can be reached.
        queued: whether requests are served one after another, as on a serial line.
        shift: added to the transaction number of each answer.
    """

    def __init__(self, answers: Answers, *, rtu: bool = False, queued: bool = False) -> None:
        self.answers, self.rtu, self.queued = answers, rtu, queued
        self.up = True
        self.shift: Callable[[], int] = lambda: 0
        self.dials: list[float] = []
        self.asked: list[tuple[int, bytes]] = []
        self.open: list[_Wire] = []
        self.free_s = 0.0

    async def dial(self, on_data: OnData, on_lost: OnLost) -> _Wire:
        self.dials.append(asyncio.get_running_loop().time())
        await asyncio.sleep(0.001)
        if not self.up:
            raise ConnectionRefusedError("refused")
        wire = _Wire(self, on_data, on_lost)
        self.open.append(wire)
        return wire


class _Wire:
    def __init__(self, line: Line, on_data: OnData, on_lost: OnLost) -> None:
        self.line, self.on_data, self.on_lost = line, on_data, on_lost

    def write(self, data: bytes) -> None:
        line, loop = self.line, asyncio.get_running_loop()
        if line.rtu:
            transaction, unit, pdu = 0, data[0], data[1:-2]
        else:
            transaction, _, _, unit = struct.unpack(">HHHB", data[:7])
            pdu = data[7:]
        line.asked.append((unit, pdu))
        start_s = max(loop.time(), line.free_s) if line.queued else loop.time()
        for delay_s, who, reply in line.answers(unit, pdu):
            if line.queued:
                line.free_s = start_s + delay_s
            loop.call_at(start_s + delay_s, self.deliver, transaction, who, reply)

    def deliver(self, transaction: int, unit: int, reply: bytes | None) -> None:
        # A device server hands what comes late to whoever is connected then.
        there = self.line.open[-1] if self.line.rtu and self.line.open else self
        if there not in self.line.open:
            return
        if reply is None:
            there.hang_up()
        elif self.line.rtu:
            body = bytes((unit,)) + reply
            there.on_data(body + crc16(body).to_bytes(2, "little"))
        else:
            number = (transaction + self.line.shift()) & 0xFFFF
            there.on_data(struct.pack(">HHHB", number, 0, len(reply) + 1, unit) + reply)

    def hang_up(self) -> None:
        if self in self.line.open:
            self.line.open.remove(self)
            self.on_lost()

    def take_back(self) -> bool:
        return False

    def close(self) -> None:
        if self in self.line.open:
            self.line.open.remove(self)


def links(clock: LoopClock, timeout_s: float = 1.0) -> Links:
    return Links(clock, random.Random(5), timeout_s)


def registers(*addresses: int, kind: str = "u16", **more: object) -> Binding:
    """A device with one number in each of these holding registers."""
    return binding_of(
        *(
            {
                "part": f"outlet.{a}",
                "kind": "active_power",
                "at": {"modbus": {"address": a, "type": kind}},
            }
            for a in addresses
        ),
        **more,
    )


def at(text: str) -> Address:
    return parse_address(text)


def device(
    binding: Binding, line: Line, shared: Links, clock: LoopClock, unit: int = 1
) -> ProfiledDevice:
    """A device behind the line; those that share `shared` share the link."""
    scheme = "modbus+rtu" if line.rtu else "modbus"
    profile = binding.profile
    transport = ModbusTransport(
        at(f"{scheme}://127.0.0.1:5020/{unit}"), shared, profile.modbus, profile.quirks, line.dial
    )
    return ProfiledDevice(binding, transport, clock)


async def read(box: ProfiledDevice) -> Scan:
    return await box.read(box.layouts[0])


def flaws(scan: Scan) -> list[Flaw]:
    return [flaw_of(int(q)) for q in scan.quality]


def link_of(box: ProfiledDevice) -> object:
    assert isinstance(box.transport, ModbusTransport)
    return box.transport.link
