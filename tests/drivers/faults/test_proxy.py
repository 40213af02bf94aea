"""The proxy does to the wire what it says, and nothing else."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from tests.drivers.faults import deeds
from tests.drivers.faults.proxy import tcp_proxy, udp_proxy

WORD = b"0123456789"


@asynccontextmanager
async def echo() -> AsyncIterator[int]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(100):
            writer.write(data)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await server.wait_closed()


async def heard(reader: asyncio.StreamReader, size: int) -> bytes:
    """What arrives within a moment, `size` bytes at most."""
    got = b""
    try:
        async with asyncio.timeout(0.2):
            while len(got) < size and (data := await reader.read(size - len(got))):
                got += data
    except (TimeoutError, ConnectionResetError):
        pass
    return got


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (deeds.passed, WORD),
        (deeds.delayed(0.02), WORD),
        (deeds.dripped(3, 0.002), WORD),
        (deeds.truncated(4), WORD[:4]),
        (deeds.silent, b""),
        (deeds.duplicated, WORD + WORD),
        (deeds.renumbered(0, 2), b"00" + WORD[2:]),
        (deeds.NowAndThen(deeds.silent, 2), WORD),
    ],
)
async def test_a_fault_does_what_it_says(fault: deeds.Fault, expected: bytes) -> None:
    async with echo() as port, tcp_proxy(port) as proxy:
        proxy.to_client = fault
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(WORD)
        assert await heard(reader, max(len(expected), 1)) == expected
        writer.close()


async def test_a_reset_breaks_the_connection_and_healing_lets_the_next_one_through() -> None:
    async with echo() as port, tcp_proxy(port) as proxy:
        proxy.to_client = deeds.reset(after=3)
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(WORD)
        assert WORD.startswith(await heard(reader, len(WORD)))
        with suppress(ConnectionResetError):  # the reset may have been heard above already
            assert await reader.read(10) == b""
        writer.close()
        proxy.heal()
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(WORD)
        assert await heard(reader, len(WORD)) == WORD
        writer.close()
        assert proxy.connections == 2


def test_one_bit_is_flipped_and_no_more() -> None:
    fault = deeds.flipped(random.Random(3), first=2)
    for _ in range(100):
        (deed,) = fault(WORD)
        assert deed.data is not None
        wrong = [a ^ b for a, b in zip(deed.data, WORD, strict=True)]
        assert sum(bin(w).count("1") for w in wrong) == 1
        assert wrong[:2] == [0, 0]


def test_pieces_change_places() -> None:
    fault = deeds.Reordered()
    assert [d.data for piece in (b"1", b"2", b"3", b"4") for d in fault(piece)] == [
        b"2",
        b"1",
        b"4",
        b"3",
    ]


async def test_datagrams_pass_both_ways() -> None:
    loop = asyncio.get_running_loop()

    class Echo(asyncio.DatagramProtocol):
        def connection_made(self, transport: Any) -> None:
            self.transport = transport

        def datagram_received(self, data: bytes, addr: Any) -> None:
            self.transport.sendto(data, addr)

    class Ear(asyncio.DatagramProtocol):
        def __init__(self, hear: Callable[[bytes], None]) -> None:
            self.hear = hear

        def datagram_received(self, data: bytes, addr: Any) -> None:
            self.hear(data)

    server, _ = await loop.create_datagram_endpoint(Echo, local_addr=("127.0.0.1", 0))
    got: asyncio.Queue[bytes] = asyncio.Queue()
    async with udp_proxy(server.get_extra_info("sockname")[1]) as proxy:
        client, _ = await loop.create_datagram_endpoint(
            lambda: Ear(got.put_nowait), remote_addr=("127.0.0.1", proxy.port)
        )
        client.sendto(WORD)
        assert await asyncio.wait_for(got.get(), 1.0) == WORD
        proxy.to_client = deeds.duplicated
        client.sendto(b"x")
        assert await asyncio.wait_for(got.get(), 1.0) == b"x"
        assert await asyncio.wait_for(got.get(), 1.0) == b"x"
        proxy.to_server = deeds.silent
        client.sendto(b"y")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(got.get(), 0.1)
        client.close()
    server.close()
