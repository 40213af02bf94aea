"""The collector that is measured, in a process of its own, as `serve` runs it (uvloop, gc).

Run as `python -m tests.bench.polling.collector TASKS`, a list of `Task` as JSON; it does one after
the other and prints what it found of each as one line of JSON.
"""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from typing import Any, Final

import structlog
import uvloop

from drivers.catalog import build_device, profiles
from drivers.collect import Collector
from drivers.credentials import Credentials
from drivers.mqtt.bus import MqttBus
from drivers.transport import Links
from facility.clock import SystemClock
from facility.config import DeviceConfig
from facility.points import PointTable, Scan
from facility.ports import Device
from facility.snapshot import LiveImage
from facility.store import open_store
from tests.bench.polling.fleet import PARAMETERS, Fleet, host_of, name_of, profile_of
from tests.bench.polling.serving import cpu_s_of, own_cpu_s

SECRETS: Final = {"bench": Credentials(secret="public")}
#: devices that are read at once where nobody waits for a period
AT_ONCE: Final = 32


@dataclass(frozen=True)
class Task:
    """What to measure.

    Attributes:
        fleet: as it is served.
        ports: protocol -> device number -> port; those that are to be read, and no others.
        warm_s: not measured: connecting, first looks.
        measured_s: measured; a whole number of periods.
        store: whether scans go to a store on SQLite, as in `serve`; else they go nowhere.
        polls: where above zero, that many looks back to back instead of periods.
        servers: processes whose CPU time is told too.
    """

    fleet: Fleet
    ports: Mapping[str, Mapping[int, int]]
    warm_s: float = 4.0
    measured_s: float = 20.0
    store: bool = False
    polls: int = 0
    servers: tuple[int, ...] = ()

    @classmethod
    def of(cls, plain: dict[str, Any]) -> Task:
        """Out of JSON, which knows no numbers as keys."""
        ports = plain["ports"].items()
        plain["ports"] = {p: {int(k): v for k, v in many.items()} for p, many in ports}
        return cls(**plain | {"fleet": Fleet(**plain["fleet"])})

    def servers_cpu_s(self) -> float:
        """CPU of the servers so far, seconds."""
        return sum(map(cpu_s_of, self.servers))


@dataclass
class Tally:
    """What came in, so far.

    Attributes:
        values: points of all scans.
        good: device -> scans in which every value is good.
    """

    values: int = 0
    good: Counter[str] = field(default_factory=Counter)

    def scan(self, scan: Scan, _number: int = 0) -> None:
        """Count a scan that is in the live image now."""
        self.values += scan.values.size
        if not scan.quality.any():
            self.good[scan.layout.device] += 1

    def since(self, before: Tally) -> Tally:
        """What came in after `before`."""
        return Tally(self.values - before.values, self.good - before.good)

    def copy(self) -> Tally:
        """As it stands."""
        return Tally(self.values, self.good.copy())


class Nowhere:
    """A sink for measuring the way from the wire to the live image alone."""

    def put(self, scan: Scan) -> None:
        """Let go of it."""


def devices_of(task: Task, bus: MqttBus | None, clock: SystemClock) -> dict[str, Device]:
    """The devices that the task names, made as those of a facility file are."""
    links, devices = Links(clock, random.Random(1)), {}
    for protocol, ports in task.ports.items():
        profile = profile_of(protocol)
        profiles().add(profile.profile, profile)  # the bench's own stand beside the shipped ones
        for number, port in ports.items():
            name = name_of(protocol, number)
            address = f"{protocol}://{host_of(protocol, number)}:{port}"
            if protocol == "mqtt":
                address = f"mqtt:{name}"
            config = DeviceConfig.model_validate(
                {
                    "profile": profile.profile,
                    "address": address,
                    "auth": "bench" if protocol == "snmp" else None,
                    "parameters": PARAMETERS[protocol],
                    "period": f"{task.fleet.period_s} s",
                }
            )
            devices[name] = build_device(config, name, address, SECRETS, clock, bus, links)
    return devices


