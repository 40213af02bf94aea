"""Brokers that restart, stall, keep old sessions or give our name away: cases 36 to 42."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import resource
import socket
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiomqtt
import pytest
from structlog.testing import capture_logs

from drivers.mqtt.bus import MqttBus
from drivers.mqtt.device import MqttDevice
from drivers.mqtt.latest import Latest
from drivers.profile.binding import bind
from facility.clock import SystemClock
from facility.points import Flaw, Grade
from tests.drivers.agent.rig import until
from tests.drivers.faults import deeds
from tests.drivers.faults.proxy import tcp_proxy
from tests.drivers.mqtt.mosquitto import MISSING, Mosquitto, mosquitto
from tests.drivers.mqtt.test_device import look, profile

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(MISSING, reason="mosquitto is not installed"),
]
TOPIC = "hall/r1/in"


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Mosquitto]:
    async with mosquitto(tmp_path) as running:
        yield running


@contextlib.asynccontextmanager
async def client(address: str, **more: Any) -> AsyncIterator[MqttBus]:
    more = {"name": "t", "keepalive_s": 1, "rng": random.Random(), **more}
    bus = MqttBus(address, clock=SystemClock(), **more)
    await bus.start()
    try:
        yield bus
    finally:
        await bus.close()


def sensor(bus: MqttBus) -> MqttDevice:
    shape = profile("sensor/json-mqtt")
    return MqttDevice(bind(shape, "in-1", period_s=0.2), bus, SystemClock(), TOPIC)


async def say(bus: MqttBus, celsius: float, *, retain: bool = False) -> None:
    await bus.publish(TOPIC, json.dumps({"temperature_c": celsius}).encode(), retain=retain)


async def temperature(device: MqttDevice) -> tuple[float, Grade, Flaw]:
    return (await look(device))["inlet:temperature"]


async def good(device: MqttDevice, celsius: float, within_s: float) -> None:
    """Wait until this value is read and believed."""
    end_s = asyncio.get_running_loop().time() + within_s
    while (seen := await temperature(device))[:2] != (celsius, Grade.GOOD):
        assert asyncio.get_running_loop().time() < end_s, seen
        await asyncio.sleep(0.01)


async def test_a_broker_that_restarts_is_heard_again_with_the_first_message(
    broker: Mosquitto,
) -> None:
    """Case 36: telegraf#6232, #16038, #16293: connected, and deaf."""
    async with client(broker.address) as bus, client(broker.address) as other:
        device = sensor(bus)
        for i in range(3):
            await until(lambda: bus.connected and other.connected)
            await say(other, 20.0 + i)
            await good(device, 20.0 + i, within_s=2.0)
            await broker.down()
            await until(lambda: not bus.connected and not other.connected)
            await broker.up()
        assert bus.connections >= 3


async def test_a_session_of_an_earlier_life_brings_no_topics_back(broker: Mosquitto) -> None:
    """Case 37: telegraf#9703: the topics had changed, the broker knew only the old ones."""
    async with aiomqtt.Client(
        "127.0.0.1", broker.port, identifier="ours", clean_session=False
    ) as old:
        await old.subscribe("old/#", qos=1)
    heard: list[str] = []
    async with client(broker.address) as other, client(broker.address, identifier="ours") as bus:
        await until(lambda: other.connected)
        bus.subscribe("new/#", lambda topic, *_: heard.append(topic))
        await until(lambda: bus.connected)
        await other.publish("old/1", b"1", qos=1)
        await other.publish("new/1", b"1", qos=1)
        await until(lambda: "new/1" in heard)
    assert heard == ["new/1"]


async def test_a_half_open_link_is_stale_at_once_and_left_within_two_keepalives(
    broker: Mosquitto,
) -> None:
    """Case 38: MQTTnet#2248: "connected" for 17 hours; aiomqtt#326."""
    clock = SystemClock()
    async with (
        tcp_proxy(broker.port) as proxy,
        client(f"mqtt://127.0.0.1:{proxy.port}") as bus,
        client(broker.address) as other,
    ):
        device = sensor(bus)
        await until(lambda: bus.connected and other.connected)
        await say(other, 21.0)
        await good(device, 21.0, within_s=2.0)
        proxy.to_server = proxy.to_client = deeds.silent
        began_s = clock.monotonic_s()
        await until(lambda: not bus.connected)
        assert clock.monotonic_s() - began_s < 2.0 * 1.0 + 1.5  # its timer ticks once a second
        # Statements of five periods are good for one second here, kept from the profile's rule.
        await until(lambda: clock.monotonic_s() - began_s > 5.2)
        assert (await temperature(device))[1:] == (Grade.BAD, Flaw.STALE)
        proxy.heal()
        await until(lambda: bus.connected)
        await say(other, 22.0)
        await good(device, 22.0, within_s=2.0)


async def test_a_retained_value_is_not_taken_for_the_present_after_a_start(
    broker: Mosquitto,
) -> None:
    """Case 39: home-assistant/core#6705: the last value was shown for ever."""
    async with client(broker.address) as other:
        await until(lambda: other.connected)
        await say(other, 19.0, retain=True)
        async with client(broker.address) as bus:
            device = sensor(bus)
            await until(lambda: bus.connected)
            slot = device._latest.watch(TOPIC)
            await until(lambda: slot.newest is not None)
            assert await temperature(device) == (19.0, Grade.SUSPECT, Flaw.RETAINED)
            await say(other, 20.0)
            await good(device, 20.0, within_s=2.0)


