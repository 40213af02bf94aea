"""The second opinion: the same registers through pymodbus, which shares no line with our frames.

For `wattkeeper poll --reader reference` and the tests; what is asked comes from the same planner.
It reads and never writes, keeps a connection only as long as every answer fits its request, and
knows nothing of turns, tempo or late answers (docs/adr/0017).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Sequence
from functools import partial
from typing import Any, Final

from pymodbus import FramerType
from pymodbus.client import AsyncModbusSerialClient, AsyncModbusTcpClient
from pymodbus.exceptions import ModbusException
from pymodbus.pdu import ModbusPDU

from drivers.address import Address, SerialLine
from drivers.modbus.link import PAUSE_AFTER_CONNECT_S, PAUSE_BETWEEN_REQUESTS_S
from drivers.modbus.pdu import BUSY, FUNCTIONS, ILLEGAL_ADDRESS, NOBODY_THERE
from drivers.modbus.plans import Learnt, Piece, halves_of
from drivers.modbus.wires import trust
from drivers.profile import ModbusLimits, Quirk
from drivers.profile.binding import At, Places
from drivers.profile.codec import Answer, Raw
from drivers.profile.plan import Block
from drivers.transport import FOREVER, Endpoint, Links, WriteReply
from facility.points import Flaw

#: no look takes longer; what was not read by then is a timeout
LOOK_S: Final = 5.0
#: a read is tried so often before its silence, or its nonsense, counts
TRIES: Final = 2
BUSY_AGAIN_S: Final = 0.3
_PARITY: Final = {"none": "N", "even": "E", "odd": "O"}

Client = AsyncModbusTcpClient | AsyncModbusSerialClient
Read = tuple[int, ...] | Flaw

# It reports each silence as an error to a log that nobody set up; the look says so anyway.
logging.getLogger("pymodbus").addHandler(logging.NullHandler())


class ReferenceTransport:
    """One unit through pymodbus, on a connection of its own; reads only."""

    def __init__(
        self, address: Address, links: Links, limits: ModbusLimits, quirks: Sequence[Quirk] = ()
    ) -> None:
        """Talk to nobody yet."""
        name = address.endpoint
        self._endpoint = links.shared(Endpoint, name, lambda: Endpoint(name))
        self._address = address
        self._clock, self._timeout_s = links.clock, links.timeout_s
        self._limits = limits
        self._quirks: Collection[Quirk] = frozenset(quirks)
        self._learnt = Learnt()
        self._rng = links.rng
        self._client: Client | None = None
        self._ends_s = 0.0
        self.host = address.host
        self.requests = 0

    @property
    def endpoint(self) -> str:
        """`modbus://host:port`, shared with the other units behind it."""
        return self._endpoint.name

    async def fetch(self, places: Places) -> Sequence[Answer]:
        """Read every place, in their order; TIMEOUT from the first silence on."""
        async with self._endpoint.lock:
            now_s = self._clock.monotonic_s()
            if self._learnt.doubtful(places, now_s):
                self._learnt.forget()
            self._ends_s = now_s + LOOK_S
            plan = self._learnt.plan(places, self._limits, self._quirks)
            for piece in plan.pieces:
                if not await self._piece(piece, places, plan.blank):
                    break
            if "single_client" in self._quirks:
                self._drop()
            return plan.blank

    async def put(self, place: At, raw: Raw, within_s: float = FOREVER) -> WriteReply:
        """Never: who writes must know whose answer it hears."""
        return WriteReply("rejected", "the second opinion only reads")

    async def close(self) -> None:
        """Hang up; another look connects again."""
        self._drop()

    async def _piece(self, piece: Piece, places: Places, answers: list[Answer]) -> bool:
        """Read one block, in halves where it is refused; False when nobody answers."""
        read = await self._read(piece.block)
        if read is Flaw.REFUSED and len(piece.spans) > 1:
            version = self._learnt.version
            halves = halves_of(piece, places, self._limits, self._quirks)
            for half in halves:
                if not await self._piece(half, places, answers):
                    return False
            if self._learnt.version == version:  # it was the gap between them
                for right in halves[1:]:
                    self._learnt.cut(right.block, self._clock.monotonic_s(), self._rng)
            return True
        if read is Flaw.REFUSED:
            self._learnt.refuse(piece.spans[0], self._clock.monotonic_s())
        for index, part in piece.parts:
            answers[index] = read if isinstance(read, Flaw) else read[part]
        return read is not Flaw.TIMEOUT

    async def _read(self, block: Block) -> Read:
        """The registers or bits of a block, or why there are none."""
        seen: Read = Flaw.TIMEOUT
        for _ in range(TRIES):
            if self._clock.monotonic_s() > self._ends_s:
                break
            reply = await self._ask(block)
            if isinstance(reply, Flaw):
                seen = reply
                continue
            if not reply.isError():
                return _words(reply, block)
            code = reply.exception_code
            if code in NOBODY_THERE:
                return Flaw.TIMEOUT
            if code in ILLEGAL_ADDRESS:
                return Flaw.REFUSED
            seen = Flaw.DEVICE_FAULT
            if code != BUSY:
                break
            await asyncio.sleep(BUSY_AGAIN_S)
        return seen

    async def _ask(self, block: Block) -> ModbusPDU | Flaw:
        """One request; whatever is not the answer to it ends the connection."""
        if self._client is None and not await self._connect():
            return Flaw.TIMEOUT
        client = self._client
        assert client is not None
        self.requests += 1
        ask = {
            "coil": client.read_coils,
            "discrete": client.read_discrete_inputs,
            "holding": client.read_holding_registers,
            "input": client.read_input_registers,
        }[block.function]
        try:
            reply = await ask(block.address, count=block.count, device_id=self._address.unit)
        except (ModbusException, OSError) as error:
            self._drop()
            return Flaw.UNDECODABLE if isinstance(error, Garbled) else Flaw.TIMEOUT
        if not _fits(reply, block, self._address.unit):
            self._drop()
            return Flaw.UNDECODABLE
        if "close_after_each" in self._quirks:
            self._drop()
        elif "pause_between_requests" in self._quirks:
            await asyncio.sleep(PAUSE_BETWEEN_REQUESTS_S)
        return reply

    async def _connect(self) -> bool:
        try:
            client = await self._made()
        except OSError:
            return False
        _guard(client)
        if not await client.connect():
            client.close()
            return False
        self._client = client
        if "pause_after_connect" in self._quirks:
            await asyncio.sleep(PAUSE_AFTER_CONNECT_S)
        return True

    async def _made(self) -> Client:
        """A client that neither repeats nor reconnects by itself."""
        address = self._address
        once: dict[str, Any] = {
            "timeout": self._timeout_s,
            "retries": 0,
            "reconnect_delay": 0,
        }
        if address.line is not None:
            return _on_line(address.line, once)
        framer = FramerType.RTU if address.scheme == "modbus+rtu" else FramerType.SOCKET
        client = AsyncModbusTcpClient(address.host, port=address.port, framer=framer, **once)
        if address.tls is not None:
            # Its own TLS client takes each piece of the stream for a whole frame, and asks for a
            # certificate of the host's name only; the frames are those of TCP.
            client.ctx.call_create = partial(
                asyncio.get_running_loop().create_connection,
                client.ctx.handle_new_connection,
                address.host,
                address.port,
                ssl=await asyncio.to_thread(trust, address.tls),
                server_hostname=address.tls.name or address.host,
            )
        return client

    def _drop(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()


class Garbled(ModbusException):
    """What came is no frame."""


def _on_line(line: SerialLine, once: dict[str, Any]) -> Client:
    return AsyncModbusSerialClient(
        line.path,
        baudrate=line.baud,
        parity=_PARITY[line.parity],
        stopbits=line.stop,
        **once,
    )


def _guard(client: Client) -> None:
    """Take an answer only if it reads back as what came; what its parser raises is none.

    It passes over bytes behind the last register, and raises into the event loop.
    """
    context, decoder = client.ctx, client.ctx.framer.decoder
    parse, lost = context.callback_data, context.callback_disconnected
    decode = decoder.decode

    def exact(frame: bytes) -> ModbusPDU | None:
        pdu = decode(frame)
        if pdu is None or bytes((pdu.function_code,)) + pdu.encode() != frame:
            raise Garbled(f"no answer is {frame[:4].hex(' ')}")
        return pdu

    def parsed(data: bytes, addr: Any = None) -> int:
        try:
            return parse(data, addr=addr)
        except Exception as error:  # noqa: BLE001  (struct.error, IndexError, its own)
            settle(Garbled(str(error)))
            return len(data)

    def hung_up(exc: Exception | None) -> None:
        lost(exc)
        settle(ModbusException("the connection was closed"))

    def settle(why: ModbusException) -> None:
        if not context.response_future.done():
            context.response_future.set_exception(why)
            context.response_future.exception()  # nobody may be waiting, and that is no fault

    decoder.decode = exact  # type: ignore[method-assign]
    context.callback_data = parsed  # type: ignore[method-assign]
    context.callback_disconnected = hung_up  # type: ignore[method-assign]


def _fits(reply: ModbusPDU, block: Block, unit: int) -> bool:
    """Whether an answer is to this request: unit, function and length."""
    if reply.dev_id != unit or reply.function_code & 0x7F != FUNCTIONS[block.function]:
        return False
    if reply.isError():
        return True
    if block.function in ("coil", "discrete"):
        return len(reply.bits) == 8 * -(-block.count // 8)
    return len(reply.registers) == block.count


def _words(reply: ModbusPDU, block: Block) -> tuple[int, ...]:
    if block.function in ("coil", "discrete"):
        return tuple(int(bit) for bit in reply.bits[: block.count])
    return tuple(reply.registers)
