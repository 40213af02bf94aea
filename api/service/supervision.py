"""Two policies for tasks that must not die in silence: FATAL and RESTART.

FATAL (the control loop): any exception ends the process; systemd restarts it and leases carry the
plant meanwhile. RESTART (pollers, webhooks, retention): back-off with jitter; the first failure
and the recovery are logged once each, the state is in health.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import structlog

from facility.clock import Clock

log = structlog.get_logger(__name__)

FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 60.0
RECOVERED_AFTER_S = 30.0
STOP_TRIES = 5


@dataclass
class TaskState:
    """Health of one supervised task."""

    name: str
    failures: int = 0
    last_error: str = ""


class Supervisor:
    """Runs named tasks under a policy until told to stop."""

    def __init__(self, clock: Clock, rng: random.Random) -> None:
        self._clock = clock
        self._rng = rng
        self._tasks: list[asyncio.Task[None]] = []
        self._dead: asyncio.Future[BaseException] | None = None
        self._stopping = False
        self.states: dict[str, TaskState] = {}

    def fatal(self, name: str, work: Callable[[], Awaitable[None]]) -> asyncio.Task[None]:
        """Run `work`; its end or failure is what `wait_fatal` returns."""
        return self._start(self._fatal(name, work), name)

    def restart(self, name: str, work: Callable[[], Awaitable[None]]) -> asyncio.Task[None]:
        """Run `work` for ever, again after each failure."""
        return self._start(self._restart(name, work), name)

    async def wait_fatal(self) -> BaseException:
        """The failure of a FATAL task; waits for one."""
        return await asyncio.shield(self._deathbed())

    async def stop(self) -> tuple[str, ...]:
        """Cancel every task, newest first, and wait for them, but not for ever.

        A library may swallow one cancellation (a timeout that ends in the same moment); so they
        are cancelled again each second, and one that will not end is left behind.

        Returns:
            names of tasks that did not end.
        """
        self._stopping = True
        pending = set(self._tasks)
        for _ in range(STOP_TRIES):
            for task in reversed(self._tasks):
                task.cancel()
            if pending:
                _, pending = await asyncio.wait(pending, timeout=1.0)
            if not pending:
                break
        for task in pending:
            log.error("task_does_not_end", task=task.get_name(), stack=str(task.get_stack()))
        self._tasks.clear()
        return tuple(task.get_name() for task in pending)

    def _start(self, work: Awaitable[None], name: str) -> asyncio.Task[None]:
        async def run() -> None:
            await work

        self.states.setdefault(name, TaskState(name))
        task = asyncio.get_running_loop().create_task(run(), name=name)
        self._tasks.append(task)
        return task

    def _deathbed(self) -> asyncio.Future[BaseException]:
        if self._dead is None:
            self._dead = asyncio.get_running_loop().create_future()
        return self._dead

    async def _fatal(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
            error: BaseException = RuntimeError(f"{name} ended by itself")
        except asyncio.CancelledError:
            raise
        except BaseException as caught:  # noqa: BLE001 - whatever it was, the process must end
            error = caught
        self.states[name].failures += 1
        self.states[name].last_error = repr(error)
        log.critical("task_died", task=name, error=repr(error), exc_info=error)
        deathbed = self._deathbed()
        if not deathbed.done():
            deathbed.set_result(error)

    async def _restart(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        state, pause_s = self.states[name], FIRST_PAUSE_S
        while not self._stopping:
            began_s = self._clock.monotonic_s()
            try:
                await work()
                error: Exception = RuntimeError("ended by itself")
            except Exception as caught:  # noqa: BLE001 - a policy for any failure
                error = caught
            if self._clock.monotonic_s() - began_s > RECOVERED_AFTER_S:
                pause_s = FIRST_PAUSE_S
                if state.failures:
                    log.info("task_recovered", task=name, failures=state.failures)
                state.failures = 0
            state.failures += 1
            state.last_error = repr(error)
            if state.failures == 1:
                log.error("task_failed", task=name, error=repr(error), exc_info=error)
            await asyncio.sleep(pause_s * self._rng.uniform(0.5, 1.5))
            pause_s = min(pause_s * 2.0, LONGEST_PAUSE_S)
