"""A node is powered off by the hook that its own file names, and by nothing else."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from drivers.agent.hook import hook
from drivers.agent.settings import parse
from facility.commands import Ack, Command, Outcome
from facility.errors import ConfigError
from facility.points import PointId
from tests.drivers.agent.rig import Gpus, Rig, in_virtual_time


def off(rig: Rig, sequence: int) -> Command:
    return replace(rig.command(1.0, sequence), point=PointId("n01", "total", "power_off"))


async def leased(gpus: Gpus, hooked: bool) -> tuple[Rig, list[str]]:
    started: list[str] = []
    rig = await Rig.start(gpus)
    await rig.stop()
    rig.power_off = (lambda: started.append("off")) if hooked else None
    await rig.boot()
    await rig.device.renew("c1", 1)
    await asyncio.sleep(0.1)
    return rig, started


def test_a_hook_is_started_once_by_one_command_and_limits_stay() -> None:
    async def work() -> tuple[Ack, Ack, list[str], list[float]]:
        gpus = Gpus.of(2)
        rig, started = await leased(gpus, True)
        await rig.device.write(rig.command(400.0, 5))
        done = await rig.device.write(off(rig, 6))
        again = await rig.device.write(off(rig, 6))
        await rig.stop()
        return done, again, started, gpus.limits

    done, again, started, limits = in_virtual_time(work)
    assert (done.outcome, done.detail) == (Outcome.APPLIED, "the power-off hook runs")
    assert again.outcome is Outcome.REJECTED
    assert "stale_sequence" in again.detail
    assert started == ["off"]
    assert limits == [400.0, 400.0]


def test_without_a_hook_the_command_is_refused_and_the_sequence_is_not_spent() -> None:
    async def work() -> tuple[Ack, Ack]:
        rig, _ = await leased(Gpus.of(2), False)
        refused = await rig.device.write(off(rig, 6))
        cap = await rig.device.write(rig.command(400.0, 6))
        await rig.stop()
        return refused, cap

    refused, cap = in_virtual_time(work)
    assert refused.outcome is Outcome.REJECTED
    assert "not_allowed" in refused.detail
    assert cap.outcome is Outcome.APPLIED


def test_without_a_lease_no_node_is_powered_off() -> None:
    async def work() -> tuple[Ack, list[str]]:
        started: list[str] = []
        rig = await Rig.start(Gpus.of(1))
        await rig.stop()
        rig.power_off = lambda: started.append("off")
        await rig.boot()
        found = await rig.device.write(off(rig, 1))
        await rig.stop()
        return found, started

    found, started = in_virtual_time(work)
    assert found.outcome is Outcome.REJECTED
    assert started == []


def test_a_hook_is_named_by_its_whole_path_and_is_off_by_default() -> None:
    base = "agent: 1\nnode: n01\nbroker: mqtt://127.0.0.1:1883\n"
    assert parse(base, "agent.yaml").power_off == ()
    named = parse(base + "power_off: [/usr/local/sbin/node-off, now]\n", "agent.yaml")
    assert named.power_off == ("/usr/local/sbin/node-off", "now")
    with pytest.raises(ConfigError, match="whole path"):
        parse(base + "power_off: [node-off]\n", "agent.yaml")


async def test_the_program_runs_beside_the_agent(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    start = hook([sys.executable, "-c", f"open({str(mark)!r}, 'w').close()"])
    assert start is not None
    start()
    for _ in range(200):
        if mark.exists():
            break
        await asyncio.sleep(0.02)
    assert mark.exists()
    assert hook(()) is None


def test_a_program_that_is_not_there_is_told_and_ends_nothing(tmp_path: Path) -> None:
    start = hook([str(tmp_path / "missing")])
    assert start is not None
    start()
