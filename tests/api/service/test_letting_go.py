"""Giving nodes back in turns: real agents on a bus in memory, under virtual time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from api.service.letting_go import AGAIN_S, TRIES, LettingGo, amount, at_risk, spoken
from controllers.headroom import study
from drivers.agent.agent import Agent, Settings
from drivers.agent.lease import State
from drivers.agent.state import MemoryState
from drivers.mqtt.memory import MemoryBroker, MemoryBus
from drivers.node import NodeDevice, keep_leases
from facility.clock import LoopClock
from facility.config import Facility
from facility.loading import load_text
from facility.topology import Topology
from tests.drivers.agent.rig import START_MS, Gpus, in_virtual_time

CAP_W = 400.0
RISE_W = 2 * (700.0 - CAP_W)

TEXT = """
facility: 1
site: {name: t, timezone: UTC, ramp: 6 kW/min}
power:
  elements:
    grid: {kind: source, rating: 1 MW}
  racks:
    r01: {rating: 100 kW, feeds: {a: grid}}
nodes:
"""

RISKY = """
facility: 1
site: {name: t, timezone: UTC}
power:
  elements:
    grid-a: {kind: source}
    grid-b: {kind: source}
    row-a: {kind: busway, fed_by: [grid-a], rating: 10 kW}
    row-b: {kind: busway, fed_by: [grid-b], rating: 10 kW}
  racks:
    r01: {rating: 30 kW, feeds: {a: row-a, b: row-b}}
