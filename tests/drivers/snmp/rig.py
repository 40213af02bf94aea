"""Small agents on loopback in every mood, and recordings of real ones."""

from __future__ import annotations

import asyncio
import bz2
from bisect import bisect_right
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from drivers.address import Address
from drivers.credentials import Credentials
from drivers.profile import SnmpWhere
from drivers.profile.binding import SnmpAt
from drivers.sim import ber
from drivers.snmp import SnmpTransport
from drivers.transport import Links
from tests.drivers.wires import links, same

__all__ = ["same"]

Oid = tuple[int, ...]
Respond = Callable[[ber.Request], bytes | None]
COLUMN: Oid = (1, 3, 6, 1, 4, 1, 9, 1)
V1 = Credentials("community_v1")


class Wire(asyncio.DatagramProtocol):
    """Answers as told; remembers what it was asked."""

    def __init__(self, respond: Respond) -> None:
        self.respond = respond
        self.asked: list[ber.Request] = []
        self.port = 0
        self.asked_from: tuple[str, int] = ("", 0)

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.port = transport.get_extra_info("sockname")[1]

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        request = _parsed(data)
        self.asked.append(request)
        self.asked_from = addr
        answer = self.respond(request)
        if answer is not None:
            self.transport.sendto(answer if data[version_at(data)] else _as_v1(answer), addr)

    def sizes(self, kind: int = ber.GET) -> list[int]:
        """Variables of each request of a kind, in order."""
        return [len(r.variables) for r in self.asked if r.kind == kind]


def version_at(message: bytes) -> int:
    """Where the version of a message stands."""
    return 4 + (message[1] & 0x7F if message[1] & 0x80 else 0)


def _parsed(data: bytes) -> ber.Request:
    """A request of version 2c, or of version 1 read as one."""
    at = version_at(data)
    return ber.parse(data[:at] + b"\x01" + data[at + 1 :])


def _as_v1(answer: bytes) -> bytes:
    at = version_at(answer)
    return answer[:at] + b"\x00" + answer[at + 1 :]


@asynccontextmanager
async def wire(respond: Respond, host: str = "127.0.0.1") -> AsyncIterator[Wire]:
    """An agent on a port of its own."""
    made = Wire(respond)
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(lambda: made, local_addr=(host, 0))
    try:
        yield made
    finally:
        transport.close()


@asynccontextmanager
async def agent(
    respond: Respond,
    credentials: Credentials | None = None,
    timeout_s: float = 0.4,
    shared: Links | None = None,
    **more: Any,
) -> AsyncIterator[tuple[SnmpTransport, Wire]]:
    """An agent and the transport that asks it."""
    async with wire(respond) as made:
        snmp = SnmpTransport(
            Address("snmp", "127.0.0.1", made.port),
            shared or links(timeout_s),
            credentials or Credentials(),
            **more,
        )
        try:
            yield snmp, made
        finally:
            await snmp.close()


def at(*arcs: int) -> SnmpAt:
    """The place of a variable below COLUMN."""
    return place((*COLUMN, *arcs))


def place(oid: Oid) -> SnmpAt:
    return SnmpAt(SnmpWhere(oid=oid), oid)


def integer(value: int) -> ber.Value:
    return ber.Value(ber.INTEGER, ber.of_integer(value))


def text(value: str) -> ber.Value:
    return ber.Value(ber.OCTETS, value.encode())


def numbers(count: int) -> dict[Oid, ber.Value]:
    """COLUMN.0 is 0, COLUMN.1 is 1, and so on."""
    return {(*COLUMN, i): integer(i) for i in range(count)}


async def rows_of(snmp: SnmpTransport) -> tuple[int, ...]:
    """The last arcs of what a walk of COLUMN finds."""
    return tuple(name[-1] for name in (await snmp.walk(COLUMN)).names)


def echoed(request: ber.Request, status: int, index: int) -> bytes:
    """An error with the question's own variables, as RFC 3416 wants it."""
    echo = [(name, ber.Value(tag, body)) for name, tag, body in request.variables]
    return ber.response(request, echo, status, index)


def table(values: Mapping[Oid, ber.Value], *, per_bulk: int = 40) -> Respond:
    """A well-behaved agent over a table, with at most `per_bulk` rows an answer."""
    order = sorted(values)

    def after(name: Oid) -> tuple[Oid, ber.Value]:
        found = bisect_right(order, name)
        if found == len(order):
            return name, ber.Value(ber.END_OF_MIB_VIEW)
        return order[found], values[order[found]]

    def respond(request: ber.Request) -> bytes:
        names = [name for name, _, _ in request.variables]
        if request.kind == ber.GET:
            none = ber.Value(ber.NO_SUCH_INSTANCE)
            return ber.response(request, [(n, values.get(n, none)) for n in names])
        rows, here = [], names[0]
        for _ in range(min(request.second, per_bulk) if request.kind == ber.GET_BULK else 1):
            here, value = after(here)
            rows.append((here, value))
        return ber.response(request, rows)

    return respond


def recorded(path: Path) -> dict[Oid, ber.Value]:
    """The variables of an `.snmprec` file: `OID|tag|value`; lines of other forms are left out."""
    raw = path.read_bytes()
    lines = (bz2.decompress(raw) if path.suffix == ".bz2" else raw).decode("utf-8", "replace")
    values = {}
    for line in lines.splitlines():
        oid, _, rest = line.partition("|")
        tag, _, content = rest.partition("|")
        try:
            value = _value(int(tag.rstrip("x")), content, tag.endswith("x"))
        except ValueError:
            continue
        values[tuple(int(a) for a in oid.strip(".").split("."))] = value
    return values


def _value(tag: int, content: str, in_hex: bool) -> ber.Value:
    if tag in (ber.INTEGER, 0x41, 0x42, 0x43, 0x46):
        return ber.Value(tag, ber.of_integer(int(content)))
    if tag == ber.OID:
        return ber.Value(tag, ber.of_oid(tuple(int(a) for a in content.strip(".").split("."))))
    if tag == ber.NULL:
        return ber.Value(tag)
    if in_hex:
        return ber.Value(tag, bytes.fromhex(content))
    if tag == 0x40:
        return ber.Value(tag, bytes(int(part) for part in content.split(".")))
    if tag in (ber.OCTETS, 0x44):
        return ber.Value(tag, content.encode())
    raise ValueError("no type of SNMP")
