from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable

from drivers.sim import scenarios
from drivers.sim.faults import Event
from drivers.sim.harness import VirtualHall
from drivers.sim.plant.instruments import ServedPlant
from drivers.sim.scenarios import Scenario
from facility.clock import LoopClock, VirtualTimeLoop
from facility.points import GOOD
from tests.drivers.sim.halls import demo_hall

NODES = ("r01-n1", "r01-n2", "r05-n1", "r05-n2")

Work = Callable[[VirtualHall], Awaitable[None]]


def in_virtual_time(
    scenario: Scenario, duration_s: float, work: Work, seen: list[Event] | None = None
) -> VirtualHall:
    loop = VirtualTimeLoop()
    whole = demo_hall()
    facility = whole.model_copy(update={"nodes": {n: whole.nodes[n] for n in NODES}})

    async def owner(event: Event) -> None:
        if seen is not None:
            seen.append(event)

    async def main() -> VirtualHall:
        clock = LoopClock(loop, 1_780_000_000_000)
        hall = VirtualHall(facility, 1, scenario, duration_s, clock, owner)
        running = asyncio.create_task(hall.run())
        try:
            await work(hall)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
        return hall

    try:
        return loop.run_until_complete(main())
    finally:
        loop.close()


def test_the_world_moves_with_virtual_time_and_agents_report() -> None:
    statuses: dict[str, bytes] = {}

    async def work(hall: VirtualHall) -> None:
        bus = hall.bus()
        bus.subscribe("wattkeeper/#", lambda t, p, _: statuses.__setitem__(t, p))
        bus.subscribe("hall/#", lambda t, p, _: statuses.__setitem__(t, p))
        await bus.start()
        await asyncio.sleep(10.0)
        assert abs(hall.world.seconds - 10.0) < 0.15
        assert len(hall.agents.running) == 4
        scans = [await d.read(d.layouts[0]) for d in hall.devices()]
        assert len(scans) == 24
        for scan in scans:
            assert (scan.quality == GOOD).mean() > 0.8, scan.layout.device

    in_virtual_time(scenarios.load("steady"), 60.0, work)
    assert sum("r05-n2/status" in topic for topic in statuses) == 1
    assert "temperature_c" in json.loads(statuses["hall/r08/low"])


def test_the_broker_stops_and_comes_back() -> None:
    async def work(hall: VirtualHall) -> None:
        bus = hall.bus()
        await bus.start()
        await asyncio.sleep(15.0)
        assert not bus.connected
        await asyncio.sleep(10.0)
        assert bus.connected

    in_virtual_time(scenarios.load("broker-loss"), 30.0, work)


def test_the_controllers_owner_is_told_to_kill_it() -> None:
    seen: list[Event] = []

    async def work(hall: VirtualHall) -> None:
        await asyncio.sleep(20.0)

    in_virtual_time(scenarios.load("controller-loss"), 20.0, work, seen)
    assert [(e.kind, e.active) for e in seen] == [
        ("controller_killed", True),
        ("controller_killed", False),
    ]


def test_killed_agents_leave_their_caps_and_come_back() -> None:
    scenario = Scenario.model_validate(
        {"name": "t", "about": "T.", "faults": [{"kind": "agent_killed", "count": 2}]}
    )

    async def work(hall: VirtualHall) -> None:
        plant: ServedPlant = hall.world.plant
        await asyncio.sleep(8.0)
        before = plant.gpu_reading("r01-n1", 0).limit_w
        await asyncio.sleep(7.0)
        assert len(hall.agents.running) == 2
        assert "r01-n1" not in hall.agents.running
        assert plant.gpu_reading("r01-n1", 0).limit_w == before
        await asyncio.sleep(10.0)
        assert len(hall.agents.running) == 4

    in_virtual_time(scenario, 30.0, work)


def test_a_dark_rack_has_no_agents_and_boots_to_its_fallback() -> None:
    scenario = Scenario.model_validate(
        {
            "name": "t",
            "about": "T.",
            "faults": [
                {"kind": "element_lost", "named": "row1-a"},
                {"kind": "element_lost", "named": "row1-b"},
            ],
        }
    )

    async def work(hall: VirtualHall) -> None:
        plant: ServedPlant = hall.world.plant
        for i in range(8):
            plant.set_gpu_limit("r01-n1", i, 600.0)
        await asyncio.sleep(9.0)
        assert len(hall.agents.running) == 2
        assert plant.gpu_reading("r01-n1", 0).power_w == 0.0
        await asyncio.sleep(36.0)
        assert len(hall.agents.running) == 4
        assert plant.gpu_reading("r01-n1", 0).limit_w == 350.0
        assert plant.gpu_reading("r01-n1", 0).power_w > 300.0

    in_virtual_time(scenario, 15.0, work)
