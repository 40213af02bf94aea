"""Simulated nodes run the real agent; simulated sensors speak through their profile."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from drivers.agent.lease import State
from drivers.catalog import profiles
from drivers.mqtt.addressing import Letter
from drivers.mqtt.device import MqttDevice
from drivers.mqtt.memory import MemoryBroker, MemoryBus
from drivers.node import NodeDevice, keep_leases
from drivers.profile.binding import bind
from drivers.sim.agents import SimAgents
from drivers.sim.nvml import PlantNvml
from drivers.sim.publish import TWIN_ADDRESS, publish_sensors
from facility.clock import LoopClock
from facility.commands import Command, Outcome
from facility.loading import load_text
from facility.points import PointId
from tests.drivers.agent.rig import START_MS, in_virtual_time

FILE = """
facility: 1
site: {name: s, timezone: UTC}
power:
  elements: {u: {kind: source}}
  racks: {r01: {feeds: {a: u}, rating: 10 kW}}
nodes:
  n01: {rack: r01, gpus: 2, gpu: h100, min_cap: 200 W, max_cap: 700 W, fallback: 350 W}
  n02: {rack: r01, gpus: 2, gpu: h100, min_cap: 200 W, max_cap: 700 W, fallback: 300 W}
devices:
  in-1: {profile: sensor/json-mqtt, address: "mqtt:hall/r01/in", measures: {rack: r01}}
