"""How fast the demo hall's PDUs and UPSs are read over SNMP from simulated agents on loopback."""

from __future__ import annotations

import asyncio
from importlib import resources
from typing import Any

import numpy as np

from drivers.catalog import build_device
from drivers.collect import answered
from drivers.credentials import Credentials
from drivers.sim import scenarios
from drivers.sim.plant.world import World
from drivers.sim.serve_snmp import serve_snmp
from facility.clock import SystemClock
from facility.loading import load_text

ROUNDS = 5


def measure() -> dict[str, Any]:
    """Values a second, agents and client in one process on one core."""
    return {"figures": asyncio.run(_poll())}


async def _poll() -> dict[str, float]:
    text = (resources.files("facility") / "demo.yaml").read_text("utf-8")
    facility = load_text(text, "demo.yaml").facility
    world = World.of(facility, 1, scenarios.load("steady"), None)
    served = await serve_snmp(world.plant, facility.devices)
    clock, secrets = SystemClock(), {"snmp": Credentials(secret="public")}
    devices = [
        build_device(facility.devices[name], name, address, secrets, clock)
        for name, address in served.items()
    ]
    values, spans = 0, []
    began_s = clock.monotonic_s()
    for _ in range(ROUNDS):
        for device in devices:
            for layout in device.layouts:
                asked_s = clock.monotonic_s()
                scan = await device.read(layout)
                spans.append(clock.monotonic_s() - asked_s)
                assert answered(scan)
                values += len(layout)
    took_s = clock.monotonic_s() - began_s
    for device in devices:
        await device.close()
    served.close()
    return {
        "devices": len(devices),
        "values": values,
        "values_per_s": values / took_s,
        "look_ms_p50": 1e3 * float(np.median(spans)),
        "look_ms_worst": 1e3 * max(spans),
    }
