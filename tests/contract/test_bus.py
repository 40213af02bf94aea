"""What every bus promises; held against the one in memory and against real brokers."""

from __future__ import annotations

import asyncio
import random
import shutil
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any, Protocol

import pytest

from drivers.mqtt.addressing import Letter
from drivers.mqtt.bus import MqttBus
from drivers.mqtt.memory import MemoryBroker, MemoryBus
from drivers.sim.broker import EmbeddedBroker
from facility.clock import SystemClock
from facility.ports import Bus
from tests.drivers.agent.rig import until

pytestmark = pytest.mark.system


class World(Protocol):
    """A broker that can go away and come back, and clients of it."""

    async def up(self) -> None: ...
    async def down(self) -> None: ...
    def client(self, name: str, **letters: Letter) -> Bus: ...
    def vanish(self, bus: Bus) -> None: ...


class InMemory:
    def __init__(self) -> None:
        self.broker = MemoryBroker()

    async def up(self) -> None:
        self.broker.start()

    async def down(self) -> None:
        self.broker.stop()

    def client(self, name: str, **letters: Letter) -> Bus:
        return MemoryBus(self.broker, **letters)

    def vanish(self, bus: Bus) -> None:
        assert isinstance(bus, MemoryBus)
        bus.sever()


def real_client(address: str, name: str, **letters: Letter) -> MqttBus:
    return MqttBus(
        address, name=name, clock=SystemClock(), rng=random.Random(), keepalive_s=1, **letters
    )


def cut(bus: Bus) -> None:
    """Break the client's socket under it, as a dying process does."""
    assert isinstance(bus, MqttBus)
    link = bus._link
    assert link is not None
    link._client._client.socket().shutdown(socket.SHUT_RDWR)


class Embedded:
    def __init__(self) -> None:
        self.broker = EmbeddedBroker()

    async def up(self) -> None:
        await self.broker.start()

    async def down(self) -> None:
        await self.broker.stop()

    def client(self, name: str, **letters: Letter) -> Bus:
        return real_client(self.broker.address, name, **letters)

    def vanish(self, bus: Bus) -> None:
        cut(bus)


class Mosquitto:
    """The broker of most sites, as a process of its own."""

    def __init__(self, folder: Path) -> None:
        with closing(socket.socket()) as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.config = folder / "mosquitto.conf"
        self.config.write_text(f"listener {self.port} 127.0.0.1\nallow_anonymous true\n")
        self.process: asyncio.subprocess.Process | None = None

    async def up(self) -> None:
        program = shutil.which("mosquitto") or "/usr/sbin/mosquitto"
        self.process = await asyncio.create_subprocess_exec(
            program, "-c", str(self.config), stderr=asyncio.subprocess.DEVNULL
        )
        for _ in range(100):
            await asyncio.sleep(0.05)
            with closing(socket.socket()) as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return

    async def down(self) -> None:
        process, self.process = self.process, None
        if process is not None:
            process.terminate()
            await process.wait()

    def client(self, name: str, **letters: Letter) -> Bus:
        return real_client(f"mqtt://127.0.0.1:{self.port}", name, **letters)

    def vanish(self, bus: Bus) -> None:
        cut(bus)


HAVE_MOSQUITTO = bool(shutil.which("mosquitto")) or Path("/usr/sbin/mosquitto").exists()


@pytest.fixture(
    params=[
        "memory",
        "amqtt",
        pytest.param(
            "mosquitto",
            marks=pytest.mark.skipif(not HAVE_MOSQUITTO, reason="mosquitto is not installed"),
        ),
    ]
)
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[World]:
    made: World
    if request.param == "memory":
        made = InMemory()
    elif request.param == "amqtt":
        made = Embedded()
    else:
        made = Mosquitto(tmp_path)
    await made.up()
    yield made
    await made.down()


class Heard(list[tuple[str, bytes, bool]]):
    """What a handler got; `until` waits for it."""

    def take(self, topic: str, payload: bytes, retained: bool) -> None:
        self.append((topic, payload, retained))

    async def until(self, wanted: Callable[[Heard], bool]) -> None:
        await until(lambda: wanted(self))


@pytest.fixture
async def opened(world: World) -> AsyncIterator[Callable[..., Awaitable[Bus]]]:
    """Opens clients that are connected, and closes them."""
    clients: list[Bus] = []

    async def open_one(name: str, *patterns: tuple[str, Heard], **letters: Letter) -> Bus:
        bus = world.client(name, **letters)
        for pattern, heard in patterns:
            bus.subscribe(pattern, heard.take)
        clients.append(bus)
        await bus.start()
        await until(lambda: bus.connected)
        return bus

    yield open_one
    for bus in clients:
        await bus.close()


async def test_messages_reach_matching_patterns_in_order(opened: Any) -> None:
    heard, other = Heard(), Heard()
    await opened("b", ("hall/+/status", heard), ("else/#", other))
    sender = await opened("a")
    for i in range(20):
        assert await sender.publish(f"hall/n{i % 2}/status", str(i).encode())
    await heard.until(lambda h: len(h) >= 20)
    assert [int(payload) for _, payload, _ in heard] == list(range(20))
    assert other == []


