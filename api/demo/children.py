"""The demo's two child processes: the simulator and the service, each ended by its own id."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import Mapping
from typing import Any

READY_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 15.0


class ChildDied(Exception):
    """A child process ended when it should not have."""


class Simulator:
    """`python -m drivers.sim`, spoken to in JSON lines over its standard streams."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._answers: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.events: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._reader = asyncio.create_task(self._read())

    @classmethod
    async def start(cls, arguments: list[str]) -> tuple[Simulator, dict[str, Any]]:
        """Start it; returns it and its first line (addresses and broker).

        Raises:
            ChildDied: it ended before it was ready.
        """
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "drivers.sim",
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=16 * 1024 * 1024,
            start_new_session=True,
        )
        simulator = cls(process)
        return simulator, await simulator._answer(READY_TIMEOUT_S)

    async def begin(self) -> None:
        """Let the scenario's clock run."""
        await self._say("start")

    async def truth(self) -> dict[str, Any]:
        """What really happened so far, by the plant's own account."""
        await self._say("truth")
        return await self._answer(READY_TIMEOUT_S)

    async def stop(self) -> None:
        """End it, politely first."""
        if self._process.returncode is None:
            with contextlib.suppress(ChildDied):
                await self._say("stop")
            await _end(self._process)
        self._reader.cancel()

    async def _say(self, line: str) -> None:
        stdin = self._process.stdin
        if stdin is None or stdin.is_closing():
            raise ChildDied("the simulator has ended")
        try:
            stdin.write(line.encode() + b"\n")
            await stdin.drain()
        except (ConnectionError, BrokenPipeError):
            raise ChildDied("the simulator has ended") from None

    async def _answer(self, timeout_s: float) -> dict[str, Any]:
        answer = await asyncio.wait_for(self._answers.get(), timeout_s)
        if "died" in answer:
            raise ChildDied(f"the simulator ended with code {answer['died']}")
        return answer

    async def _read(self) -> None:
        stdout = self._process.stdout
        assert stdout is not None
        while line := await stdout.readline():
            message = json.loads(line)
            await (self.events if "event" in message else self._answers).put(message)
        died = {"died": await self._process.wait()}
        await self._answers.put(died)
        await self.events.put({"event": "died", **died})


class ServiceChild:
    """`wattkeeper serve`; may be killed and started again on the same state and port."""

    def __init__(self, arguments: list[str], environment: Mapping[str, str]) -> None:
        self._arguments = arguments
        self._environment = {**os.environ, **environment}
        self._process: asyncio.subprocess.Process | None = None
        self.url = ""

    @property
    def running(self) -> bool:
        """Whether it lives."""
        return self._process is not None and self._process.returncode is None

    async def start(self) -> str:
        """Start it; returns the URL that it listens on.

        Raises:
            ChildDied: it ended before it listened.
        """
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "api.cli",
            "serve",
            *self._arguments,
            stdout=asyncio.subprocess.PIPE,
            env=self._environment,
            start_new_session=True,
        )
        stdout = self._process.stdout
        assert stdout is not None
        line = await asyncio.wait_for(stdout.readline(), READY_TIMEOUT_S)
        if not line:
            raise ChildDied(f"the service ended with code {await self._process.wait()}")
        self.url = str(json.loads(line)["url"])
        return self.url

    async def kill(self) -> None:
        """SIGKILL: what a crash of the machine would do to it."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()

    async def stop(self) -> int:
        """SIGTERM, then wait; returns the exit code."""
        if self._process is None:
            return 0
        if self._process.returncode is None:
            self._process.send_signal(signal.SIGTERM)
        return await _end(self._process)

    async def died(self) -> int:
        """Wait until it ends by itself."""
        assert self._process is not None
        return await self._process.wait()


async def _end(process: asyncio.subprocess.Process) -> int:
    try:
        return await asyncio.wait_for(process.wait(), STOP_TIMEOUT_S)
    except TimeoutError:
        process.kill()
        return await process.wait()
