"""Fifty agents under one collector, one of them slower than its period: case 20, as it was seen."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from contextlib import AsyncExitStack
from itertools import pairwise

import pytest
from structlog.testing import capture_logs

from drivers.address import Address
from drivers.collect import Collector
from drivers.credentials import Credentials
from drivers.device import ProfiledDevice
from drivers.profile.binding import bind
from drivers.sim import ber
from drivers.snmp import SnmpTransport
from drivers.transport import Links
from facility.clock import SystemClock
from facility.points import Grade, PointTable, Scan, grade_of
from facility.snapshot import LiveImage
from tests.drivers.snmp.rig import COLUMN, Wire, numbers, table, wire
from tests.drivers.wires import profile_of

pytestmark = pytest.mark.system
AGENTS = 50


class Sink:
    def __init__(self) -> None:
        self.looks: dict[str, list[Scan]] = defaultdict(list)

    def put(self, scan: Scan) -> None:
        self.looks[scan.layout.device].append(scan)


def late(agent: Wire, delay_s: float) -> None:
    """Make an agent answer rightly, and so much later."""
    answer, loop = table(numbers(4)), asyncio.get_running_loop()

    def respond(request: ber.Request) -> None:
        loop.call_later(delay_s, agent.transport.sendto, answer(request), agent.asked_from)

    agent.respond = respond


@pytest.mark.parametrize(
    ("period_s", "delay_s", "cycles"),
    [(0.4, 0.6, 6), pytest.param(2.0, 3.0, 15, marks=pytest.mark.soak)],
    ids=["in a fifth of the time", "as it was seen"],
)
async def test_one_slow_agent_of_fifty_makes_nobody_miss_a_period_and_is_named(
    period_s: float, delay_s: float, cycles: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Case 20: influxdata/telegraf#3823, #7470, #12530: who is slow, and how slow, is told."""
    monkeypatch.setattr("drivers.collect.GRACE_S", 2.0 * period_s)
    clock, sink = SystemClock(), Sink()
    shared = Links(clock, random.Random(3), period_s / 2.0)
    column = ".".join(map(str, COLUMN))
    points = [
        {
            "part": f"outlet.{i}",
            "kind": "active_power",
            "at": {"snmp": {"oid": f"{column}.{i}"}},
        }
        for i in range(4)
    ]
    classes = {"fast": {"period": f"{period_s} s", "stale_after": f"{5 * period_s} s"}}
    profile = profile_of(*points, protocol="snmp", classes=classes)
    async with AsyncExitStack() as stack:
        wires = [await stack.enter_async_context(wire(table(numbers(4)))) for _ in range(AGENTS)]
        late(wires[-1], delay_s)
        names = [f"pdu-{i}" for i in range(AGENTS - 1)] + ["slow"]
        devices = [
            ProfiledDevice(
                bind(profile, name),
                SnmpTransport(Address("snmp", "127.0.0.1", w.port), shared, Credentials()),
                clock,
            )
            for name, w in zip(names, wires, strict=True)
        ]
        image = LiveImage(PointTable.of([layout for d in devices for layout in d.layouts]))
        collector = Collector(devices, image, sink, clock, random.Random(3))
        with capture_logs() as logs:
            task = asyncio.ensure_future(collector.run())
            await asyncio.sleep(period_s * cycles)
            health = {h.id: h for h in collector.health()}
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
    for name in names[:-1]:
        looks = sink.looks[name]
        assert len(looks) >= cycles - 1
        assert max(b.monotonic_s - a.monotonic_s for a, b in pairwise(looks)) < 2.0 * period_s
        assert all(grade_of(int(q)) is Grade.GOOD for scan in looks for q in scan.quality)
        assert health[name].state == "good"
        assert health[name].overruns == 0
    slow = health["slow"]
    assert slow.state == "bad"
    assert "no answer" in slow.detail
    told = {(entry["event"], entry["device"]) for entry in logs if "device" in entry}
    assert told == {("device unreachable", "slow")}
    assert not any(grade_of(int(q)) is Grade.GOOD for s in sink.looks["slow"] for q in s.quality)
