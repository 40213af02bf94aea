"""Modbus TCP servers for the bench: one address each, answers prebuilt, transaction ids patched.

Run as `python -m tests.bench.polling.modbus_units FLEET`.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from typing import Final, cast

import uvloop

from drivers.profile.binding import BoundPoint, ModbusAt
from drivers.profile.codec import encode
from tests.bench.polling.fleet import VARIANTS, Fleet, binding_of, delay_s, host_of, reading_of
from tests.bench.polling.serving import fleet_asked, listening

READ_HOLDING: Final = 3
#: octets of a whole read request
REQUEST: Final = 12


class Registers:
    """What every unit holds: answers by the bytes of the request after its transaction id."""

    def __init__(self) -> None:
        points = binding_of("modbus", 0, 1.0).all()
        self._looks = [_words(points, variant) for variant in range(VARIANTS)]
        self._kept: dict[bytes, list[bytes]] = {}

    def to(self, request: bytes, turn: int) -> bytes:
        """The answer to the twelve bytes of a read at one of a unit's turns."""
        kept = self._kept.get(request[2:])
        if kept is None:
            kept = [_answer(request, words) for words in self._looks]
            self._kept[request[2:]] = kept
        return request[:2] + kept[turn % VARIANTS]


def _words(points: Sequence[BoundPoint], variant: int) -> dict[int, int]:
    words: dict[int, int] = {}
    for point in points:
        raw = encode(point, reading_of(point, variant))
        assert isinstance(point.at, ModbusAt)
        assert isinstance(raw, tuple)
        words |= {point.at.address + i: word for i, word in enumerate(raw)}
    return words


def _answer(request: bytes, words: Mapping[int, int]) -> bytes:
    """The answer after its transaction id; exception 2 to anything that is not there."""
    unit, function = request[6], request[7]
    first, count = int.from_bytes(request[8:10], "big"), int.from_bytes(request[10:12], "big")
    held = [words.get(first + i) for i in range(count)]
    body = bytes((unit, function | 0x80, 2))
    if function == READ_HOLDING and 1 <= count <= 125 and None not in held:
        data = b"".join((word or 0).to_bytes(2, "big") for word in held)
        body = bytes((unit, function, len(data))) + data
    return b"\0\0" + len(body).to_bytes(2, "big") + body


class Unit(asyncio.Protocol):
    """One client's connection to one device."""

    def __init__(self, registers: Registers, state: str, wait_s: float) -> None:
        self._registers, self._state, self._wait_s = registers, state, wait_s
        self._buffer = b""
        self._turn = 0
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the connection."""
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Answer whole requests in their order; a dead device takes them and says nothing."""
        self._buffer += data
        while len(self._buffer) >= REQUEST:
            request, self._buffer = self._buffer[:REQUEST], self._buffer[REQUEST:]
            if self._state == "dead":
                continue
            self._turn += 1
            answer = self._registers.to(request, self._turn)
            if self._state == "slow":
                asyncio.get_running_loop().call_later(self._wait_s, self._send, answer)
            else:
                self._send(answer)

    def _send(self, answer: bytes) -> None:
        assert self._transport is not None
        if not self._transport.is_closing():
            self._transport.write(answer)


async def _serve(fleet: Fleet) -> None:
    loop, registers, ports = asyncio.get_running_loop(), Registers(), {}
    for number in range(fleet.modbus):
        state, wait_s = fleet.state(number), delay_s(number)
        server = await loop.create_server(
            lambda state=state, wait_s=wait_s: Unit(registers, state, wait_s),  # type: ignore[misc]
            host_of("modbus", number),
            0,
        )
        ports[number] = server.sockets[0].getsockname()[1]
    listening(ports)
    ended = asyncio.Event()
    loop.add_reader(sys.stdin.fileno(), ended.set)
    await ended.wait()


if __name__ == "__main__":
    uvloop.run(_serve(fleet_asked()))