def _flood(port: int, messages: int, per_s: float, done: threading.Event) -> None:
    """Publish at a pace, as a client of the plainest sort."""
    pause = threading.Event()
    with socket.create_connection(("127.0.0.1", port)) as wire:
        wire.sendall(b"\x10\x10\x00\x04MQTT\x04\x02\x00\x3c\x00\x04loud")
        wire.recv(4)
        for i in range(messages):
            body = b"\x00\x09loud/chat" + json.dumps({"n": i, "pad": "x" * 200}).encode()
            size = len(body)
            wire.sendall(b"\x30" + bytes((size & 127 | 128, size >> 7)) + body)
            if i % 10 == 9:
                pause.wait(10.0 / per_s)
        wire.sendall(b"\xe0\x00")
    done.set()


@pytest.mark.parametrize(
    ("messages", "per_s", "stall_s"),
    [(3_000, 1e6, 1.0), pytest.param(30_000, 500.0, 10.0, marks=pytest.mark.soak)],
    ids=["a burst", "500 a second for a minute"],
)
async def test_a_chatty_topic_neither_grows_nor_starves_others_while_we_stall(
    broker: Mosquitto, messages: int, per_s: float, stall_s: float
) -> None:
    """Case 40: aiomqtt#250, zMQTT#33; bounded queues dropped the newest, unbounded ones grew."""
    before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    async with (
        client(broker.address, keepalive_s=10) as bus,
        client(broker.address, keepalive_s=10) as other,
    ):
        latest = Latest(bus, SystemClock())
        loud, calm = latest.watch("loud/chat"), latest.watch("calm/word")
        await until(lambda: bus.connected and other.connected)
        await other.publish("calm/word", b"1")
        await until(lambda: calm.newest is not None)
        done = threading.Event()
        thread = threading.Thread(target=_flood, args=(broker.port, messages, per_s, done))
        thread.start()
        done.wait(stall_s)  # on purpose in the loop: our process does nothing else for this long
        await until(lambda: other.connected)
        await other.publish("calm/word", b"2")
        await until(done.is_set, within_s=90.0)
        thread.join()
        await until(lambda: calm.newest is not None and calm.newest.payload == b"2")
        await other.publish("loud/chat", b'{"n": -1}')
        await until(lambda: loud.newest is not None and loud.newest.body == {"n": -1})
        assert latest.bytes < 100
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib < 20 * 1024
        assert bus._link is not None
        assert bus._link._client._queue.qsize() == 0


async def rival(port: int, identifier: str, logins: list[float]) -> None:
    """Another program with our identifier, which comes back at once each time it is thrown out."""
    while True:
        with contextlib.suppress(aiomqtt.MqttError):
            async with aiomqtt.Client("127.0.0.1", port, identifier=identifier) as other:
                logins.append(asyncio.get_running_loop().time())
                async for _ in other.messages:
                    pass
        await asyncio.sleep(0.02)


async def test_two_clients_of_one_name_do_not_throw_each_other_out_for_ever(
    broker: Mosquitto,
) -> None:
    """Case 41: zMQTT#34: session taken over, the reader silently dead."""
    logins: list[float] = []
    with capture_logs() as logs:
        async with client(broker.address, identifier="ours") as bus:
            await until(lambda: bus.connected)
            task = asyncio.create_task(rival(broker.port, "ours", logins))
            await asyncio.sleep(4.0)
            in_fight = bus.connections
            task.cancel()
            await asyncio.wait({task})
    assert in_fight <= 4
    said = [entry for entry in logs if "another client" in entry["event"]]
    assert len(said) == 1
    assert said[0]["identifier"] == "ours"


async def test_who_may_choose_a_new_name_gives_way_and_is_heard(broker: Mosquitto) -> None:
    """Case 41, where the broker does not know us by our identifier."""
    async with client(broker.address) as bus:
        await until(lambda: bus.connected)
        logins: list[float] = []
        task = asyncio.create_task(rival(broker.port, bus._identifier, logins))
        await until(lambda: bus.connections >= 4, within_s=15.0)
        connections = bus.connections
        await asyncio.sleep(0.5)
        assert bus.connected
        assert bus.connections == connections
        task.cancel()
        await asyncio.wait({task})


async def test_a_link_on_which_nobody_is_heard_is_made_anew_and_that_is_said_once(
    broker: Mosquitto,
) -> None:
    """Case 36 again: the broker answers pings, and forwards nothing."""
    with capture_logs() as logs:
        async with (
            client(broker.address, silence_s=0.2, rng=random.Random(1)) as bus,
            client(broker.address) as other,
        ):
            device = sensor(bus)
            await until(lambda: bus.connections >= 3)
            await until(lambda: bus.connected and other.connected)
            for _ in range(200):
                await say(other, 21.0)
                await asyncio.sleep(0.02)
                if (await temperature(device))[1] is Grade.GOOD:
                    break
            assert (await temperature(device))[1] is Grade.GOOD
    events = [entry["event"] for entry in logs]
    assert events.count("broker lost") == 1
    assert events.count("devices are heard again") == 1
    assert next(e for e in logs if e["event"] == "broker lost")["reason"].startswith("nothing")
