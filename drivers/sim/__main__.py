"""The simulated plant as a process: `python -m drivers.sim --config FILE --seed N --scenario S`.

It outlives the controller that it judges. With its parent it speaks lines over the standard
streams: first it prints `{"addresses": {...}, "broker": "mqtt://..."}`; the scenario's clock starts
with the line `start`; `truth` is answered with one JSON line; `stop` or the end of the input ends
it. `{"event": "kill-controller"}` and its like tell the parent what is its to carry out. Logs go to
standard error.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import logging
import random
import sys
from collections.abc import Sequence
from typing import Any, Final

import structlog

from drivers.catalog import profiles
from drivers.mqtt.addressing import Letter
from drivers.mqtt.bus import MqttBus
from drivers.sim import scenarios
from drivers.sim.agents import SimAgents
from drivers.sim.broker import EmbeddedBroker
from drivers.sim.faults import Event
from drivers.sim.harness import Runner
from drivers.sim.plant.world import World
from drivers.sim.publish import publish_sensors
from drivers.sim.scenarios import Scenario
from drivers.sim.serve_modbus import serve_modbus
from drivers.sim.serve_prometheus import serve_prometheus
from drivers.sim.serve_snmp import serve_snmp
from facility.clock import SystemClock
from facility.completing import complete_for_simulation
from facility.config import Facility
from facility.errors import ConfigError
from facility.loading import load

_log = structlog.get_logger("wattkeeper.sim")

#: What agents, bus and broker get to say goodbye; the process ends with or without it.
CLOSE_S: Final = 5.0

#: What the parent must do at the start and at the end of a fault that is not ours.
_PARENT: Final = {
    ("controller_killed", True): "kill-controller",
    ("controller_killed", False): "start-controller",
    ("clock_stepped", True): "step-clock",
    ("clock_stepped", False): "restore-clock",
    ("database_gone", True): "stop-database",
    ("database_gone", False): "start-database",
}


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m drivers.sim", description=__doc__)
    parser.add_argument("--config", required=True, help="facility file to simulate")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--scenario", default="steady", help="a name, or a file NAME.yaml")
    parser.add_argument("--for", dest="seconds", type=float, default=None, metavar="SECONDS")
    parser.add_argument("--broker", default=None, help="use this MQTT broker, not our own")
    return parser.parse_args(given)


def say(message: dict[str, Any]) -> None:
    """One JSON line to the parent."""
    sys.stdout.write(json.dumps(message, allow_nan=False) + "\n")
    sys.stdout.flush()


async def tell_parent(event: Event) -> None:
    """Pass on an event that is the parent's to carry out."""
    say({"event": _PARENT[event.kind, event.active], "value": event.value})


async def lines_of_parent() -> asyncio.StreamReader:
    """Standard input as a stream."""
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    return reader


async def simulate(facility: Facility, scenario: Scenario, options: argparse.Namespace) -> None:
    """Serve the hall until the parent says stop."""
    clock = SystemClock()
    world = World.of(facility, options.seed, scenario, options.seconds)
    world.waiting = True
    broker = None if options.broker is not None else EmbeddedBroker()
    url = options.broker if broker is None else await broker.start()
    rng = random.Random(f"{options.seed}/bus")

    def client(name: str, birth: Letter | None = None, will: Letter | None = None) -> MqttBus:
        return MqttBus(url, name=name, clock=clock, rng=rng, birth=birth, will=will)

    async def stop_broker(stop: bool) -> None:
        if broker is None:
            _log.warning("the broker is not ours to stop", broker=url)
        elif stop:
            await broker.stop()
        else:
            await broker.start()

    agents = SimAgents(world.plant, facility, client, clock, seed=options.seed)
    runner = Runner(world, agents, clock, stop_broker, tell_parent)
    snmp = await serve_snmp(world.plant, facility.devices)
    modbus = await serve_modbus(world.plant, facility.devices)
    pages = await serve_prometheus(world.plant, facility.devices)
    bus = client("simulated-sensors")
    await bus.start()
    await agents.start()
    tasks = [
        asyncio.create_task(runner.run(), name="world"),
        asyncio.create_task(
            publish_sensors(world.plant, facility, bus, clock, profiles()), name="sensors"
        ),
    ]
    say({"addresses": {**snmp, **modbus, **pages}, "broker": url})
    obey = asyncio.create_task(_obey(world), name="parent")
    try:
        done, _ = await asyncio.wait([obey, *tasks], return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in (obey, *tasks):
            task.cancel()
        await asyncio.gather(obey, *tasks, return_exceptions=True)
        snmp.close()
        modbus.close()
        pages.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_S):
                await agents.stop()
                await bus.close()
                if broker is not None:
                    await broker.stop()


async def _obey(world: World) -> None:
    parent = await lines_of_parent()
    while line := await parent.readline():
        match line.decode(errors="replace").strip():
            case "start":
                world.begin()
            case "truth":
                say(world.truth())
            case "stop":
                return
            case other:
                _log.warning("unknown line from the parent", line=other[:80])


def main(given: Sequence[str] | None = None) -> int:
    """Run; returns the exit code."""
    options = arguments(given)
    try:
        facility = complete_for_simulation(load(options.config))
        scenario = scenarios.load(options.scenario)
    except (ConfigError, KeyError, ValueError, OSError) as error:
        words = error.args[0] if isinstance(error, KeyError) else error
        sys.stderr.write(f"{words}\n")
        return 2
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    asyncio.run(simulate(facility, scenario, options))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
