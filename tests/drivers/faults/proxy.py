"""A proxy on loopback between a client and a server; faults may strike in either direction."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

from tests.drivers.faults.deeds import Deed, Fault, passed

CHUNK = 65_536


class Proxy:
    """What stands between; the faults may be changed while it runs.

    Attributes:
        port: where clients connect or send to.
        to_server, to_client: the fault of each direction.
        connections: TCP connections accepted so far.
        open: TCP connections that stand now.
    """

    def __init__(self) -> None:
        self.port = 0
        self.to_server: Fault = passed
        self.to_client: Fault = passed
        self.connections = 0
        self.open = 0
        self.tasks: set[asyncio.Task[Any]] = set()

    def heal(self) -> None:
        """From now on everything passes; connections that broke stay broken."""
        self.to_server = self.to_client = passed

    def start(self, job: Any) -> None:
        """Run a job until it ends or the proxy closes."""
        task = asyncio.create_task(job)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def end(self) -> None:
        """End every job."""
        for task in list(self.tasks):
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)


@asynccontextmanager
async def tcp_proxy(target: int) -> AsyncIterator[Proxy]:
    """A TCP proxy in front of a port of 127.0.0.1."""
    proxy = Proxy()

    async def pass_on(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, to_server: bool
    ) -> None:
        while data := await reader.read(CHUNK):
            fault = proxy.to_server if to_server else proxy.to_client
            for after_s, piece in fault(data):
                await asyncio.sleep(after_s)
                if piece is None:
                    writer.transport.abort()
                    return
                writer.write(piece)
            await writer.drain()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        proxy.connections += 1
        proxy.open += 1
        far: asyncio.StreamWriter | None = None
        try:
            far_reader, far = await asyncio.open_connection("127.0.0.1", target)
            ways = [
                asyncio.create_task(pass_on(reader, far, to_server=True)),
                asyncio.create_task(pass_on(far_reader, writer, to_server=False)),
            ]
            try:
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for way in ways:
                    way.cancel()
                await asyncio.gather(*ways, return_exceptions=True)
        except OSError:
            pass
        finally:
            proxy.open -= 1
            for side in (writer, far):
                if side is not None:
                    with suppress(OSError):
                        side.transport.abort()

    server = await asyncio.start_server(
        lambda r, w: proxy.start(serve(r, w)), host="127.0.0.1", port=0
    )
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        server.close()
        await proxy.end()
        await server.wait_closed()


class _Side(asyncio.DatagramProtocol):
    """One UDP socket of the proxy."""

    def __init__(self, on_data: Any) -> None:
        self._on_data = on_data
        self.transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def datagram_received(self, data: bytes, addr: tuple[Any, ...]) -> None:
        self._on_data(data, addr)

    def error_received(self, exc: Exception) -> None:
        """A port that nobody listens on is silence here."""


@asynccontextmanager
async def udp_proxy(target: int) -> AsyncIterator[Proxy]:
    """A UDP proxy in front of a port of 127.0.0.1; one far socket for each client."""
    proxy, loop = Proxy(), asyncio.get_running_loop()
    far: dict[tuple[Any, ...], _Side] = {}

    async def send(deeds: Sequence[Deed], side: _Side, addr: tuple[Any, ...] | None) -> None:
        for after_s, piece in deeds:
            await asyncio.sleep(after_s)
            if piece is not None and side.transport is not None:
                side.transport.sendto(piece, addr)

    async def forward(data: bytes, client: tuple[Any, ...]) -> None:
        if client not in far:
            made = _Side(lambda answer, _: proxy.start(send(proxy.to_client(answer), near, client)))
            far[client] = made
            await loop.create_datagram_endpoint(lambda: made, remote_addr=("127.0.0.1", target))
        await send(proxy.to_server(data), far[client], None)

    near = _Side(lambda data, client: proxy.start(forward(data, client)))
    transport, _ = await loop.create_datagram_endpoint(lambda: near, local_addr=("127.0.0.1", 0))
    proxy.port = transport.get_extra_info("sockname")[1]
    try:
        yield proxy
    finally:
        transport.close()
        await proxy.end()
        for side in far.values():
            if side.transport is not None:
                side.transport.close()
