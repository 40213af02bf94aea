"""One suite for all readers: the same recordings of real devices, the same readings.

Our own reader and pysnmp's stand behind one seam; gufo-snmp, which reads nothing for us
(docs/adr/0016), is a third opinion on what healthy agents answer.

The recordings under the GPL are read from the folder that `WATTKEEPER_CAPTURES` names; the BSD
ones of snmpsim-data are installed with the tests. Our own agent plays them.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from gufo.snmp.aio import SnmpSession

from drivers.address import Address, parse_address
from drivers.credentials import Credentials
from drivers.profile import SnmpWhere
from drivers.profile.binding import Places, SnmpAt
from drivers.sim import ber
from drivers.snmp import SnmpTransport
from drivers.snmp.own import OwnReader
from drivers.snmp.reader import Reader
from drivers.snmp.reference import ReferenceReader
from drivers.snmp.values import value_of
from drivers.transport import Links
from facility.points import Flaw
from tests.drivers.snmp.rig import (
    Oid,
    echoed,
    numbers,
    place,
    recorded,
    rows_of,
    same,
    table,
    text,
    wire,
)
from tests.drivers.wires import links

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:pysnmp")

MakeReader = Callable[[Address, Links, Credentials], Reader]
READERS: tuple[MakeReader, ...] = (OwnReader, ReferenceReader)
#: variables of each recording that are looked at, spread over all of it; pysnmp is slow
LOOKED_AT = 30
WALKED = 40
#: one recording in so many is played in the daily tests
DAILY = 6
#: types that gufo-snmp hands over in another shape: IpAddress as text, Opaque as it is
OTHERWISE = (0x40, 0x44)
#: a recorded router is none of our devices
LARGEST_OCTETS = 1_000_000


def recordings() -> list[Path]:
    """Every recording that is on this machine."""
    found: list[Path] = []
    named = os.environ.get("WATTKEEPER_CAPTURES")
    if named:
        found += Path(named, "snmprec").glob("*.snmprec")
    spec = find_spec("snmpsim_data")
    if spec is not None and spec.submodule_search_locations:
        folder = Path(next(iter(spec.submodule_search_locations))) / "data" / "UPS"
        found += [*folder.glob("*.snmprec"), *folder.glob("*.snmprec.bz2")]
    return sorted(path for path in found if path.stat().st_size <= LARGEST_OCTETS)


def played() -> list[Any]:
    """The recordings as parameters: those of daily tests, and the others for `make soak`."""
    return [
        pytest.param(
            path,
            id=path.name.split(".")[0],
            marks=() if number % DAILY == 0 else (pytest.mark.soak,),
        )
        for number, path in enumerate(recordings())
    ]


def spread(oids: list[Oid], count: int) -> list[Oid]:
    """So many of them, from the first to the last."""
    step = max(len(oids) // count, 1)
    return oids[::step][:count]


def branch(order: list[Oid], leaf: Oid) -> tuple[Oid, list[Oid]]:
    """A branch of some rows: the one around a variable, or the first that is not too long."""
    for name in (leaf, *spread(order, 20)):
        below = [oid for oid in order if oid[: len(name) - 1] == name[:-1]]
        if 1 < len(below) <= WALKED:
            return name[:-1], below
    return order[0], []


async def by_gufo(port: int, oids: list[Oid]) -> dict[Oid, object]:
    """What gufo-snmp says of these variables; what is missing it leaves away."""
    found: dict[str, object] = {}
    async with SnmpSession("127.0.0.1", port=port, timeout=1.0) as session:
        for at in range(0, len(oids), 10):
            found |= await session.get_many(".".join(map(str, oid)) for oid in oids[at : at + 10])
    return {tuple(int(arc) for arc in name.split(".")): value for name, value in found.items()}


@pytest.mark.parametrize("path", played())
async def test_every_reader_reads_a_recording_alike_and_as_it_is_written(path: Path) -> None:
    values = recorded(path)
    order = sorted(values)
    oids = spread(order, LOOKED_AT)
    absent = [(*oids[0], 77), (*oids[-1], 77)]
    places = Places(tuple(place(oid) for oid in (*oids, *absent)))
    root, below = branch(order, oids[len(oids) // 2])
    async with wire(table(values)) as agent:
        address = Address("snmp", "127.0.0.1", agent.port)
        seen, walked = [], []
        for make in READERS:
            shared = links()
            reader = make(address, shared, Credentials())
            snmp = SnmpTransport(address, shared, Credentials(), reader=reader)
            seen.append(await snmp.fetch(places))
            walked.append(await snmp.walk(root))
            await snmp.close()
        third = await by_gufo(agent.port, oids)
    own, reference = seen
    assert same(own, reference)
    assert same(own[-2:], (Flaw.REFUSED, Flaw.REFUSED))
    assert same(own[:-2], (value_of(values[oid].tag, values[oid].body) for oid in oids))
    for oid, answer in zip(oids, own, strict=False):
        if values[oid].tag not in OTHERWISE:
            assert same([third.get(oid, Flaw)], [Flaw if isinstance(answer, Flaw) else answer])
    assert walked[0].names == walked[1].names
    assert same(walked[0].answers, walked[1].answers)
    assert list(walked[0].names) == below


def hosts() -> list[str]:
    """The loopback addresses of this machine: a container may have no IPv6."""
    found = ["127.0.0.1"]
    with suppress(OSError), socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as six:
        six.bind(("::1", 0))
        found.append("::1")
    return found


@pytest.mark.parametrize("host", hosts())
async def test_both_read_write_and_walk_over_ipv6_as_over_ipv4(host: str) -> None:
    values = numbers(30)
    answer = table(values)

    def respond(request: ber.Request) -> bytes | None:
        return echoed(request, 0, 0) if request.kind == ber.SET else answer(request)

    async with wire(respond, host) as agent:
        written = f"snmp://{f'[{host}]' if ':' in host else host}:{agent.port}"
        address = parse_address(written)
        assert (address.host, address.endpoint) == (host, written)
        for make in READERS:
            shared = links()
            snmp = SnmpTransport(
                address, shared, Credentials(), reader=make(address, shared, Credentials())
            )
            seen = await snmp.fetch(Places(tuple(place(oid) for oid in values)))
            assert same(seen, range(30))
            assert await rows_of(snmp) == tuple(range(30))
            assert (await snmp.put(place(next(iter(values))), 5)).outcome == "accepted"
            await snmp.close()


async def test_the_reference_leaves_no_engine_and_no_socket_behind() -> None:
    async with wire(table({(1, 3, 6, 1, 2, 1, 1, 1, 0): text("card")})) as agent:
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(5):
            shared, address = links(), Address("snmp", "127.0.0.1", agent.port)
            reader = ReferenceReader(address, shared, Credentials())
            snmp = SnmpTransport(address, shared, Credentials(), reader=reader)
            assert await snmp.get((1, 3, 6, 1, 2, 1, 1, 1, 0)) == b"card"
            await snmp.close()
        await asyncio.sleep(0.05)
        assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("make", READERS)
async def test_every_reader_writes_once_and_hears_what_the_agent_says(make: MakeReader) -> None:
    oid = (1, 3, 6, 1, 4, 1, 9, 1, 1)
    written: list[tuple[Oid, int, bytes]] = []
    status = 0

    def takes(request: ber.Request) -> bytes:
        written.extend(request.variables)
        return echoed(request, status, 1 if status else 0)

    async with wire(takes) as agent:
        shared, address = links(), Address("snmp", "127.0.0.1", agent.port)
        snmp = SnmpTransport(
            address, shared, Credentials(), reader=make(address, shared, Credentials())
        )
        where = SnmpAt(SnmpWhere(oid=oid, syntax="gauge32"), oid)
        assert (await snmp.put(where, 2**31)).outcome == "accepted"
        status = 17
        refused = await snmp.put(where, 5)
        assert (refused.outcome, refused.detail) == ("rejected", "notWritable")
        assert (await snmp.put(where, 2**40)).outcome == "rejected"
        await snmp.close()
    assert written == [(oid, 0x42, b"\x00\x80\x00\x00\x00"), (oid, 0x42, b"\x05")]
