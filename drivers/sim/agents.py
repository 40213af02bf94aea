"""The real agents of a simulated hall: one per node, each with its own client of the bus."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass

from drivers.agent.agent import Agent, Settings
from drivers.agent.protocol import Topics
from drivers.agent.state import MemoryState, Saved
from drivers.mqtt.addressing import Letter
from drivers.sim.nvml import GpuPlant, PlantNvml, PlantTokens
from facility.clock import Clock
from facility.config import Facility
from facility.ports import Bus

#: Makes one client of the bus: name, birth message, will.
BusFactory = Callable[[str, Letter, Letter], Bus]


@dataclass
class _Node:
    """One node's machine: what survives its agent."""

    gpus: int
    fallback_w: float | None
    state: MemoryState
    boots: int = 1
    runs: int = 0
    task: asyncio.Task[None] | None = None


class SimAgents:
    """Starts, kills and restarts the agents of every node of a file."""

    def __init__(
        self,
        plant: GpuPlant,
        facility: Facility,
        bus_of: BusFactory,
        clock: Clock,
        *,
        seed: int = 0,
        boot_fallback: bool = True,
    ) -> None:
        """Prepare the nodes.

        Args:
            plant: whose GPUs the agents command.
            facility: names the nodes, their fallbacks and the topics' prefix.
            bus_of: makes an agent's client of the bus.
            clock: real or virtual.
            seed: of nonces and phases.
            boot_fallback: whether agents know their fallback before a controller names it, and
                so apply it at their first start.
        """
        self._plant, self._bus_of, self._clock, self._seed = plant, bus_of, clock, seed
        self._prefix = facility.agents.topic_prefix
        self._nodes = {
            name: _Node(
                node.gpus,
                node.fallback if boot_fallback else None,
                MemoryState(_of_before(plant, name, node.gpus)),
            )
            for name, node in facility.nodes.items()
        }

    @property
    def running(self) -> tuple[str, ...]:
        """Nodes whose agent runs now."""
        return tuple(
            name
            for name, node in self._nodes.items()
            if node.task is not None and not node.task.done()
        )

    async def start(self) -> None:
        """Start the agent of every node."""
        for name in self._nodes:
            self._launch(name)
        await asyncio.sleep(0)

    async def kill(self, node: str) -> None:
        """End one agent at once; the limits of its GPUs stay."""
        task, self._nodes[node].task = self._nodes[node].task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def restart(self, node: str, *, reboot: bool = False) -> None:
        """Start an agent again; after a reboot of its machine limits are back at the default."""
        await self.kill(node)
        machine = self._nodes[node]
        if reboot:
            machine.boots += 1
            for i in range(machine.gpus):
                default_w = self._plant.gpu_reading(node, i).default_w
                self._plant.set_gpu_limit(node, i, default_w)
        self._launch(node)

    async def stop(self) -> None:
        """End every agent; limits stay."""
        tasks = [node.task for node in self._nodes.values() if node.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for node in self._nodes.values():
            node.task = None

    def _launch(self, name: str) -> None:
        node = self._nodes[name]
        node.runs += 1
        topics = Topics.of(self._prefix, name)
        agent = Agent(
            PlantNvml(self._plant, name, node.gpus),
            self._bus_of(f"agent-{name}", topics.birth, topics.will),
            self._clock,
            node.state,
            Settings(name, self._prefix, f"boot-{node.boots}", node.fallback_w),
            random.Random(f"{self._seed}/{name}/{node.runs}"),
            PlantTokens(self._plant, name),
        )
        node.task = asyncio.create_task(agent.run(), name=f"agent {name}")


def _of_before(plant: GpuPlant, node: str, gpus: int) -> Saved:
    """What an agent remembers of an earlier boot: boards stood at their default before any cap.

    A hall that starts warm stands at caps from its first moment; those are not what a release
    gives back.
    """
    readings = [plant.gpu_reading(node, i) for i in range(gpus)]
    return Saved("boot-0", prior_w={gpu.uuid: gpu.default_w for gpu in readings})
