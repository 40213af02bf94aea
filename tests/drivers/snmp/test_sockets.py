"""What the machine itself does to a request: no address, no socket, no room to send."""

from __future__ import annotations

import asyncio
import errno
import socket
import threading
from typing import Any

import pytest

from drivers.address import Address
from drivers.credentials import Credentials
from drivers.profile.binding import Places
from drivers.snmp import SnmpTransport
from facility.points import Flaw
from tests.drivers.snmp.rig import agent, at, numbers, same, table, wire
from tests.drivers.wires import links


@pytest.mark.parametrize("host", ["pdu..example", "x" * 64 + ".example", "pdü..example"])
async def test_a_host_that_cannot_be_a_name_is_a_timeout_and_ends_no_reader(host: str) -> None:
    snmp = SnmpTransport(Address("snmp", host, 161), links(0.3), Credentials())
    assert same(await snmp.fetch(Places((at(1),))), (Flaw.TIMEOUT,))
    assert host in snmp.trouble
    await snmp.close()


async def test_a_name_with_an_ipv6_address_is_read_by_ipv4_where_the_kernel_has_no_ipv6(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def made(family: int, *more: Any) -> socket.socket:
        if family == socket.AF_INET6:
            raise OSError(errno.EAFNOSUPPORT, "Address family not supported by protocol")
        return plain(family, *more)

    def looked_up(_host: str, port: int, **_more: Any) -> list[Any]:
        return [(0, 0, 0, "", ("::1", port, 0, 0)), (0, 0, 0, "", ("127.0.0.1", port))]

    plain = socket.socket
    async with wire(table(numbers(3))) as fast:
        monkeypatch.setattr(socket, "socket", made)
        monkeypatch.setattr(socket, "getaddrinfo", looked_up)
        snmp = SnmpTransport(Address("snmp", "pdu", fast.port), links(0.3), Credentials())
        assert same(await snmp.fetch(Places((at(1),))), (Flaw.TIMEOUT,))
        snmp._patience.answered()  # its back-off is another test's business
        assert same(await snmp.fetch(Places((at(1),))), (1,))
        await snmp.close()


@pytest.mark.parametrize("error", [errno.ENOBUFS, errno.EPERM, errno.EAGAIN])
async def test_a_request_that_found_no_room_is_repeated_and_makes_no_device_dead(
    error: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = [1, 1]

    class Full(socket.socket):
        def sendto(self, *message: Any) -> int:
            if failures:
                failures.pop()
                raise OSError(error, "no room")
            return super().sendto(*message)

    async with agent(table(numbers(3)), timeout_s=0.1) as (snmp, _):
        monkeypatch.setattr(socket, "socket", Full)
        assert same(await snmp.fetch(Places((at(1), at(2)))), (1, 2))


async def test_a_name_server_that_is_gone_keeps_no_log_in_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Look-ups held all threads of the event loop, long after their devices had given up."""
    over = threading.Event()

    def hangs(_host: str, _port: int, **more: Any) -> list[Any]:
        if more.get("flags") != socket.AI_NUMERICHOST:
            over.wait(10.0)
        raise OSError("no name server")

    monkeypatch.setattr(socket, "getaddrinfo", hangs)
    shared = links(0.05)
    agents = [
        SnmpTransport(Address("snmp", f"pdu-{i}.example", 161), shared, Credentials())
        for i in range(40)
    ]
    try:
        await asyncio.gather(*(snmp.fetch(Places((at(1),))) for snmp in agents))
        async with asyncio.timeout(5.0):
            assert await asyncio.to_thread(lambda: "a log-in") == "a log-in"
    finally:
        over.set()
