"""Tasks are restarted, fatal ones end the process, and none can keep it from ending."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random

from api.service.supervision import Supervisor
from facility.clock import LoopClock, VirtualTimeLoop


def run(work: object) -> None:
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(work)  # type: ignore[arg-type]


def supervisor() -> Supervisor:
    return Supervisor(LoopClock(asyncio.get_running_loop(), 0), random.Random(1))


def test_a_task_that_swallows_one_cancellation_still_ends() -> None:
    async def main() -> None:
        stubborn = supervisor()
        swallowed = 0

        async def work() -> None:
            nonlocal swallowed
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(1e6)
            swallowed += 1
            await asyncio.sleep(1e6)

        task = stubborn.restart("stubborn", work)
        await asyncio.sleep(1.0)
        await stubborn.stop()
        assert swallowed == 1
        assert task.done()

    run(main())


def test_a_task_that_never_ends_does_not_keep_the_process() -> None:
    async def main() -> None:
        held = supervisor()

        async def work() -> None:
            for _ in range(20):
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.sleep(1e6)

        held.restart("deaf", work)
        await asyncio.sleep(1.0)
        began = asyncio.get_running_loop().time()
        assert await held.stop() == ("deaf",)
        assert asyncio.get_running_loop().time() - began < 10.0

    run(main())


def test_a_failing_task_is_started_again_with_growing_pauses() -> None:
    async def main() -> None:
        restarting = supervisor()
        starts: list[float] = []

        async def work() -> None:
            starts.append(asyncio.get_running_loop().time())
            raise OSError("no")

        restarting.restart("failing", work)
        await asyncio.sleep(60.0)
        assert restarting.states["failing"].failures == len(starts) >= 4
        pauses = [b - a for a, b in itertools.pairwise(starts)]
        assert pauses[-1] > 4.0 * pauses[0]
        await restarting.stop()

    run(main())


def test_the_end_of_a_fatal_task_is_told() -> None:
    async def main() -> None:
        fatal = supervisor()

        async def work() -> None:
            await asyncio.sleep(3.0)
            raise ValueError("bug")

        fatal.fatal("control loop", work)
        assert repr(await fatal.wait_fatal()) == "ValueError('bug')"
        await fatal.stop()

    run(main())
