"""Running a simulated hall in an event loop, real or virtual.

`Runner` moves the world with the clock, keeps the nodes' agents in step with their racks' power
and undergoes what the script does to programs. `VirtualHall` is the whole simulation without a
socket or a thread: devices on the `sim:` transport, agents and sensors on a bus in memory.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Final

from drivers.catalog import profiles
from drivers.device import ProfiledDevice
from drivers.mqtt.addressing import Letter
from drivers.mqtt.memory import MemoryBroker, MemoryBus
from drivers.sim.agents import SimAgents
from drivers.sim.faults import Event
from drivers.sim.plant.world import STEP_S, Start, World
from drivers.sim.publish import publish_sensors
from drivers.sim.scenarios import Scenario
from drivers.sim.transport import simulated_device
from facility.clock import Clock
from facility.config import Facility

#: Steps made at most before the loop gets its turn, when the world has fallen behind.
_BURST: Final = 20
#: Events that belong to the owner of the controller, not to the simulation.
OWNERS_EVENTS: Final = frozenset({"controller_killed", "clock_stepped", "database_gone"})

EventHandler = Callable[[Event], Awaitable[None]]


class Runner:
    """Keeps a world, its agents and its broker moving.

    Args:
        world: to advance.
        agents: of its nodes.
        clock: that the world follows.
        broker: stops (True) or starts (False) the broker.
        owner: told of events that are not the simulation's own.
        tick_s: how often the world is moved.
    """

    def __init__(
        self,
        world: World,
        agents: SimAgents,
        clock: Clock,
        broker: Callable[[bool], Awaitable[None]],
        owner: EventHandler,
        tick_s: float = STEP_S,
    ) -> None:
        self.world = world
        self._agents = agents
        self._clock = clock
        self._broker = broker
        self._owner = owner
        self._tick_s = tick_s
        self._dark: frozenset[str] = frozenset()
        self._killed: frozenset[str] = frozenset()

    async def run(self) -> None:
        """Advance for ever; cancel to end."""
        done_s = self._clock.monotonic_s()
        while True:
            behind = int((self._clock.monotonic_s() - done_s) / STEP_S + 1e-6)
            for first in range(0, behind, _BURST):
                steps = min(_BURST, behind - first)
                self.world.advance(steps * STEP_S)
                await self._undergo()
                await asyncio.sleep(0)
            done_s += behind * STEP_S
            wait_s = done_s + self._tick_s - self._clock.monotonic_s()
            await asyncio.sleep(max(wait_s, 0.0))

    async def _undergo(self) -> None:
        for event in self.world.take_events():
            if event.kind == "broker_stopped":
                await self._broker(event.active)
            elif event.kind == "agent_killed":
                changed = frozenset(event.targets)
                self._killed = self._killed | changed if event.active else self._killed - changed
                for node in event.targets:
                    await self._switch(node, not event.active, reboot=False)
            else:
                await self._owner(event)
        await self._follow_power()

    async def _follow_power(self) -> None:
        """A node without power has no agent; with its power the machine boots."""
        plant = self.world.plant.truth
        up = plant.rack_up
        if not self._dark and up.all():
            return
        hall = plant.hall
        dark = frozenset(n for n, r in zip(hall.nodes, hall.node_rack, strict=True) if not up[r])
        for node in sorted(dark - self._dark):
            await self._switch(node, False, reboot=True)
        for node in sorted(self._dark - dark):
            await self._switch(node, node not in self._killed, reboot=True)
        self._dark = dark

    async def _switch(self, node: str, on: bool, *, reboot: bool) -> None:
        if on:
            await self._agents.restart(node, reboot=reboot)
        else:
            await self._agents.kill(node)


class VirtualHall:
    """A simulated facility for virtual time.

    Attributes:
        world: plant, twin and truth.
        broker: in memory; `bus()` makes clients of it.
        agents: one per node, running while `run` runs.
    """

    def __init__(
        self,
        facility: Facility,
        seed: int,
        scenario: Scenario,
        duration_s: float | None,
        clock: Clock,
        owner: EventHandler | None = None,
        start: Start | None = None,
    ) -> None:
        self._facility = facility
        self._clock = clock
        self._seed = seed
        self.world = World.of(facility, seed, scenario, duration_s, start)
        self.broker = MemoryBroker()
        self.agents = SimAgents(self.world.plant, facility, self._client, clock, seed=seed)
        self._runner = Runner(self.world, self.agents, clock, self._stop_broker, owner or _nobody)

    def bus(self) -> MemoryBus:
        """A client of the hall's broker, not yet started."""
        return MemoryBus(self.broker)

    def devices(self) -> list[ProfiledDevice]:
        """Every device of the file that is asked (SNMP, Modbus), on the `sim:` transport."""
        known = profiles()
        rng = random.Random(f"{self._seed}/devices")
        return [
            simulated_device(config, name, self.world.plant, self._clock, rng)
            for name, config in self._facility.devices.items()
            if config.profile in known and known[config.profile].protocol != "mqtt"
        ]

    async def run(self) -> None:
        """Agents, sensors and the world, until cancelled."""
        bus = self.bus()
        await bus.start()
        await self.agents.start()
        sensors = asyncio.create_task(
            publish_sensors(self.world.plant, self._facility, bus, self._clock, profiles()),
            name="simulated sensors",
        )
        try:
            await self._runner.run()
        finally:
            sensors.cancel()
            await asyncio.gather(sensors, return_exceptions=True)
            await self.agents.stop()
            await bus.close()

    def _client(self, name: str, birth: Letter, will: Letter) -> MemoryBus:
        return MemoryBus(self.broker, birth=birth, will=will)

    async def _stop_broker(self, stop: bool) -> None:
        if stop:
            self.broker.stop()
        else:
            self.broker.start()


async def _nobody(event: Event) -> None:
    """An owner whom events do not concern."""
