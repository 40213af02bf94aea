"""A broker for the bench that plays its nodes too: prebuilt PUBLISH packets to every subscriber.

Run as `python -m tests.bench.polling.mqtt_nodes FLEET`. It knows as much of MQTT 3.1.1 as one
subscriber needs (section 3: CONNACK, SUBACK, PINGRESP). Each node publishes once a period, spread
over it; a dead one never does, a slow one does at every third turn. The source time in a message
is patched, so that no message is like the last.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from functools import cache
from typing import Final, cast

import uvloop

from drivers.profile.binding import MqttAt
from drivers.profile.codec import encode
from tests.bench.polling.fleet import Fleet, binding_of, host_of, name_of, reading_of
from tests.bench.polling.serving import fleet_asked, listening

CONNECT, SUBSCRIBE, PINGREQ = 0x10, 0x82, 0xC0
CONNACK: Final = bytes((0x20, 2, 0, 0))
PINGRESP: Final = bytes((0xD0, 0))
#: a slow node speaks at each third turn
SLOW_TURNS: Final = 3
#: different messages of a node
PACKETS: Final = 4
_STAMP: Final = 1_800_000_000_000


def length_of(size: int) -> bytes:
    """A remaining length (MQTT 3.1.1, section 2.2.3)."""
    octets = bytearray()
    while True:
        size, octet = divmod(size, 128)
        octets.append(octet | (0x80 if size else 0))
        if not size:
            return bytes(octets)


@cache
def message_of(variant: int) -> dict[str, object]:
    """What a node says at one of its turns: an array for each kind of point."""
    told: dict[str, object] = {"utc_ms": _STAMP}
    for point in binding_of("mqtt", 0, 1.0).all():
        assert isinstance(point.at, MqttAt)
        array = told.setdefault(str(point.at.path[0]), [])
        assert isinstance(array, list)
        array.append(encode(point, reading_of(point, variant)))
    return told


class Packet:
    """A node's PUBLISH with a hole for the time."""

    def __init__(self, number: int, variant: int) -> None:
        topic = name_of("mqtt", number).encode()
        body = len(topic).to_bytes(2, "big") + topic + json.dumps(message_of(variant)).encode()
        whole = bytes((0x30,)) + length_of(len(body)) + body
        self._head, _, self._tail = whole.partition(str(_STAMP).encode())

    def at(self, utc_ms: int) -> bytes:
        """The packet as of a time."""
        return self._head + str(utc_ms).encode() + self._tail


class Client(asyncio.Protocol):
    """One subscriber; it is told everything, whatever it subscribes to."""

    def __init__(self, clients: set[Client]) -> None:
        self._clients = clients
        self._buffer = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the connection."""
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, error: Exception | None) -> None:
        """Forget it."""
        self._clients.discard(self)

    def data_received(self, data: bytes) -> None:
        """Answer what wants an answer."""
        self._buffer += data
        while len(self._buffer) >= 2:
            size, at, shift = 0, 1, 0
            while at < len(self._buffer):
                size |= (self._buffer[at] & 0x7F) << shift
                shift, at = shift + 7, at + 1
                if not self._buffer[at - 1] & 0x80:
                    break
            if len(self._buffer) < at + size:
                return
            kind, body = self._buffer[0], self._buffer[at : at + size]
            self._buffer = self._buffer[at + size :]
            if kind == CONNECT:
                self.send(CONNACK)
            elif kind == PINGREQ:
                self.send(PINGRESP)
            elif kind == SUBSCRIBE:
                self.send(bytes((0x90, 2 + _filters(body))) + body[:2] + bytes(_filters(body)))
                self._clients.add(self)

    def send(self, data: bytes) -> None:
        """Send, unless it has gone."""
        assert self._transport is not None
        if not self._transport.is_closing():
            self._transport.write(data)


def _filters(body: bytes) -> int:
    """How many topic filters a SUBSCRIBE has after its packet identifier."""
    at, found = 2, 0
    while at < len(body):
        at += 3 + int.from_bytes(body[at : at + 2], "big")
        found += 1
    return found


async def _speak(fleet: Fleet, clients: set[Client]) -> None:
    turn, began_s = 0, time.monotonic()
    packets = {n: [Packet(n, v) for v in range(PACKETS)] for n in range(fleet.mqtt)}
    while packets:
        for number, each in packets.items():
            state = fleet.state(number)
            due_s = began_s + fleet.period_s * (turn + number / max(fleet.mqtt, 1))
            if due_s > time.monotonic():
                await asyncio.sleep(max(due_s - time.monotonic(), 0.0))
            if state == "dead" or (state == "slow" and turn % SLOW_TURNS):
                continue
            data = each[turn % PACKETS].at(time.time_ns() // 1_000_000)
            for client in tuple(clients):
                client.send(data)
        turn += 1


async def _serve(fleet: Fleet) -> None:
    loop = asyncio.get_running_loop()
    clients: set[Client] = set()
    server = await loop.create_server(lambda: Client(clients), host_of("mqtt", 0), 0)
    listening(dict.fromkeys(range(fleet.mqtt), server.sockets[0].getsockname()[1]))
    ended = asyncio.Event()
    loop.add_reader(sys.stdin.fileno(), ended.set)
    speaking = asyncio.create_task(_speak(fleet, clients))
    await ended.wait()
    speaking.cancel()


if __name__ == "__main__":
    uvloop.run(_serve(fleet_asked()))
