"""docs/bacnet.md, run as it is written: the message is published, the table is what is read."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import pytest
import yaml

from drivers.address import parse_address
from drivers.catalog import profiles
from drivers.known import DriverKnowledge
from drivers.mqtt.device import MqttDevice
from drivers.mqtt.memory import MemoryBroker, MemoryBus
from drivers.profile.binding import bind
from facility.clock import LoopClock
from facility.config import Broker, DeviceConfig
from facility.points import Flaw, Grade
from tests.conftest import ROOT
from tests.drivers.agent.rig import START_MS, in_virtual_time
from tests.drivers.mqtt.test_device import look

PAGE = (ROOT / "docs" / "bacnet.md").read_text("utf-8")


def block(language: str) -> str:
    """The one code block of a language."""
    found = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    assert len(found) == 1
    return str(found[0])


def table() -> dict[str, float | None]:
    """The readings that the page promises."""
    rows = re.findall(r"^\| ([a-z.]+:[a-z_]+) \| (\S+) \|$", PAGE, re.MULTILINE)
    assert len(rows) >= 7
    return {point: None if value == "missing" else float(value) for point, value in rows}


def test_the_documented_facility_file_makes_the_device() -> None:
    tree = yaml.safe_load(block("yaml"))
    config = DeviceConfig.model_validate(tree["devices"]["cdu-1"])
    assert DriverKnowledge.shipped().device_fault(config) is None
    assert config.broker in tree["brokers"]
    assert Broker.model_validate(tree["brokers"][config.broker]).auth in tree["auth"]
    assert parse_address(config.address).topic in PAGE.replace(config.address, "")


def test_the_documented_message_reads_as_the_documented_table() -> None:
    async def work() -> None:
        tree = yaml.safe_load(block("yaml"))["devices"]["cdu-1"]
        topic = parse_address(tree["address"]).topic
        clock = LoopClock(asyncio.get_running_loop(), START_MS)
        bus = MemoryBus(MemoryBroker())
        device = MqttDevice(bind(profiles()[tree["profile"]], "cdu-1"), bus, clock, topic)
        await bus.start()
        body: dict[str, Any] = json.loads(block("json"))
        body["timestamp"] = clock.utc_ms()
        await bus.publish(topic, json.dumps(body).encode())
        await asyncio.sleep(0.01)
        seen = await look(device)
        for point, wanted in table().items():
            value, grade, flaw = seen[point]
            if wanted is None:
                assert (grade, flaw) == (Grade.BAD, Flaw.REFUSED)
            else:
                assert value == pytest.approx(wanted)
                assert grade is Grade.GOOD
        await bus.publish(topic.rpartition("/")[0] + "/availability", b"offline")
        await asyncio.sleep(0.01)
        assert {flaw for _, _, flaw in (await look(device)).values()} == {Flaw.STALE}

    in_virtual_time(work)
