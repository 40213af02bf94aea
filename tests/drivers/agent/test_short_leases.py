"""Corrective leases: short, renewed in time, and dropped at once when nobody renews them."""

from __future__ import annotations

import asyncio

from drivers.agent.lease import State
from tests.drivers.agent.rig import Gpus, Rig, in_virtual_time


def test_a_lease_of_a_second_and_a_half_is_kept_for_minutes() -> None:
    async def work() -> None:
        rig = await Rig.start(Gpus.of(2))
        rig.device.set_lease(1.5, 0.0, 0.0)
        await rig.device.renew("c1", 1)
        await asyncio.sleep(0.1)
        await rig.device.write(rig.command(600.0, 1))
        end_s = rig.clock.monotonic_s() + 300.0
        while rig.clock.monotonic_s() < end_s:
            if rig.device.lease_due():
                await rig.device.renew("c1", 1)
            assert rig.agent is not None
            assert rig.agent.standing.state is State.LEASED
            await asyncio.sleep(rig.device.renew_s / 2.0)
        assert rig.gpus.limits == [600.0, 600.0]

    in_virtual_time(work)


def test_an_orphan_of_a_corrective_site_is_at_its_fallback_within_the_lease_and_a_beat() -> None:
    async def work() -> None:
        rig = await Rig.start(Gpus.of(2))
        rig.device.set_lease(1.5, 0.0, 0.0)
        await rig.device.renew("c1", 1)
        await asyncio.sleep(0.1)
        await rig.device.write(rig.command(600.0, 1))
        await asyncio.sleep(1.5 + 0.3)
        assert rig.gpus.limits == [350.0, 350.0]
        assert rig.agent is not None
        assert rig.agent.standing.state is State.FALLBACK

    in_virtual_time(work)


def test_statuses_come_faster_under_a_short_lease_and_slow_down_after_it() -> None:
    async def work() -> None:
        rig = await Rig.start(Gpus.of(2))
        heard: list[float] = []
        rig.bus.subscribe("wk/n01/status", lambda *_: heard.append(rig.clock.monotonic_s()))
        rig.device.set_lease(1.5, 0.0, 0.0)
        end_s = rig.clock.monotonic_s() + 10.0
        while rig.clock.monotonic_s() < end_s:
            if rig.device.lease_due():
                await rig.device.renew("c1", 1)
            await asyncio.sleep(0.2)
        assert len(heard) >= 35
        await asyncio.sleep(3.0)
        before = len(heard)
        await asyncio.sleep(10.0)
        assert len(heard) - before <= 11

    in_virtual_time(work)


def test_other_terms_are_sent_at_once() -> None:
    async def work() -> None:
        rig = await Rig.start(Gpus.of(2))
        await rig.lease_for(2.0)
        assert not rig.device.lease_due()
        rig.device.set_lease(3.0, 0.0, 0.0)
        assert rig.device.lease_due()

    in_virtual_time(work)
