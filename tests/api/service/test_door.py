"""Silent, slow and far too many connections: the door closes, those who ask are answered."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import uvicorn

from api.service.door import Door


class _Small(Door):
    most = 5
    arrival_s = 0.3


async def _app(scope: Any, receive: Any, send: Any) -> None:
    await receive()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    if scope["path"] == "/long":
        for _ in range(12):
            await send({"type": "http.response.body", "body": b"tick", "more_body": True})
            await asyncio.sleep(0.1)
    await send({"type": "http.response.body", "body": b"end"})


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Any:
        yield


@contextlib.asynccontextmanager
async def served() -> AsyncIterator[int]:
    config = uvicorn.Config(_app, port=0, http=_Small, lifespan="off", log_config=None)
    server = _Server(config)
    task = asyncio.create_task(server.serve())
    async with asyncio.timeout(5.0):
        while not server.started:  # noqa: ASYNC110 - uvicorn tells it by no event
            await asyncio.sleep(0.01)
    try:
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        await task


async def ask(port: int, path: str = "/") -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
    answer = await asyncio.wait_for(reader.read(), 5.0)
    writer.close()
    return answer


def test_connections_that_say_nothing_or_half_a_request_are_closed_in_time() -> None:
    async def run() -> None:
        async with served() as port:
            starts = (
                b"",
                b"GET / HTT",
                b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nab",
            )
            for start in starts:
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(start)
                await asyncio.wait_for(reader.read(), 2.0)
                assert reader.at_eof()
                writer.close()

    asyncio.run(run())


def test_a_long_answer_is_not_cut_short() -> None:
    async def run() -> None:
        async with served() as port:
            assert (await ask(port, "/long")).count(b"tick") == 12

    asyncio.run(run())


def test_a_thousand_silent_connections_leave_the_process_its_own() -> None:
    async def run() -> None:
        async with served() as port:
            held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(20)]
            await asyncio.sleep(0.05)
            refused = [r for r, _ in held if r.at_eof() or r.exception() is not None]
            assert len(refused) == 15
            await asyncio.sleep(0.8)
            assert (await ask(port)).endswith(b"0\r\n\r\n")
            for _, writer in held:
                writer.close()

    asyncio.run(run())
