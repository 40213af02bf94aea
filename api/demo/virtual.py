"""The demo under a virtual clock: the same service and plant, no sockets, hours in moments.

Devices answer through their profiles on the `sim:` transport, agents and sensors speak over a bus
in memory, webhooks go to a receiver in memory that checks their signatures, and the controller can
be killed in mid-cycle and started again on the same database.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import random
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from api.demo.report import document
from api.service.account import own_account, totals
from api.service.point_rules import rules_of
from api.service.running import Running
from api.service.service import Service
from api.service.wiring import Outside, build, simulated
from api.service.workers import InlineWorkers
from api.webhooks import Answer, Sink
from drivers.catalog import build_device, profiles
from drivers.sim.faults import Event
from drivers.sim.harness import VirtualHall
from drivers.sim.plant.world import STEP_S, World
from drivers.sim.scenarios import Scenario
from facility.clock import LoopClock, VirtualTimeLoop
from facility.config import Facility
from facility.loading import Loaded
from facility.ports import Bus, Device
from facility.store import open_store

EPOCH_MS = 1_795_000_000_000
SETTLE_S = 8.0
DRAIN_S = 6.0
HOOK = "virtual"
SECRET = b"a secret of the virtual receiver"


@dataclass
class MemoryReceiver:
    """A webhook receiver without a socket; `valid` holds what was signed right, by id."""

    valid: dict[str, bytes] = field(default_factory=dict)
    refused: int = 0

    async def __call__(self, url: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        """Answer 204 to a valid signature, 401 to anything else."""
        given = {name.lower(): value for name, value in headers.items()}
        identity = given["webhook-id"]
        signed = f"{identity}.{given['webhook-timestamp']}.".encode() + body
        digest = base64.b64encode(hmac.new(SECRET, signed, hashlib.sha256).digest()).decode()
        if given["webhook-signature"] != f"v1,{digest}":
            self.refused += 1
            return Answer(401)
        self.valid[identity] = body
        return Answer(204)


@dataclass(frozen=True)
class VirtualOptions:
    """What to simulate; the database is a file, so that a killed controller finds it again.

    Attributes:
        meanwhile: what people do with the service, from the start of the scenario's clock on.
        before: what they do before it, once every device has spoken.
        watch: sees the world and the service of the moment after each of the plant's steps, from
            the start of the scenario's clock on.
    """

    loaded: Loaded
    scenario: Scenario
    seed: int
    seconds: float
    database: Path
    record: Path | None = None
    meanwhile: Callable[[Service], Coroutine[Any, Any, None]] | None = None
    before: Callable[[Service], Coroutine[Any, Any, None]] | None = None
    watch: Callable[[World, Service], None] | None = None


@dataclass(frozen=True)
class VirtualRun:
    """What came of it: the document of contracts.md, and who was there."""

    report: dict[str, Any]
    receiver: MemoryReceiver


def run_virtual(options: VirtualOptions) -> VirtualRun:
    """Run a scenario to its end."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(_Virtual(options).run())


class _Virtual:
    def __init__(self, options: VirtualOptions) -> None:
        self.options = options
        self.facility = simulated(options.loaded.facility, {HOOK: "http://virtual.invalid/"})
        self.receiver = MemoryReceiver()
        self.starts = 0
        self.url = f"sqlite:///{options.database}"

    async def run(self) -> VirtualRun:
        options = self.options
        self.clock = LoopClock(asyncio.get_running_loop(), EPOCH_MS)
        # The plant and the nodes keep the right time when the controller's clock is stepped.
        self.controllers_clock = LoopClock(asyncio.get_running_loop(), EPOCH_MS)
        self.hall = VirtualHall(
            self.facility, options.seed, options.scenario, options.seconds, self.clock, self._obey
        )
        self.hall.world.waiting = True
        plant = asyncio.create_task(self.hall.run(), name="plant")
        await self._start()
        await self._pass(SETTLE_S, plant)
        if options.before is not None:
            await options.before(self.service)
        self.hall.world.begin()
        people = None
        if options.meanwhile is not None:
            people = asyncio.create_task(options.meanwhile(self.service), name="people")
        watching = asyncio.create_task(self._watch(), name="watch")
        await self._pass(options.seconds, plant)
        watching.cancel()
        if people is not None:
            await people
        truth = self.hall.world.truth()
        await self._pass(DRAIN_S, plant)
        own = own_account(self.service)
        counts = self.store.counts().result()
        await self._stop()
        plant.cancel()
        await asyncio.gather(plant, return_exceptions=True)
        report = document(
            scenario=options.scenario.name,
            seed=options.seed,
            truth=truth,
            service={**own, **totals(counts)},
            database="sqlite",
            url="",
        )
        return VirtualRun(report, self.receiver)

    async def _pass(self, seconds: float, plant: asyncio.Task[None]) -> None:
        """Let time pass; a plant or a control loop that dies ends the run."""
        died = asyncio.create_task(self.running.supervisor.wait_fatal())
        until = asyncio.get_running_loop().time() + seconds
        while (left := until - asyncio.get_running_loop().time()) > 0.0:
            await asyncio.wait({plant, died}, timeout=min(left, 1.0))
            if plant.done():
                plant.result()
            if died.done():
                raise RuntimeError("the control loop died") from died.result()
        died.cancel()

    async def _start(self) -> None:
        options = self.options
        clock = self.controllers_clock
        self.starts += 1
        self.store = open_store(
            self.url,
            clock,
            inline=True,
            hall=self.facility.site.name,
            rules=rules_of(self.facility),
        )
        bus = self.hall.bus()
        outside = Outside(
            devices=lambda facility: self._devices(facility, bus),
            bus=bus,
            post=self.receiver,
            sinks={HOOK: Sink("http://virtual.invalid/", SECRET)},
            owner=f"controller-{self.starts}",
            link="http://virtual.invalid",
        )
        rng = random.Random(options.seed)
        self.service: Service = build(
            options.loaded,
            self.facility,
            outside,
            self.store,
            clock,
            InlineWorkers(),
            rng,
            options.record,
            is_simulated=True,
        )
        self.running = Running(self.service, bus, rng)
        await self.running.start()

    def _devices(self, facility: Facility, bus: Bus) -> Sequence[Device]:
        published = [
            build_device(entry, name, entry.address, {}, self.controllers_clock, bus)
            for name, entry in facility.devices.items()
            if profiles()[entry.profile].protocol == "mqtt"
        ]
        return [*self.hall.devices(), *published]

    async def _stop(self) -> None:
        await self.running.stop()
        self.store.close()

    async def _watch(self) -> None:
        while self.options.watch is not None:
            self.options.watch(self.hall.world, self.service)
            await asyncio.sleep(STEP_S)

    async def _obey(self, event: Event) -> None:
        """What the script does to the controller.

        It dies without a word and comes back on the same database; or its wall clock steps by the
        fault's value (s), and back.
        """
        if event.kind == "clock_stepped":
            step_ms = round(event.value * 1000.0)
            self.controllers_clock.epoch_ms += step_ms if event.active else -step_ms
        if event.kind != "controller_killed":
            return
        if event.active:
            await self.running.supervisor.stop()
            self.store.close()
        else:
            await self._start()
