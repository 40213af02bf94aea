"""An empty or failed listing of GPUs is never "no caps"."""

from __future__ import annotations

import asyncio

import numpy as np

from drivers.agent.agent import LOOK_FOR_S
from drivers.agent.gpu import Board
from facility.points import Grade, PointId, grade_of
from tests.drivers.agent.rig import Gpus, Rig, in_virtual_time


class Listed(Gpus):
    """GPUs whose listing can be broken."""

    broken = False

    async def boards(self) -> list[Board]:
        return [] if self.broken else await super().boards()


async def cap_of(rig: Rig) -> tuple[float, Grade]:
    scan = await rig.device.read(rig.device.layouts[0])
    points = [point.id for point in scan.layout.points]
    at = points.index(PointId("n01", "total", "power_cap"))
    return float(scan.values[at]), grade_of(int(scan.quality[at]))


def test_gpus_that_vanish_from_the_listing_stay_known_with_their_caps() -> None:
    async def work() -> None:
        gpus = Listed.of(2)
        rig = await Rig.start(gpus)
        await rig.device.renew("c1", 1)
        await asyncio.sleep(0.1)
        await rig.device.write(rig.command(500.0, 1))
        gpus.broken = True
        await rig.lease_for(LOOK_FOR_S + 5.0)
        assert await cap_of(rig) == (500.0, Grade.GOOD)

    in_virtual_time(work)


def test_an_agent_that_lists_none_tells_no_cap_and_writes_none_away() -> None:
    async def work() -> None:
        gpus = Listed.of(2, limit_w=400.0)
        gpus.broken = True
        rig = await Rig.start(gpus)
        await asyncio.sleep(2.0)
        value, grade = await cap_of(rig)
        assert np.isnan(value)
        assert grade is Grade.BAD
        assert gpus.limits == [400.0, 400.0]
        await rig.device.renew("c1", 1)
        await asyncio.sleep(0.1)
        ack = await rig.device.write(rig.command(600.0, 1))
        assert ack.actual is None
        assert gpus.limits == [400.0, 400.0]

    in_virtual_time(work)


def test_the_fallback_is_applied_as_soon_as_the_listing_works_again() -> None:
    async def work() -> None:
        gpus = Listed.of(2)
        gpus.broken = True
        rig = await Rig.start(gpus)
        gpus.broken = False
        await asyncio.sleep(2.0)
        assert gpus.limits == [350.0, 350.0]
        assert await cap_of(rig) == (350.0, Grade.GOOD)

    in_virtual_time(work)
