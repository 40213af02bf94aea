"""SNMP agents on loopback that impersonate the devices of a facility file.

One UDP port each; GET, GETNEXT, GETBULK and SET of version 2c. Cheap enough for dozens in one
process: an answer costs some tens of microseconds.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Mapping
from functools import partial
from typing import Final, cast

from drivers.catalog import profiles
from drivers.profile.binding import SnmpAt
from drivers.profile.codec import Answer, Raw
from drivers.sim import ber
from drivers.sim.impersonation import Impersonation
from drivers.sim.source import SLOW_S, InstrumentSource, Served
from facility.config import DeviceConfig
from facility.points import Flaw

SYS_DESCR: Final = (1, 3, 6, 1, 2, 1, 1, 1, 0)
SYS_OBJECT_ID: Final = (1, 3, 6, 1, 2, 1, 1, 2, 0)
SYS_NAME: Final = (1, 3, 6, 1, 2, 1, 1, 5, 0)
#: an answer stays below the size of an Ethernet frame
MAX_VARIABLES: Final = 40
NOT_WRITABLE: Final = 17
WRONG_VALUE: Final = 10


class Agent(asyncio.DatagramProtocol):
    """One impersonated agent on one UDP port."""

    def __init__(self, impersonation: Impersonation) -> None:
        self._who = impersonation
        self._transport: asyncio.DatagramTransport | None = None
        self._places = {
            impersonation.oid(at): at for at in impersonation.places if isinstance(at, SnmpAt)
        }
        self._fixed = _system(impersonation)
        self._order = sorted({*self._places, *self._fixed})

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the socket."""
        self._transport = cast(asyncio.DatagramTransport, transport)

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        """Answer as healthy as the device is now; nonsense gets no answer."""
        health = self._who.health
        if health == "dead":
            return
        try:
            answer = self.respond(ber.parse(data))
        except (ber.BerError, ValueError):
            return
        if health == "garbage":
            answer = bytes(octet ^ 0x5A for octet in answer)
        if health == "slow":
            asyncio.get_running_loop().call_later(SLOW_S, self._send, answer, addr)
        else:
            self._send(answer, addr)

    def respond(self, request: ber.Request) -> bytes:
        """The answer to one request."""
        names = [name for name, _, _ in request.variables]
        if request.kind == ber.SET:
            return self._set(request)
        if request.kind == ber.GET:
            return ber.response(request, [(name, self._value(name)) for name in names])
        if request.kind == ber.GET_NEXT:
            return ber.response(request, [self._after(name) for name in names])
        head = max(request.first, 0)
        found = [self._after(name) for name in names[:head]]
        here = names[head:]
        for _ in range(max(request.second, 0)):
            if not here or len(found) >= MAX_VARIABLES:
                break
            row = [self._after(name) for name in here]
            found += row
            if all(value.tag == ber.END_OF_MIB_VIEW for _, value in row):
                break
            here = [name for name, _ in row]
        return ber.response(request, found[:MAX_VARIABLES])

    def _set(self, request: ber.Request) -> bytes:
        echo = [(name, ber.Value(tag, body)) for name, tag, body in request.variables]
        for index, (name, tag, body) in enumerate(request.variables, start=1):
            at = self._places.get(name)
            if at is None:
                return ber.response(request, echo, NOT_WRITABLE, index)
            raw: Raw = body if tag == ber.OCTETS else ber.integer(body)
            reply = self._who.accept(at, raw)
            if reply.outcome != "accepted":
                status = NOT_WRITABLE if reply.detail == "not writable" else WRONG_VALUE
                return ber.response(request, echo, status, index)
        return ber.response(request, echo)

    def _value(self, name: ber.Oid) -> ber.Value:
        if name in self._fixed:
            return self._fixed[name]
        at = self._places.get(name)
        if at is None:
            return ber.Value(ber.NO_SUCH_INSTANCE)
        return encoded(at.where.syntax, self._who.answer(at))

    def _after(self, name: ber.Oid) -> tuple[ber.Oid, ber.Value]:
        for following in self._order[bisect_right(self._order, name) :]:
            value = self._value(following)
            if value.tag != ber.NO_SUCH_INSTANCE:
                return following, value
        return name, ber.Value(ber.END_OF_MIB_VIEW)

    def _send(self, answer: bytes, addr: tuple[str, int]) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.sendto(answer, addr)


def encoded(syntax: str, raw: Answer) -> ber.Value:
    """A raw in the ASN.1 type that the profile names."""
    if isinstance(raw, Flaw | tuple | float):
        return ber.Value(ber.NO_SUCH_INSTANCE)
    if isinstance(raw, bytes):
        return ber.Value(ber.OCTETS, raw)
    if isinstance(raw, str):
        return ber.Value(ber.OCTETS, raw.encode())
    tag = ber.TAGS[syntax] if syntax not in ("octets", "oid") else ber.INTEGER
    return ber.Value(tag, ber.of_integer(int(raw)))


def _system(who: Impersonation) -> dict[ber.Oid, ber.Value]:
    """The variables of every agent; sysDescr as the profile's identity wants to read it."""
    asked = next((at for at in who.places if isinstance(at, SnmpAt) and at.oid == SYS_DESCR), None)
    described = Flaw.REFUSED if asked is None else who.answer(asked)
    text = described if isinstance(described, bytes) else f"Wattkeeper {who.device}".encode()
    for wanted in who.profile.match.describes[:1]:
        text = wanted.encode() + b" " + text
    fixed: dict[ber.Oid, ber.Value] = {
        SYS_DESCR: ber.Value(ber.OCTETS, text),
        SYS_NAME: ber.Value(ber.OCTETS, who.device.encode()),
    }
    taken = {who.oid(at) for at in who.places if isinstance(at, SnmpAt)}
    for arcs in set(who.profile.match.answers) - taken:
        fixed[arcs] = ber.Value(ber.INTEGER, ber.of_integer(1))
    for arcs in who.profile.match.sys_object_ids[:1]:
        fixed[SYS_OBJECT_ID] = ber.Value(ber.OID, ber.of_oid(arcs))
    return fixed


async def serve_snmp(
    plant: InstrumentSource, devices: Mapping[str, DeviceConfig], host: str = "127.0.0.1"
) -> Served:
    """Start an agent for each device whose profile speaks SNMP.

    Returns:
        device -> `snmp://host:port`; `close()` ends them all.
    """
    served = Served()
    loop = asyncio.get_running_loop()
    known = profiles()
    for name, config in devices.items():
        profile = known.get(config.profile)
        if profile is None or profile.protocol != "snmp":
            continue
        who = Impersonation(profile, name, plant, config.parameters)
        transport, _ = await loop.create_datagram_endpoint(
            partial(Agent, who), local_addr=(host, 0)
        )
        served.closers.append(transport.close)
        port = transport.get_extra_info("sockname")[1]
        served[name] = f"snmp://{f'[{host}]' if ':' in host else host}:{port}"
    return served