"""


def facility_of(count: int) -> Facility:
    rows = [
        f"  n{i:02d}: {{rack: r01, gpus: 2, gpu: h100, min_cap: 200 W, max_cap: 700 W}}\n"
        for i in range(count)
    ]
    return load_text(TEXT + "".join(rows), "hall.yaml").facility


@dataclass
class Hall:
    """Nodes at 400 W a GPU under a lease, and their supervised release."""

    nodes: dict[str, NodeDevice]
    gpus: dict[str, Gpus]
    letting_go: LettingGo
    agents: dict[str, asyncio.Task[None]]

    @classmethod
    async def start(cls, count: int, deaf: Sequence[str] = ()) -> Hall:
        facility, broker = facility_of(count), MemoryBroker()
        clock = LoopClock(asyncio.get_running_loop(), START_MS)
        bus = MemoryBus(broker)
        nodes = {
            name: NodeDevice(name, node, bus, clock, prefix="wk")
            for name, node in facility.nodes.items()
        }
        await bus.start()
        gpus = {name: Gpus.of(2, limit_w=700.0) for name in nodes}
        agents = {}
        for i, name in enumerate(nodes):
            settings = Settings(name, "wk", "boot-1", CAP_W, None)
            agent = Agent(
                gpus[name], MemoryBus(broker), clock, MemoryState(), settings, random.Random(i)
            )
            agents[name] = asyncio.create_task(agent.run())
        letting_go = LettingGo(nodes, facility)
        leases = asyncio.create_task(keep_leases(list(nodes.values()), lambda: ("c1", 1)))
        going = asyncio.create_task(letting_go.run())
        agents["leases"], agents["going"] = leases, going
        await asyncio.sleep(5.0)
        for name in deaf:
            agents[name].cancel()
        return cls(nodes, gpus, letting_go, agents)

    def released(self) -> list[str]:
        return [name for name, gpus in self.gpus.items() if gpus.limits == [700.0, 700.0]]

    def total_w(self) -> float:
        return sum(sum(gpus.limits) for gpus in self.gpus.values())


def test_a_big_hall_released_at_once_would_be_the_largest_load_step() -> None:
    async def work() -> None:
        hall = await Hall.start(40)
        everyone = list(hall.nodes.values())
        told = hall.letting_go.preview("hall", everyone, ["loop-1"])
        assert told.moves_w == 40 * RISE_W
        assert "40 nodes return to their own limits over about 8 min" in told.text
        assert "up to 24 kW" in told.text
        hall.letting_go.add(everyone)
        seen = [hall.total_w()]
        for _ in range(520):
            await asyncio.sleep(1.0)
            seen.append(hall.total_w())
            assert seen[-1] - seen[max(len(seen) - 61, 0)] <= 6000.0
        assert hall.released() == list(hall.nodes)
        assert not hall.letting_go.busy

    in_virtual_time(work)


def test_nodes_hold_their_cap_under_a_lease_until_their_turn() -> None:
    async def work() -> None:
        hall = await Hall.start(12)
        hall.letting_go.add(list(hall.nodes.values()))
        await asyncio.sleep(60.0)
        waiting = hall.letting_go.pending
        assert 0 < len(waiting) < 12
        for name in waiting:
            status = hall.nodes[name].status
            assert status is not None
            assert status.state is State.LEASED
            assert hall.gpus[name].limits == [CAP_W, CAP_W]

    in_virtual_time(work)


def test_a_node_that_does_not_answer_holds_nobody_up_and_is_asked_again() -> None:
    async def work() -> None:
        hall = await Hall.start(4, deaf=["n00"])
        await asyncio.sleep(5.0)
        everyone = list(hall.nodes.values())
        told = hall.letting_go.preview("hall", everyone, [])
        assert told.moves_w is None
        assert "1 of them are silent and may follow later: n00" in told.text
        hall.letting_go.add(everyone)
        await asyncio.sleep(60.0)
        assert hall.released() == ["n01", "n02", "n03"]
        await asyncio.sleep(TRIES * (AGAIN_S + 30.0))
        assert hall.letting_go.unanswered == {"n00"}
        assert not hall.letting_go.busy

    in_virtual_time(work)


def test_taking_control_again_stops_the_release_of_those_still_waiting() -> None:
    async def work() -> None:
        hall = await Hall.start(12)
        everyone = list(hall.nodes.values())
        hall.letting_go.add(everyone)
        await asyncio.sleep(30.0)
        hall.letting_go.keep(everyone)
        already = hall.released()
        assert 0 < len(already) < 12
        await asyncio.sleep(300.0)
        assert hall.released() == already

    in_virtual_time(work)


def test_a_restart_of_the_task_loses_no_node() -> None:
    async def work() -> None:
        hall = await Hall.start(6)
        hall.letting_go.add(list(hall.nodes.values()))
        await asyncio.sleep(10.0)
        hall.agents["going"].cancel()
        await asyncio.sleep(1.0)
        hall.agents["again"] = asyncio.create_task(hall.letting_go.run())
        await asyncio.sleep(120.0)
        assert hall.released() == list(hall.nodes)

    in_virtual_time(work)


def test_a_gpu_that_was_left_behind_is_named_until_somebody_takes_control() -> None:
    async def work() -> None:
        hall = await Hall.start(2)
        everyone = list(hall.nodes.values())
        hall.gpus["n01"].cards[1].write_fault = "timeout"
        assert "could not give back" not in hall.letting_go.preview("hall", everyone, ()).text
        hall.letting_go.add(everyone)
        await asyncio.sleep(60.0)
        assert hall.released() == ["n00"]
        assert not hall.letting_go.busy
        assert hall.gpus["n01"].limits == [700.0, CAP_W]
        text = hall.letting_go.preview("hall", everyone, ()).text
        assert "could not give back: n01 (GPU-1)" in text
        for node in everyone:
            node.resume()
        assert "could not give back" not in hall.letting_go.preview("hall", everyone, ()).text

    in_virtual_time(work)


def test_how_long_is_said_as_people_say_it() -> None:
    assert [spoken(s) for s in (0.0, 3.0, 42.0, 200.0, 1500.0)] == [
        "at once",
        "over about 5 s",
        "over about 40 s",
        "over about 3 min",
        "over about 25 min",
    ]


def test_a_second_release_reported_failure_for_nodes_already_released() -> None:
    async def work() -> None:
        hall = await Hall.start(3)
        everyone = list(hall.nodes.values())
        hall.letting_go.add(everyone)
        await asyncio.sleep(90.0)
        assert hall.released() == list(hall.nodes)
        again = hall.letting_go.preview("hall", everyone, ())
        assert again.moves_w == 0.0
        assert again.text == "The nodes are already released."
        hall.letting_go.add(everyone)
        await asyncio.sleep(TRIES * (AGAIN_S + 5.0))
        assert not hall.letting_go.busy
        assert hall.letting_go.unanswered == set()

    in_virtual_time(work)


def test_a_release_preview_names_what_would_be_overloaded() -> None:
    topology = Topology.of(load_text(RISKY, "hall.yaml").facility.power)
    text = at_risk(study(topology, np.array([12_000.0])))
    assert text == "at that maximum row-a (by 2.0 kW), row-b (by 2.0 kW) would lose N+1"
    text = at_risk(study(topology, np.array([22_000.0])))
    assert text == ("at that maximum row-a (by 1.0 kW), row-b (by 1.0 kW) would exceed its limit")
    assert at_risk(study(topology, np.array([9_000.0]))) == ""


def test_amounts_of_power_are_said_in_the_unit_that_people_use() -> None:
    assert [amount(w) for w in (0.0, 79_000.0, 1.25e6)] == ["0.0 kW", "79 kW", "1.25 MW"]
