"""The parts of the bench: the fleet's servers, each protocol alone, the whole load, ten thousand.

Nothing here is measured by the clock on the wall: CPU time of processes, as the kernel counts it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass

from tests.bench.polling.collector import Task
from tests.bench.polling.fleet import PROTOCOLS, UNITS_OF_LOOK, Fleet
from tests.bench.polling.serving import ROOT, Server

MODULES = {"snmp": "snmp_agents", "modbus": "modbus_units", "mqtt": "mqtt_nodes"}
FIGURES = {
    "snmp": "snmp_cpu_us_per_value",
    "modbus": "modbus_cpu_us_per_register",
    "mqtt": "mqtt_cpu_us_per_value",
}


@dataclass(frozen=True)
class Lengths:
    """How long each part takes.

    Attributes:
        alone_s: one protocol, healthy devices only.
        whole_s: the whole load.
        polls: looks back to back, for what they leave behind.
    """

    alone_s: float = 20.0
    whole_s: float = 120.0
    warm_s: float = 5.0
    polls: int = 10_000

    @classmethod
    def of(cls, whole_s: float) -> Lengths:
        """As long as the issue asks for, or all shorter in proportion."""
        part = min(whole_s / cls.whole_s, 1.0)
        alone_s = max(2.0 * round(cls.alone_s * part / 2.0), 4.0)
        return cls(alone_s, whole_s, cls.warm_s, max(round(cls.polls * part), 1_000))


class Served:
    """The fleet as it is served."""

    def __init__(self, fleet: Fleet, servers: Mapping[str, Server]) -> None:
        self.fleet = fleet
        self.servers = servers

    def healthy(self, *protocols: str) -> dict[str, dict[int, int]]:
        """Ports of the healthy devices of some protocols."""
        return {p: {i: self.servers[p].ports[i] for i in self.fleet.healthy(p)} for p in protocols}

    def tasks(self, lengths: Lengths) -> list[Task]:
        """Each protocol alone, the whole load, and the looks back to back, in this order."""
        warm_s, pids = lengths.warm_s, tuple(server.pid for server in self.servers.values())
        everything = {p: server.ports for p, server in self.servers.items()}
        return [
            *(Task(self.fleet, self.healthy(p), warm_s, lengths.alone_s) for p in PROTOCOLS),
            Task(self.fleet, everything, warm_s, lengths.whole_s, store=True, servers=pids),
            Task(self.fleet, self.healthy(*PROTOCOLS), polls=lengths.polls),
        ]


@contextmanager
def served(fleet: Fleet) -> Iterator[Served]:
    """Start a server for each protocol, and end them."""
    with ExitStack() as stack:
        servers = {}
        for protocol in PROTOCOLS:
            servers[protocol] = Server(MODULES[protocol], fleet)
            stack.callback(servers[protocol].close)
        yield Served(fleet, servers)


def collect(tasks: Sequence[Task]) -> list[dict[str, float]]:
    """Measure tasks, one after the other, in a process of its own."""
    asked = json.dumps([asdict(task) for task in tasks])
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench.polling.collector", asked],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        check=True,
    )
    found: list[dict[str, float]] = json.loads(done.stdout)
    return found


def figures_of(there: Served, lengths: Lengths) -> dict[str, float]:
    """Every figure of ours."""
    *each, whole, after = collect(there.tasks(lengths))
    figures = {
        FIGURES[p]: 1e6 * one["cpu_s"] / (one["good_looks"] * UNITS_OF_LOOK[p])
        for p, one in zip(PROTOCOLS, each, strict=True)
    }
    return figures | {
        "values_per_s": whole["values"] / whole["wall_s"],
        "healthy_cycles_ratio": whole["healthy_good"] / whole["healthy_due"],
        "late_cycles_ratio": whole["healthy_late"] / whole["healthy_due"],
        "cpu_cores": whole["cpu_s"] / whole["wall_s"],
        "cpu_cores_event_loop": whole["loop_cpu_s"] / whole["wall_s"],
        "cpu_cores_of_the_devices": whole["servers_cpu_s"] / whole["wall_s"],
        "polls": after["polls"],
        "poll_cpu_us": 1e6 * after["cpu_s"] / after["polls"],
        "rss_growth_mib": after["rss_growth_mib"],
        "fd_growth": after["fd_growth"],
    }