async def test_a_retained_message_is_flagged_for_whoever_comes_later(opened: Any) -> None:
    early, late = Heard(), Heard()
    await opened("b", ("x/#", early))
    sender = await opened("a")
    assert await sender.publish("x/y", b"kept", qos=1, retain=True)
    await early.until(lambda h: len(h) == 1)
    assert early[0] == ("x/y", b"kept", False)
    receiver = await opened("c", ("x/#", late))
    await late.until(bool)
    assert late == [("x/y", b"kept", True)]
    later_still = Heard()
    receiver.subscribe("x/y", later_still.take)
    await later_still.until(bool)
    assert later_still[0] == ("x/y", b"kept", True)
    assert await sender.publish("x/y", b"", qos=1, retain=True)


async def test_without_a_broker_nothing_is_sent_then_or_later(world: World, opened: Any) -> None:
    heard = Heard()
    receiver = await opened("b", ("x/#", heard))
    sender = await opened("a")
    await world.down()
    await until(lambda: not sender.connected and not receiver.connected)
    assert await sender.publish("x/lost", b"1") is False
    await world.up()
    await until(lambda: sender.connected and receiver.connected)
    assert await sender.publish("x/new", b"2")
    await heard.until(bool)
    assert heard == [("x/new", b"2", False)]


async def test_every_return_of_the_broker_brings_the_subscriptions_back(
    world: World, opened: Any
) -> None:
    heard = Heard()
    receiver = await opened("b", ("x/#", heard))
    sender = await opened("a")
    for i in range(3):
        await world.down()
        await until(lambda: not sender.connected and not receiver.connected)
        await world.up()
        await until(lambda: sender.connected and receiver.connected)
        assert await sender.publish("x/y", str(i).encode())
        await heard.until(lambda h, i=i: len(h) == i + 1)  # type: ignore[misc]


async def test_many_clients_that_come_back_at_once_all_hear_again(
    world: World, opened: Any
) -> None:
    heard = [Heard() for _ in range(24)]
    clients = [
        await opened(f"c{i}", (f"n/{i}", heard[i]), birth=Letter(f"up/{i}", b"online"))
        for i in range(len(heard))
    ]
    sender = await opened("a", *((f"up/{i}", Heard()) for i in range(len(heard))))
    await world.down()
    await until(lambda: not any(client.connected for client in (*clients, sender)))
    await world.up()
    await until(lambda: all(client.connected for client in (*clients, sender)))
    for i in range(len(heard)):
        assert await sender.publish(f"n/{i}", b"1")
    await until(lambda: all(heard))


async def test_a_bus_started_before_its_broker_connects_when_it_comes(world: World) -> None:
    await world.down()
    bus = world.client("a")
    await bus.start()
    await asyncio.sleep(0.1)
    assert not bus.connected
    await world.up()
    await until(lambda: bus.connected)
    await bus.close()
    assert not bus.connected
    assert await bus.publish("x", b"") is False


async def test_birth_on_each_connection_and_the_will_when_a_client_vanishes(
    world: World, opened: Any
) -> None:
    heard = Heard()
    await opened("b", ("n/avail", heard))
    letters = {"birth": Letter("n/avail", b"online"), "will": Letter("n/avail", b"offline")}
    client = await opened("a", **letters)
    await heard.until(lambda h: [p for _, p, _ in h] == [b"online"])
    world.vanish(client)
    await heard.until(lambda h: b"offline" in [p for _, p, _ in h])


async def test_a_clean_close_sends_no_will(opened: Any) -> None:
    heard = Heard()
    await opened("b", ("n/#", heard))
    client = await opened("a", will=Letter("n/avail", b"offline"))
    await client.close()
    other = await opened("c")
    assert await other.publish("n/end", b"")
    await heard.until(bool)
    assert heard == [("n/end", b"", False)]


async def test_a_handler_that_fails_does_not_cut_off_the_others(world: World, opened: Any) -> None:
    if isinstance(world, InMemory):
        return
    heard = Heard()

    def broken(topic: str, payload: bytes, retained: bool) -> None:
        raise RuntimeError("a bug")

    receiver = await opened("b")
    receiver.subscribe("x", broken)
    receiver.subscribe("x", heard.take)
    await asyncio.sleep(0.1)
    await receiver.publish("x", b"1")
    await heard.until(bool)


@pytest.mark.parametrize("topic", ["", "a/+/b", "a/#", "a\0b"])
async def test_what_is_no_topic_is_refused(opened: Any, topic: str) -> None:
    bus = await opened("a")
    with pytest.raises(ValueError, match="not an MQTT topic"):
        await bus.publish(topic, b"")


@pytest.mark.parametrize("pattern", ["", "a#", "a/#/b", "a+/b"])
async def test_what_is_no_pattern_is_refused(opened: Any, pattern: str) -> None:
    bus = await opened("a")
    with pytest.raises(ValueError, match="topic filter"):
        bus.subscribe(pattern, lambda *_: None)
