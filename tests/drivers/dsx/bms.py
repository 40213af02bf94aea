"""A BMS in memory: publishes metadata and values in the shapes that the AsyncAPI describes."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from drivers.dsx.metadata import METADATA
from drivers.mqtt.memory import MemoryBroker, MemoryBus
from drivers.profile.binding import bind
from drivers.publishing import Broker
from facility.clock import LoopClock
from facility.points import Flaw, Grade, flaw_of, grade_of
from facility.ports import Device
from tests.drivers.agent.rig import START_MS

NO_LEAK = [{"value": 0, "text": "NoLeak"}, {"value": 1, "text": "Leak"}]


class Bms:
    """The publishing side, and a broker's devices on the other."""

    def __init__(self, integration: str | None = None) -> None:
        """Begin inside a running loop."""
        self.clock = LoopClock(asyncio.get_running_loop(), START_MS)
        self.memory = MemoryBroker()
        self.bus = MemoryBus(self.memory)
        self.far = MemoryBus(self.memory)
        self.broker = Broker(self.far, self.clock, "broker dsx", integration)

    async def start(self) -> None:
        """Connect both sides."""
        await self.bus.start()
        await self.far.start()

    def device(self, profile: str, object_id: str) -> Device:
        """A device of a shipped profile."""
        from drivers.address import parse_address
        from drivers.catalog import profiles

        binding = bind(profiles()[profile], "d")
        return self.broker.device(binding, parse_address(f"dsx:{object_id}"))

    async def describe(self, path: str, **body: Any) -> None:
        """Metadata of a point, retained; `path` is objectType/pointType/tagPath."""
        kind, point, _ = path.split("/", 2)
        payload = {"objectType": kind, "pointType": point, **body}
        await self.bus.publish(f"{METADATA}/{path}", json.dumps(payload).encode(), retain=True)
        await asyncio.sleep(0.01)

    async def say(self, path: str, value: Any, quality: Any = 1, publisher: str = "PUB") -> None:
        """A value now."""
        body = {"value": value, "timestamp": self.clock.utc_ms(), "quality": quality}
        await self.bus.publish(f"BMS/v1/{publisher}/Value/{path}", json.dumps(body).encode())
        await asyncio.sleep(0.01)


async def look(device: Device) -> dict[str, tuple[float, Grade, Flaw]]:
    """part:kind -> value, grade, flaw."""
    scan = await device.read(device.layouts[0])
    return {
        f"{spec.id.part}:{spec.id.kind}": (
            float(scan.values[i]),
            grade_of(int(scan.quality[i])),
            flaw_of(int(scan.quality[i])),
        )
        for i, spec in enumerate(device.layouts[0].points)
    }
