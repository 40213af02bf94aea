"""A node in memory: GPUs that can be faulty, an agent on a bus, and a controller's side."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

from drivers.agent.agent import Agent, Settings
from drivers.agent.gpu import Board, Fault, GpuReading, LimitAnswer
from drivers.agent.state import CapState, MemoryState
from drivers.mqtt.memory import MemoryBroker, MemoryBus
from drivers.node import NodeDevice
from facility.clock import LoopClock, VirtualTimeLoop
from facility.commands import Command
from facility.config import Node
from facility.points import PointId

T = TypeVar("T")
START_MS = 1_780_000_000_000


def in_virtual_time(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine on a loop in which sleeping costs nothing."""
    loop = VirtualTimeLoop()
    try:
        return loop.run_until_complete(work())
    finally:
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()


@dataclass
class Gpu:
    """One board; `fault` answers every call, `write_fault` only the setter.

    One with a `hidden_limit` answers all but its limit; one without default tells none.
    """

    uuid: str
    limit_w: float = 700.0
    min_w: float = 200.0
    max_w: float = 700.0
    power_w: float = 500.0
    fault: Fault | None = None
    write_fault: Fault | None = None
    enforced_w: float | None = None
    hidden_limit: bool = False
    without_default: bool = False


@dataclass
class Gpus:
    """`NvmlPort` over a list of boards; the order of the list is the index."""

    cards: list[Gpu]
    writes: list[tuple[str, float]] = field(default_factory=list)

    @classmethod
    def of(cls, count: int, **values: Any) -> Gpus:
        return cls([Gpu(f"GPU-{i}", **values) for i in range(count)])

    def card(self, uuid: str) -> Gpu:
        return next(card for card in self.cards if card.uuid == uuid)

    @property
    def limits(self) -> list[float]:
        return [card.limit_w for card in self.cards]

    async def boards(self) -> list[Board]:
        return [
            Board(
                i, card.uuid, card.min_w, card.max_w, None if card.without_default else card.max_w
            )
            for i, card in enumerate(self.cards)
        ]

    async def read(self, uuid: str) -> GpuReading:
        card = self.card(uuid)
        if card.fault is not None:
            return GpuReading(fault=card.fault)
        enforced_w = card.limit_w if card.enforced_w is None else card.enforced_w
        return GpuReading(
            limit_w=None if card.hidden_limit else card.limit_w, enforced_w=enforced_w,
            power_w=card.power_w, temperature_c=55.0,
            margin_k=30.0, clock_hz=1.7e9, events=4,
        )  # fmt: skip

    async def set_limit(self, uuid: str, watts: float) -> LimitAnswer:
        card = self.card(uuid)
        if card.fault is not None:
            return LimitAnswer(None, None, card.fault)
        fault = card.write_fault
        if fault is None and not card.min_w <= watts <= card.max_w:
            fault = "out_of_range"
        if fault is None:
            self.writes.append((uuid, watts))
            card.limit_w = watts
        return LimitAnswer(card.limit_w, card.limit_w, fault)

    async def close(self) -> None:
        pass


NODE = Node(rack="r01", gpus=2, gpu="h100", min_cap="200 W", max_cap="700 W", fallback="350 W")


@dataclass
class Rig:
    """One node, its agent and its controller in one virtual loop."""

    gpus: Gpus
    clock: LoopClock
    broker: MemoryBroker
    bus: MemoryBus
    device: NodeDevice
    state: CapState
    agent: Agent | None = None
    agent_bus: MemoryBus | None = None
    task: asyncio.Task[None] | None = None
    runs: int = 0
    power_off: Callable[[], None] | None = None

    @classmethod
    async def start(
        cls,
        gpus: Gpus,
        *,
        fallback_w: float | None = 350.0,
        state: CapState | None = None,
        floor_w: float | None = None,
        node: Node = NODE,
        **device: Any,
    ) -> Rig:
        clock = LoopClock(asyncio.get_running_loop(), START_MS)
        broker = MemoryBroker()
        bus = MemoryBus(broker)
        seen = NodeDevice("n01", node, bus, clock, prefix="wk", **device)
        await bus.start()
        rig = cls(gpus, clock, broker, bus, seen, state or MemoryState())
        await rig.boot(fallback_w=fallback_w, floor_w=floor_w)
        return rig

    async def boot(
        self,
        *,
        boot_id: str = "boot-1",
        fallback_w: float | None = 350.0,
        floor_w: float | None = None,
    ) -> None:
        """Start the agent, as a process would be."""
        self.runs += 1
        self.agent_bus = MemoryBus(self.broker)
        self.agent = Agent(
            self.gpus,
            self.agent_bus,
            self.clock,
            self.state,
            Settings("n01", "wk", boot_id, fallback_w, floor_w),
            random.Random(self.runs),
            power_off=self.power_off,
        )
        self.task = asyncio.create_task(self.agent.run())
        await asyncio.sleep(1.5)

    async def kill(self) -> None:
        """End the agent as SIGKILL does: it says and writes nothing more."""
        assert self.agent_bus is not None
        self.agent_bus.sever()
        await self.stop()

    async def stop(self) -> None:
        """End the agent as SIGTERM does."""
        assert self.task is not None
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)

    def command(self, watts: float, sequence: int, epoch: int = 1, **more: Any) -> Command:
        return Command(
            PointId("n01", "total", "power_cap"),
            watts,
            sequence,
            epoch,
            more.get("issued_ms", self.clock.utc_ms()),
            more.get("deadline_s", 2.0),
            "test",
        )

    async def lease_for(self, seconds: float, owner: str = "c1", epoch: int = 1) -> None:
        """Keep the lease for a while, as the control loop does."""
        until_s = self.clock.monotonic_s() + seconds
        while self.clock.monotonic_s() < until_s:
            if self.device.lease_due():
                await self.device.renew(owner, epoch)
            await asyncio.sleep(0.5)


async def settle(work: Awaitable[Any]) -> None:
    """Await, then let call_soon deliveries happen."""
    await work
    await asyncio.sleep(0.01)


async def until(condition: Callable[[], bool], within_s: float = 10.0) -> None:
    """Wait for something that no event tells of.

    Raises:
        TimeoutError: it did not come.
    """
    loop = asyncio.get_running_loop()
    end_s = loop.time() + within_s
    while not condition():
        if loop.time() > end_s:
            raise TimeoutError
        await asyncio.sleep(0.01)