"""


@dataclass
class Boards:
    """A plant of boards whose draw is their limit, and of one sensor."""

    limits: dict[tuple[str, int], float] = field(default_factory=dict)
    readings: dict[tuple[str, str, str], float] = field(default_factory=dict)

    def gpu_reading(self, node: str, i: int) -> Any:
        limit_w = self.limits.get((node, i), 700.0)
        return SimpleNamespace(
            power_w=limit_w, temperature_c=60.0, margin_k=25.0, limit_w=limit_w,
            enforced_w=limit_w, clock_hz=1.7e9, event_bits=4, min_w=200.0, max_w=700.0,
            default_w=700.0, uuid=f"GPU-{node}-{i}",
        )  # fmt: skip

    def set_gpu_limit(self, node: str, i: int, watts: float) -> None:
        self.limits[node, i] = watts

    def tokens(self, node: str) -> tuple[float, float, float, float]:
        return (10.0, 20.0, 3.0, 4.0)

    def value(self, device: str, part: str, kind: str) -> float | None:
        return self.readings.get((device, part, kind))

    def write(
        self,
        device: str,
        part: str,
        kind: str,
        value: float,
        *,
        falls_back: tuple[float, float] | None = None,
    ) -> None:
        raise AssertionError("nobody writes a sensor")

    def device_health(self, device: str) -> str:
        return "ok"


class Hall:
    """Two nodes and a sensor on a bus in memory."""

    def __init__(self) -> None:
        self.clock = LoopClock(asyncio.get_running_loop(), START_MS)
        self.plant, self.broker = Boards(), MemoryBroker()
        self.facility = load_text(FILE).facility
        self.agents = SimAgents(self.plant, self.facility, self.client, self.clock)
        self.bus = MemoryBus(self.broker)
        self.nodes = {
            name: NodeDevice(name, node, self.bus, self.clock)
            for name, node in self.facility.nodes.items()
        }

    def client(self, name: str, birth: Letter, will: Letter) -> MemoryBus:
        return MemoryBus(self.broker, birth=birth, will=will)

    async def start(self) -> asyncio.Task[None]:
        await self.bus.start()
        await self.agents.start()
        keeper = asyncio.create_task(keep_leases([*self.nodes.values()], lambda: ("c1", 1)))
        await asyncio.sleep(3.0)
        return keeper

    async def cap(self, node: str, watts: float, sequence: int) -> Outcome:
        point = PointId(node, "total", "power_cap")
        now_ms = self.clock.utc_ms()
        return (
            await self.nodes[node].write(Command(point, watts, sequence, 1, now_ms, 2.0, "t"))
        ).outcome

    def limits(self, node: str) -> list[float]:
        return [self.plant.gpu_reading(node, i).limit_w for i in range(2)]


def test_agents_start_at_their_fallback_and_obey_whoever_leads() -> None:
    async def work() -> None:
        hall = Hall()
        await hall.start()
        assert (hall.limits("n01"), hall.limits("n02")) == ([350.0] * 2, [300.0] * 2)
        assert await hall.cap("n01", 500.0, 1) is Outcome.APPLIED
        assert await hall.cap("n02", 900.0, 1) is Outcome.CLAMPED
        assert (hall.limits("n01"), hall.limits("n02")) == ([500.0] * 2, [700.0] * 2)
        await asyncio.sleep(1.5)
        node = hall.nodes["n01"]
        scan = await node.read(node.layouts[0])
        value = {str(p.id): v for p, v in zip(scan.layout.points, scan.values, strict=True)}
        assert value["n01:total:active_power"] == 1000.0
        assert value["n01:total:tokens_generated"] == 20.0
        await hall.agents.stop()
        assert hall.agents.running == ()

    in_virtual_time(work)


def test_a_killed_agent_comes_back_holding_and_is_led_again() -> None:
    async def work() -> None:
        hall = Hall()
        await hall.start()
        await hall.cap("n01", 500.0, 1)
        await hall.agents.kill("n01")
        assert hall.agents.running == ("n02",)
        await asyncio.sleep(30.0)
        assert hall.nodes["n01"].status is None
        assert hall.limits("n01") == [500.0, 500.0]
        await hall.agents.restart("n01")
        await asyncio.sleep(4.0)
        status = hall.nodes["n01"].status
        assert status is not None
        assert status.state is State.LEASED
        assert hall.limits("n01") == [500.0, 500.0]
        assert await hall.cap("n01", 450.0, 2) is Outcome.APPLIED

    in_virtual_time(work)


def test_a_rebooted_node_comes_up_at_its_fallback() -> None:
    async def work() -> None:
        hall = Hall()
        await hall.start()
        await hall.cap("n01", 600.0, 1)
        await hall.agents.restart("n01", reboot=True)
        await asyncio.sleep(0.01)
        assert hall.limits("n01") == [350.0, 350.0]

    in_virtual_time(work)


def test_the_simulated_driver_refuses_what_is_out_of_range() -> None:
    async def work() -> None:
        plant = Boards()
        nvml = PlantNvml(plant, "n01", 2)
        assert (await nvml.set_limit("GPU-n01-0", 100.0)).fault == "out_of_range"
        assert (await nvml.set_limit("GPU-n09-0", 400.0)).fault == "gpu_lost"
        assert (await nvml.read("GPU-n09-0")).fault == "gpu_lost"
        assert plant.limits == {}
        answer = await nvml.set_limit("GPU-n01-1", 400.0)
        assert (answer.limit_w, answer.fault) == (400.0, None)

    in_virtual_time(work)


def test_sensors_and_the_twin_are_published_each_second() -> None:
    async def work() -> None:
        hall = Hall()
        hall.plant.readings = {
            ("in-1", "inlet", "temperature"): 24.5,
            ("in-1", "inlet", "humidity"): 0.4,
            ("twin", "total", "energy"): 123.0,
            ("twin", "total", "tokens_generated"): 9.0,
        }
        known = profiles()
        sensor = MqttDevice(
            bind(known["sensor/json-mqtt"], "in-1"), hall.bus, hall.clock, "hall/r01/in"
        )
        twin = MqttDevice(
            bind(known["sim/twin"], "twin"),
            hall.bus,
            hall.clock,
            TWIN_ADDRESS.removeprefix("mqtt:"),
        )
        await hall.bus.start()
        task = asyncio.create_task(
            publish_sensors(hall.plant, hall.facility, hall.bus, hall.clock, known)
        )
        await asyncio.sleep(1.2)
        seen = await sensor.read(sensor.layouts[0])
        assert list(seen.values[:2]) == [24.5, 0.4]
        compared = await twin.read(twin.layouts[0])
        assert list(compared.values[:2]) == [9.0, 123.0]
        hall.plant.readings["in-1", "inlet", "temperature"] = 26.0
        await asyncio.sleep(1.1)
        assert (await sensor.read(sensor.layouts[0])).values[0] == 26.0
        task.cancel()

    in_virtual_time(work)