async def measure(task: Task) -> dict[str, float]:
    """What the task asks for."""
    clock, rng = SystemClock(), random.Random(2)
    bus = None
    if task.ports.get("mqtt"):
        port = next(iter(task.ports["mqtt"].values()))
        url = f"mqtt://{host_of('mqtt', 0)}:{port}"
        bus = MqttBus(url, name="bench", clock=clock, rng=rng)
    devices = devices_of(task, bus, clock)
    if bus is not None:
        await bus.start()
    image = LiveImage(PointTable.of(layout for d in devices.values() for layout in d.layouts))
    with tempfile.TemporaryDirectory(prefix="wk-bench-") as folder:
        store = open_store(f"sqlite:///{folder}/hall.db", clock) if task.store else None
        tally = Tally()
        collector = Collector(
            list(devices.values()), image, store or Nowhere(), clock, rng, tally.scan
        )
        try:
            if task.polls:
                return await _back_to_back(task, devices.values(), image)
            return await _at_their_pace(task, collector, tally)
        finally:
            if store is not None:
                store.close()
            if bus is not None:
                await bus.close()


async def _at_their_pace(task: Task, collector: Collector, tally: Tally) -> dict[str, float]:
    reading = asyncio.create_task(collector.run())
    await asyncio.sleep(task.warm_s)
    _settle()
    before, late_before = tally.copy(), _overruns(collector)
    cpu_s, loop_s, wall_s = own_cpu_s(), time.thread_time(), time.monotonic()
    servers_s = task.servers_cpu_s()
    await asyncio.sleep(task.measured_s)
    cpu_s, loop_s = own_cpu_s() - cpu_s, time.thread_time() - loop_s
    wall_s = time.monotonic() - wall_s
    came, late = tally.since(before), _overruns(collector) - late_before
    reading.cancel()
    await asyncio.wait([reading])
    healthy = [
        name_of(protocol, number)
        for protocol, ports in task.ports.items()
        for number in ports
        if task.fleet.state(number) == "healthy"
    ]
    due = round(task.measured_s / task.fleet.period_s)
    return {
        "values": came.values,
        "good_looks": came.good.total(),
        "cpu_s": cpu_s,
        "loop_cpu_s": loop_s,
        "wall_s": wall_s,
        "servers_cpu_s": task.servers_cpu_s() - servers_s,
        "healthy_due": due * len(healthy),
        "healthy_good": sum(min(came.good[name], due) for name in healthy),
        "healthy_late": sum(late[name] for name in healthy),
    }


async def _back_to_back(
    task: Task, devices: Iterable[Device], image: LiveImage
) -> dict[str, float]:
    """As many looks as asked for, as fast as they come; what is left behind by them.

    As many again come before: caches and pools that fill once are no leak.
    """
    turns = cycle(devices)

    async def look(times: int) -> None:
        for _ in range(times):
            device = next(turns)
            for layout in device.layouts:
                image.update(await device.read(layout))

    async def looks(total: int) -> None:
        await asyncio.gather(*(look(total // AT_ONCE) for _ in range(AT_ONCE)))

    await looks(task.polls)
    _settle()
    rss, files, cpu_s = _rss_mib(), _open_files(), own_cpu_s()
    await looks(task.polls)
    cpu_s = own_cpu_s() - cpu_s
    gc.collect()
    return {
        "cpu_s": cpu_s,
        "polls": AT_ONCE * (task.polls // AT_ONCE),
        "rss_growth_mib": _rss_mib() - rss,
        "fd_growth": _open_files() - files,
    }


def _settle() -> None:
    """What `serve` does once it runs: what is there by now is not searched for garbage again."""
    gc.collect()
    gc.freeze()


def _overruns(collector: Collector) -> Counter[str]:
    return Counter({health.id: health.overruns for health in collector.health()})


def _rss_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def _open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


if __name__ == "__main__":
    # The dead and the slow are told of in the log, as they should be; here they are no news.
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    found = [uvloop.run(measure(Task.of(plain))) for plain in json.loads(sys.argv[1])]
    print(json.dumps(found))
