"""Modbus TCP through pymodbus, with the checks that pymodbus leaves out.

pymodbus is used for framing only: no retries of its own (it would repeat writes), no reconnecting
of its own (it storms). A reply is compared with its request (function, unit, count), because
pymodbus accepts ten registers asked and two answered. After a silence the link is dropped, so
that a late answer can never be taken for the next one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final
from weakref import WeakKeyDictionary

from pymodbus.client import AsyncModbusTcpClient
from pymodbus.exceptions import ModbusException
from pymodbus.pdu import ExceptionResponse, ModbusPDU

from drivers.address import Address
from drivers.profile import ModbusLimits, Quirk, SnmpWhere
from drivers.profile.binding import At, ModbusAt, Places
from drivers.profile.codec import Answer, Raw
from drivers.profile.plan import Block, cut, modbus_blocks
from drivers.transport import Endpoint, Links, WriteReply
from facility.points import Flaw

# What goes wrong on a line is a value here, reported once by the collector in its own words.
logging.getLogger("pymodbus").setLevel(logging.CRITICAL + 1)

PAUSE_AFTER_CONNECT_S: Final = 1.5
PAUSE_BETWEEN_REQUESTS_S: Final = 0.06
#: exception codes that speak of the address asked for, not of the device
ILLEGAL_ADDRESS: Final = frozenset({2, 3})

_FUNCTIONS: Final[Mapping[str, int]] = {"coil": 1, "discrete": 2, "holding": 3, "input": 4}
_EXCEPTIONS: Final[Mapping[int, str]] = {
    1: "illegal function",
    2: "illegal data address",
    3: "illegal data value",
    4: "device failure",
    5: "acknowledge",
    6: "device busy",
    10: "gateway path unavailable",
    11: "gateway target did not respond",
}
Ask = Callable[[AsyncModbusTcpClient], Awaitable[ModbusPDU]]


class ModbusLink(Endpoint):
    """One TCP connection to one host and port, for all units behind it, one request at a time."""

    def __init__(self, address: Address, quirks: Sequence[Quirk], timeout_s: float) -> None:
        super().__init__(address.endpoint)
        self._address = address
        self._quirks = frozenset(quirks)
        self._timeout_s = timeout_s
        self._client: AsyncModbusTcpClient | None = None
        self.connects = 0

    async def ask(self, request: Ask) -> ModbusPDU | None:
        """Send one request; None when no usable answer came. The caller holds the lock."""
        client = await self._connected()
        if client is None:
            return None
        try:
            async with asyncio.timeout(self._timeout_s * 1.5):
                reply = await request(client)
        except (ModbusException, OSError, TimeoutError, ValueError):
            self.drop()
            return None
        except asyncio.CancelledError:
            self.drop()
            raise
        if "close_after_each" in self._quirks:
            self.drop()
        elif "pause_between_requests" in self._quirks:
            await asyncio.sleep(PAUSE_BETWEEN_REQUESTS_S)
        return reply

    def drop(self) -> None:
        """Close the connection; the next request opens a new one."""
        client, self._client = self._client, None
        if client is not None:
            client.close()

    async def _connected(self) -> AsyncModbusTcpClient | None:
        if self._client is not None and self._client.connected:
            return self._client
        self.drop()
        client = AsyncModbusTcpClient(
            self._address.host,
            port=self._address.port,
            timeout=self._timeout_s,
            retries=0,
            reconnect_delay=0,
        )
        decode = client.ctx.callback_data

        def decode_anything(data: bytes, addr: tuple[Any, ...] | None = None) -> int:
            # pymodbus raises on a frame that lies about itself, into the event loop's log. Such a
            # frame is no answer: it is thrown away, the request times out, the link is dropped.
            with suppress(Exception):
                return decode(data, addr)
            return len(data)

        client.ctx.callback_data = decode_anything  # type: ignore[method-assign]
        self.connects += 1
        try:
            if not await client.connect():
                client.close()
                return None
        except asyncio.CancelledError:
            client.close()
            raise
        if "pause_after_connect" in self._quirks:
            await asyncio.sleep(PAUSE_AFTER_CONNECT_S)
        self._client = client
        return client


class ModbusTransport:
    """One unit behind a link."""

    def __init__(
        self, address: Address, links: Links, limits: ModbusLimits, quirks: Sequence[Quirk] = ()
    ) -> None:
        name = address.endpoint
        self._link = links.shared(
            ModbusLink, name, lambda: ModbusLink(address, quirks, links.timeout_s)
        )
        self._unit = address.unit
        self._limits = limits
        self._patience = links.patience()
        self._plans: WeakKeyDictionary[Places, tuple[Block, ...]] = WeakKeyDictionary()
        self._lonely: set[ModbusAt] = set()
        self.host = address.host
        self.requests = 0

    @property
    def endpoint(self) -> str:
        """`modbus://host:port`, shared with the other units behind it."""
        return self._link.name

    async def fetch(self, places: Places) -> Sequence[Answer]:
        """Read every place in as few requests as the profile's limits allow.

        A block that the device refuses for one of its addresses is read place by place from then
        on, so that one missing register costs no other its value.
        """
        wanted = [p for p in places.at if isinstance(p, ModbusAt)]
        answers: dict[At, Answer] = dict.fromkeys(places.at, Flaw.TIMEOUT)
        if self._patience.waiting:
            return tuple(answers.values())
        async with self._link.lock:
            for block in self._plan(places, wanted):
                inside = [p for p in wanted if _covers(block, p)]
                reply = await self._read(block)
                if reply is Flaw.TIMEOUT and not self._patience.failures:
                    reply = await self._read(block)
                if reply is Flaw.TIMEOUT:
                    self._patience.silent()
                    break
                if reply is Flaw.REFUSED and len(inside) > 1:
                    self._lonely.update(inside)
                    self._plans.clear()
                    for place in inside:
                        alone = await self._read(_block_of(place))
                        answers[place] = _part(place, _block_of(place), alone)
                    continue
                for place in inside:
                    answers[place] = _part(place, block, reply)
            else:
                self._patience.answered()
        return tuple(answers.values())

    async def put(self, place: At, raw: Raw) -> WriteReply:
        """Write once: function 5 for a coil, 6 for one register, 16 for more."""
        if not isinstance(place, ModbusAt) or not isinstance(raw, tuple):
            return WriteReply("rejected", "no Modbus value")
        words, unit, address = list(raw), self._unit, place.address

        def request(client: AsyncModbusTcpClient) -> Awaitable[ModbusPDU]:
            if place.where.function == "coil":
                return client.write_coil(address, bool(words[0]), device_id=unit)
            if len(words) == 1:
                return client.write_register(address, words[0], device_id=unit)
            return client.write_registers(address, words, device_id=unit)

        function = 5 if place.where.function == "coil" else 6 if len(words) == 1 else 16
        async with self._link.lock:
            self.requests += 1
            reply = await self._link.ask(request)
        if reply is None:
            return WriteReply("unanswered", "no answer")
        if isinstance(reply, ExceptionResponse):
            return WriteReply("rejected", exception_text(reply.exception_code))
        if reply.function_code != function or reply.address != address:
            self._link.drop()
            return WriteReply("unanswered", "the answer was to another request")
        return WriteReply("accepted")

    async def rows(self, column: SnmpWhere) -> tuple[int, ...] | None:
        """Modbus devices have no tables to walk."""
        return None

    async def close(self) -> None:
        """Close the link; another unit's next request opens it again."""
        async with self._link.lock:
            self._link.drop()

    def _plan(self, places: Places, wanted: Sequence[ModbusAt]) -> tuple[Block, ...]:
        if places not in self._plans:
            together = [p for p in wanted if p not in self._lonely]
            alone = {_block_of(p) for p in wanted if p in self._lonely}
            blocks = modbus_blocks(together, self._limits)
            ordered = sorted(alone, key=lambda b: (b.function, b.address))
            self._plans[places] = (*blocks, *ordered)
        return self._plans[places]

    async def _read(self, block: Block) -> tuple[int, ...] | Flaw:
        """One read; TIMEOUT when nothing came, REFUSED for a bad address, UNDECODABLE for junk."""
        unit = self._unit

        def request(client: AsyncModbusTcpClient) -> Awaitable[ModbusPDU]:
            read = {
                "coil": client.read_coils,
                "discrete": client.read_discrete_inputs,
                "holding": client.read_holding_registers,
                "input": client.read_input_registers,
            }[block.function]
            return read(block.address, count=block.count, device_id=unit)

        self.requests += 1
        reply = await self._link.ask(request)
        if reply is None:
            return Flaw.TIMEOUT
        if isinstance(reply, ExceptionResponse):
            if reply.exception_code in ILLEGAL_ADDRESS:
                return Flaw.REFUSED
            return Flaw.TIMEOUT if reply.exception_code in (10, 11) else Flaw.DEVICE_FAULT
        words = _words(block, reply)
        if words is None:
            self._link.drop()
            return Flaw.UNDECODABLE
        return words


def exception_text(code: int) -> str:
    """`exception 3 (illegal data value)`."""
    return f"exception {code} ({_EXCEPTIONS.get(code, 'unknown')})"


def _words(block: Block, reply: ModbusPDU) -> tuple[int, ...] | None:
    """Registers or bits of a reply; None when it does not answer this request."""
    if reply.function_code != _FUNCTIONS[block.function]:
        return None
    if block.function in ("coil", "discrete"):
        bits = reply.bits
        if len(bits) != -(-block.count // 8) * 8 and len(bits) != block.count:
            return None
        return tuple(int(b) for b in bits[: block.count])
    return tuple(reply.registers) if len(reply.registers) == block.count else None


def _block_of(place: ModbusAt) -> Block:
    return Block(place.where.function, place.address, place.count)


def _covers(block: Block, place: ModbusAt) -> bool:
    return (
        place.where.function == block.function
        and block.address <= place.address
        and place.address + place.count <= block.address + block.count
    )


def _part(place: ModbusAt, block: Block, reply: tuple[int, ...] | Flaw) -> Answer:
    if isinstance(reply, Flaw):
        return reply
    part = cut(place, block, reply)
    return Flaw.UNDECODABLE if part is None else part
