"""Modbus TCP servers on loopback that impersonate the devices of a facility file.

One port each, MBAP framing, functions 1-6, 15 and 16 (Modbus Application Protocol V1.1b3).
Registers that the profile does not name raise exception 2 for the whole read, as real devices do;
only a hole between two that it names reads as 0.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Mapping
from typing import Final

from drivers.address import parse_address
from drivers.catalog import profiles
from drivers.profile.binding import ModbusAt
from drivers.profile.codec import Raw
from drivers.sim.impersonation import Impersonation
from drivers.sim.source import SLOW_S, InstrumentSource, Served
from facility.config import DeviceConfig
from facility.points import Flaw

ILLEGAL_FUNCTION: Final = 1
ILLEGAL_ADDRESS: Final = 2
ILLEGAL_VALUE: Final = 3
_TABLES: Final[Mapping[int, str]] = {1: "coil", 2: "discrete", 3: "holding", 4: "input"}


class Refusal(Exception):
    """An exception answer, by its code."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class Unit:
    """One impersonated device as tables of words."""

    def __init__(self, who: Impersonation) -> None:
        self._who = who
        self._at: dict[tuple[str, int], list[tuple[ModbusAt, int]]] = {}
        for at in who.places:
            if isinstance(at, ModbusAt):
                for i in range(at.count):
                    self._at.setdefault((at.where.function, at.address + i), []).append((at, i))
        self._ends: dict[str, tuple[int, int]] = {}
        for table, address in self._at:
            low, high = self._ends.get(table, (address, address))
            self._ends[table] = (min(low, address), max(high, address))

    @property
    def health(self) -> str:
        """How the device answers now."""
        return self._who.health

    def answer(self, pdu: bytes) -> bytes:
        """The answer to one request, an exception included."""
        function = pdu[0]
        try:
            if function in _TABLES:
                address, count = struct.unpack(">HH", pdu[1:5])
                words = self._read(_TABLES[function], address, count)
                body = _bits(words) if function <= 2 else struct.pack(f">{count}H", *words)
                return bytes((function, len(body))) + body
            if function in (5, 6):
                address, value = struct.unpack(">HH", pdu[1:5])
                table, word = (
                    ("coil", int(value == 0xFF00)) if function == 5 else ("holding", value)
                )
                self._write(table, address, [word])
                return pdu[:5]
            if function in (15, 16):
                address, count, size = struct.unpack(">HHB", pdu[1:6])
                data = pdu[6 : 6 + size]
                if function == 16:
                    self._write("holding", address, list(struct.unpack(f">{count}H", data)))
                else:
                    bits = [data[i // 8] >> i % 8 & 1 for i in range(count)]
                    self._write("coil", address, bits)
                return pdu[:5]
            raise Refusal(ILLEGAL_FUNCTION)
        except Refusal as refusal:
            return bytes((function | 0x80, refusal.code))
        except (struct.error, IndexError):
            return bytes((function | 0x80, ILLEGAL_VALUE))

    def _read(self, table: str, address: int, count: int) -> list[int]:
        if not 1 <= count <= (2000 if table in ("coil", "discrete") else 125):
            raise Refusal(ILLEGAL_VALUE)
        low, high = self._ends.get(table, (1, 0))
        if address < low or address + count - 1 > high:
            raise Refusal(ILLEGAL_ADDRESS)
        raws: dict[ModbusAt, Raw] = {}
        return [self._word(table, a, raws) for a in range(address, address + count)]

    def _word(self, table: str, address: int, raws: dict[ModbusAt, Raw]) -> int:
        word = 0
        for at, i in self._at.get((table, address), ()):
            if at not in raws:
                raw = self._who.answer(at)
                if isinstance(raw, Flaw):
                    raise Refusal(ILLEGAL_ADDRESS)
                raws[at] = raw
            words = raws[at]
            assert isinstance(words, tuple)
            word |= words[i]
        return word

    def _write(self, table: str, address: int, words: list[int]) -> None:
        here = self._at.get((table, address), ())
        at = next((a for a, i in here if i == 0 and a.count == len(words)), None)
        if at is None:
            raise Refusal(ILLEGAL_ADDRESS)
        reply = self._who.accept(at, tuple(words))
        if reply.outcome != "accepted":
            raise Refusal(ILLEGAL_ADDRESS if reply.detail == "not writable" else ILLEGAL_VALUE)


def _bits(words: list[int]) -> bytes:
    packed = bytearray(-(-len(words) // 8))
    for i, word in enumerate(words):
        packed[i // 8] |= (word & 1) << i % 8
    return bytes(packed)


class Server:
    """One TCP port; every unit number but the device's own stays silent, as on a real line."""

    def __init__(self, unit: Unit, number: int) -> None:
        self._unit = unit
        self._number = number
        self._writers: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None

    async def start(self, host: str) -> int:
        """Listen on a free port; returns it."""
        self._server = await asyncio.start_server(self._serve, host, 0)
        return int(self._server.sockets[0].getsockname()[1])

    def close(self) -> None:
        """Stop listening and hang up."""
        if self._server is not None:
            self._server.close()
        for writer in tuple(self._writers):
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            while True:
                transaction, protocol, length, number = struct.unpack(
                    ">HHHB", await reader.readexactly(7)
                )
                if protocol != 0 or not 2 <= length <= 254:
                    return
                pdu = await reader.readexactly(length - 1)
                health = self._unit.health
                if health == "dead" or number != self._number:
                    continue
                if health == "slow":
                    await asyncio.sleep(SLOW_S)
                answer = self._unit.answer(pdu)
                if health == "garbage":
                    answer = bytes((answer[0], 1, 0x5A))
                head = struct.pack(">HHHB", transaction, 0, len(answer) + 1, number)
                writer.write(head + answer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            return  # hung up, or the loop ends; asyncio's stream callback trips over a cancellation
        finally:
            self._writers.discard(writer)
            writer.close()


async def serve_modbus(
    plant: InstrumentSource, devices: Mapping[str, DeviceConfig], host: str = "127.0.0.1"
) -> Served:
    """Start a server for each device whose profile speaks Modbus.

    Returns:
        device -> `modbus://host:port/unit`, the unit as in the facility file.
    """
    served = Served()
    known = profiles()
    for name, config in devices.items():
        profile = known.get(config.profile)
        if profile is None or profile.protocol != "modbus":
            continue
        unit = parse_address(config.address).unit
        server = Server(Unit(Impersonation(profile, name, plant, config.parameters)), unit)
        port = await server.start(host)
        served.closers.append(server.close)
        served[name] = f"modbus://{f'[{host}]' if ':' in host else host}:{port}/{unit}"
    return served
