"""What a broker says to a login and to a subscription, byte by byte."""

from __future__ import annotations

import asyncio
import random

import pytest
from structlog.testing import capture_logs

from drivers.mqtt.bus import MqttBus
from facility.clock import SystemClock
from tests.drivers.agent.rig import until


async def test_refused_topics_and_a_session_that_was_kept_are_named() -> None:
    """Access rules that keep us from reading, and case 37 on a broker that ignores our wish."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(200)
        writer.write(b"\x20\x02\x01\x00")  # accepted, session present
        while packet := await reader.read(500):
            if packet[0] == 0x82:  # SUBSCRIBE: the first topic granted, the second refused
                writer.write(b"\x90\x04" + packet[2:4] + b"\x00\x80")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    bus = MqttBus(f"mqtt://127.0.0.1:{port}", name="a", clock=SystemClock(), rng=random.Random(1))
    bus.subscribe("ours/1", lambda *_: None)
    bus.subscribe("theirs/1", lambda *_: None)
    with capture_logs() as logs:
        await bus.start()
        await until(lambda: bus.connected)
        assert bus.refused == {"theirs/1"}
        await bus.close()
    server.close()
    said = {entry["event"]: entry for entry in logs}
    assert said["broker refuses topics"]["topics"] == ["theirs/1"]
    assert "broker kept an old session" in said


async def test_a_broker_that_sends_all_it_keeps_before_it_answers_is_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """50,000 points of a BMS took longer than a login may, so none ever succeeded."""
    monkeypatch.setattr("drivers.mqtt.link.CONNECT_S", 0.3)
    logins = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal logins
        logins += 1
        await reader.read(200)
        writer.write(b"\x20\x02\x00\x00")
        while packet := await reader.read(500):
            if packet[0] == 0x82:
                for i in range(8):
                    writer.write(b"\x31\x05\x00\x03a/%d" % i)
                    await asyncio.sleep(0.1)
                if logins == 1:
                    break  # and one that hangs up meanwhile is not waited for
                writer.write(b"\x90\x03" + packet[2:4] + b"\x00")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    bus = MqttBus(f"mqtt://127.0.0.1:{port}", name="a", clock=SystemClock(), rng=random.Random(1))
    heard: list[str] = []
    bus.subscribe("a/+", lambda topic, payload, retained: heard.append(topic))
    await bus.start()
    await until(lambda: bus.connected, within_s=5.0)
    assert (logins, len(heard)) == (2, 16)
    await bus.close()
    server.close()
