"""Closing the MQTT client while it is still connecting, on loopback."""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
from collections.abc import AsyncIterator

import aiomqtt
import pytest

from drivers.mqtt.bus import MqttBus
from facility.clock import SystemClock

#: Less than a connection attempt may take, far less than for ever.
BOUND_S = 4.0


def client(port: int) -> MqttBus:
    return MqttBus(
        f"mqtt://127.0.0.1:{port}", name="closing", clock=SystemClock(), rng=random.Random(1)
    )


@contextlib.asynccontextmanager
async def black_hole() -> AsyncIterator[tuple[int, list[asyncio.StreamWriter]]]:
    """A port that accepts and never says a word."""
    met: list[asyncio.StreamWriter] = []

    async def swallow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        met.append(writer)
        with contextlib.suppress(OSError):
            while await reader.read(1024):
                pass
        writer.close()

    server = await asyncio.start_server(swallow, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1], met
    finally:
        server.close()


async def close_in_time(bus: MqttBus) -> None:
    async with asyncio.timeout(BOUND_S):
        await bus.close()
    assert not bus.connected


@pytest.mark.parametrize("after_s", [0.0, 0.002, 0.05, 0.5])
def test_close_ends_while_a_broker_accepts_and_never_answers(after_s: float) -> None:
    async def work() -> None:
        async with black_hole() as (port, _):
            bus = client(port)
            await bus.start()
            await asyncio.sleep(after_s)
            await close_in_time(bus)

    asyncio.run(work())


def test_close_ends_while_the_port_does_not_even_accept() -> None:
    async def work() -> None:
        with contextlib.ExitStack() as opened:
            deaf = opened.enter_context(socket.socket())
            deaf.bind(("127.0.0.1", 0))
            deaf.listen(0)
            for _ in range(3):  # a full backlog: further handshakes are dropped
                filler = opened.enter_context(socket.socket())
                filler.setblocking(False)
                filler.connect_ex(deaf.getsockname())
            bus = client(deaf.getsockname()[1])
            await bus.start()
            await asyncio.sleep(0.2)
            await close_in_time(bus)

    asyncio.run(work())


def test_close_ends_although_the_library_swallowed_the_cancellation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As `asyncio.wait_for` of Python 3.11 does when its future is done in the same moment."""

    async def deaf(self: aiomqtt.Client) -> aiomqtt.Client:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        raise aiomqtt.MqttError("the login ended in the moment of the cancellation")

    async def work() -> None:
        monkeypatch.setattr(aiomqtt.Client, "__aenter__", deaf)
        async with black_hole() as (port, _):
            bus = client(port)
            await bus.start()
            await asyncio.sleep(0.05)
            await close_in_time(bus)

    asyncio.run(work())


def test_a_deadline_around_close_is_not_swallowed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def slow(self: aiomqtt.Client) -> aiomqtt.Client:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(1.0)
        return self

    async def work() -> None:
        monkeypatch.setattr(aiomqtt.Client, "__aenter__", slow)
        async with black_hole() as (port, _):
            bus = client(port)
            await bus.start()
            await asyncio.sleep(0.05)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.2):
                    await bus.close()

    asyncio.run(work())


def test_nothing_is_left_open_after_a_close_in_mid_login() -> None:
    async def work() -> None:
        async with black_hole() as (port, met):
            bus = client(port)
            await bus.start()
            await asyncio.sleep(0.3)
            assert len(met) == 1
            await close_in_time(bus)
            await asyncio.sleep(0.2)
            assert met[0].is_closing()

    asyncio.run(work())
