"""A cap is only set where a release can take it back, and a release names what it left behind."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from drivers.agent.lease import State
from drivers.agent.state import MemoryState
from facility.commands import Outcome
from tests.drivers.agent.rig import Gpus, Rig, in_virtual_time


async def led(gpus: Gpus, **more: Any) -> Rig:
    """A node under a lease, on which nothing was written yet."""
    rig = await Rig.start(gpus, fallback_w=None, **more)
    await rig.device.renew("c1", 1)
    await asyncio.sleep(0.1)
    return rig


async def release(rig: Rig) -> dict[str, Any]:
    """Release the node and return the agent's ack as it came over the bus."""
    heard: list[dict[str, Any]] = []
    rig.bus.subscribe("wk/n01/ack", lambda _t, payload, _r: heard.append(json.loads(payload)))
    await asyncio.sleep(1.1)
    await rig.device.release()
    return next(ack for ack in heard if ack["type"] == "release")


def test_an_unreadable_limit_is_given_back_to_the_boards_default_and_says_so() -> None:
    async def work() -> None:
        gpus = Gpus.of(2, limit_w=600.0)
        gpus.cards[1].hidden_limit = True
        rig = await led(gpus)
        ack = await rig.device.write(rig.command(400.0, 1))
        assert gpus.limits == [400.0, 400.0]
        assert "board's default" in ack.detail
        assert "GPU-1" in ack.detail
        assert "GPU-0" not in ack.detail
        await asyncio.sleep(1.1)
        assert rig.device.status is not None
        told = [(gpu.prior_w, gpu.prior_from) for gpu in rig.device.status.gpus]
        assert told == [(600.0, "found"), (700.0, "default")]
        answer = await release(rig)
        assert gpus.limits == [600.0, 700.0]
        assert "board's default" in answer["detail"]
        await asyncio.sleep(1.1)
        assert rig.device.status.state is State.RELEASED
        assert {gpu.prior_from for gpu in rig.device.status.gpus} == {None}

    in_virtual_time(work)


def test_a_gpu_that_could_not_be_given_back_later_is_not_capped_now() -> None:
    async def work() -> None:
        gpus = Gpus.of(2, limit_w=600.0)
        gpus.cards[1].hidden_limit = gpus.cards[1].without_default = True
        rig = await led(gpus)
        ack = await rig.device.write(rig.command(400.0, 1))
        assert gpus.limits == [400.0, 600.0]
        assert [uuid for uuid, _ in gpus.writes] == ["GPU-0"]
        assert (ack.outcome, ack.actual) == (Outcome.CLAMPED, None)
        assert "GPU-1: no_prior" in ack.detail
        gpus.cards[1].hidden_limit = False
        await asyncio.sleep(1.1)
        ack = await rig.device.write(rig.command(410.0, 2))
        assert ack.outcome is Outcome.APPLIED
        await release(rig)
        assert gpus.limits == [600.0, 600.0]

    in_virtual_time(work)


def test_a_node_of_which_no_gpu_could_be_given_back_takes_no_cap() -> None:
    async def work() -> None:
        gpus = Gpus.of(2, limit_w=600.0, hidden_limit=True, without_default=True)
        rig = await led(gpus)
        ack = await rig.device.write(rig.command(400.0, 1))
        assert ack.outcome is Outcome.REJECTED
        assert "gpu_fault" in ack.detail
        assert "no_prior" in ack.detail
        assert gpus.writes == []

    in_virtual_time(work)


def test_a_lowering_without_a_known_limit_waits_for_it_and_does_not_take_the_default() -> None:
    async def work() -> None:
        gpus = Gpus.of(2, limit_w=600.0)
        gpus.cards[1].hidden_limit = True
        rig = await Rig.start(gpus)
        assert gpus.limits == [350.0, 600.0]
        gpus.cards[1].hidden_limit = False
        await asyncio.sleep(2.0)
        assert gpus.limits == [350.0, 350.0]
        await rig.device.renew("c1", 1)
        await release(rig)
        assert gpus.limits == [600.0, 600.0]

    in_virtual_time(work)


def test_a_default_taken_for_a_gpu_that_then_refused_is_not_kept() -> None:
    async def work() -> None:
        gpus = Gpus.of(2, limit_w=600.0)
        gpus.cards[1].hidden_limit, gpus.cards[1].write_fault = True, "no_permission"
        rig = await led(gpus)
        await rig.device.write(rig.command(400.0, 1))
        gpus.cards[1].hidden_limit, gpus.cards[1].write_fault = False, None
        await asyncio.sleep(1.1)
        await rig.device.write(rig.command(410.0, 2))
        await release(rig)
        assert gpus.limits == [600.0, 600.0]

    in_virtual_time(work)


def test_what_was_assumed_is_still_known_after_a_restart() -> None:
    async def work() -> None:
        gpus = Gpus.of(2, limit_w=600.0)
        gpus.cards[1].hidden_limit = True
        rig = await led(gpus, state=MemoryState())
        await rig.device.write(rig.command(400.0, 1))
        await rig.kill()
        gpus.cards[1].hidden_limit = False
        await rig.boot(fallback_w=None)
        assert rig.device.status is not None
        assert [gpu.prior_from for gpu in rig.device.status.gpus] == ["found", "default"]

    in_virtual_time(work)


@pytest.mark.parametrize("gone", ["write_fault", "unlisted"])
def test_a_release_names_each_gpu_that_it_left_behind(gone: str) -> None:
    async def work() -> None:
        gpus = Gpus.of(2, limit_w=600.0)
        rig = await led(gpus)
        await rig.device.write(rig.command(400.0, 1))
        if gone == "write_fault":
            gpus.cards[1].write_fault = "timeout"
        else:  # a driver that came back with one GPU less, and an agent that never saw it
            await rig.kill()
            lost = gpus.cards.pop()
            await rig.boot(fallback_w=None)
            await rig.device.renew("c1", 1)
        answer = await release(rig)
        assert gpus.limits[0] == 600.0
        assert answer["code"] == "clamped"
        fault = "timeout" if gone == "write_fault" else "gpu_lost"
        assert f"GPU-1: {fault}" in answer["detail"]
        left = {gpu["uuid"]: gpu["fault"] for gpu in answer["gpus"]}
        assert left == {"GPU-0": None, "GPU-1": fault}
        if gone == "unlisted":
            gpus.cards.append(lost)
        # Still on the list of what is owed, for whoever looks.
        saved = rig.state.load()
        assert saved is not None
        assert saved.prior_w == {"GPU-1": 600.0}

    in_virtual_time(work)


def test_a_release_of_a_node_that_was_never_written_says_so() -> None:
    async def work() -> None:
        rig = await led(Gpus.of(2))
        answer = await release(rig)
        assert (answer["code"], answer["gpus"]) == ("applied", [])
        assert "nothing of ours" in answer["detail"]

    in_virtual_time(work)
