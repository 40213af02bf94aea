"""The demo over real protocols: two child processes, a receiver, and nothing outside loopback."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import secrets
import signal
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from api.demo.children import ChildDied, ServiceChild, Simulator
from api.demo.drilling import drill_first
from api.demo.receiver import Receiver
from api.demo.report import document
from api.service.account import read_account
from api.service.keys import make_keys
from api.service.stepping import write_step
from facility.clock import SystemClock
from facility.store import open_store, upgrade
from facility.store.outage import Outage

DRAIN_S = 6.0
SETTLE_S = 20.0


@dataclass(frozen=True)
class DemoOptions:
    """What was asked for on the command line; `seconds` None runs until interrupted.

    `drill`: the element of a drill before the scenario begins; a corrective site engages nothing
    without one.
    """

    config: str
    scenario: str
    seed: int
    seconds: float | None
    port: int
    record: str | None = None
    broker: str | None = None
    drill: str | None = None


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)  # noqa: T201 - the demo talks to its user


async def run_demo(options: DemoOptions) -> dict[str, Any]:
    """Run the demo; returns the document of contracts.md.

    Raises:
        ChildDied: the simulator or the service ended when it should not have.
    """
    with tempfile.TemporaryDirectory(prefix="wattkeeper-demo-") as folder:
        return await _Demo(options, Path(folder)).run()


class _Demo:
    def __init__(self, options: DemoOptions, folder: Path) -> None:
        self.options = options
        self.folder = folder
        self.database = f"sqlite:///{folder / 'demo.db'}"
        self.outage = Outage(folder / "demo.db")
        self.calendar = folder / "clock"
        self.receiver = Receiver("whsec_" + base64.b64encode(secrets.token_bytes(24)).decode())
        self.keys: Mapping[str, str] = {}
        self.interrupted = asyncio.Event()

    async def run(self) -> dict[str, Any]:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.interrupted.set)
        await self.receiver.start()
        simulator, ready = await Simulator.start(self._simulator_arguments())
        service = ServiceChild(self._service_arguments(ready), {})
        try:
            url = await service.start()
            self._greet(url)
            await self._settle(service)
            if self.options.drill is not None:
                await drill_first(url, self.keys["engineer"], self.options.drill)
            await simulator.begin()
            await self._until_the_end(simulator, service)
            await asyncio.sleep(DRAIN_S if self.options.seconds is not None else 0.0)
            truth = await simulator.truth()
            code = await service.stop()
            if code != 0:
                raise ChildDied(f"the service ended with code {code}")
        finally:
            await self.outage.end()
            await service.kill()
            await simulator.stop()
            await self.receiver.stop()
        account = await asyncio.to_thread(read_account, self.database, str(self.folder))
        return document(
            scenario=Path(self.options.scenario).stem,
            seed=self.options.seed,
            truth=truth,
            service=account,
            database="sqlite",
            url=url,
        )

    def _simulator_arguments(self) -> list[str]:
        options = self.options
        arguments = ["--config", options.config, "--seed", str(options.seed)]
        arguments += ["--scenario", options.scenario]
        if options.seconds is not None:
            arguments += ["--for", str(options.seconds)]
        if options.broker is not None:
            arguments += ["--broker", options.broker]
        return arguments

    def _service_arguments(self, ready: Mapping[str, Any]) -> list[str]:
        upgrade(self.database)
        store = open_store(self.database, SystemClock())
        try:
            self.keys = make_keys(store)
        finally:
            store.close()
        overlay = {
            "addresses": ready["addresses"],
            "broker": ready["broker"],
            "store": self.database,
            "clock": str(self.calendar),
            "parent": os.getpid(),
            "webhooks": {"demo": {"url": self.receiver.url, "secret": self.receiver.secret}},
        }
        path = self.folder / "overlay.json"
        path.touch(mode=0o600)
        path.write_text(json.dumps(overlay), "utf-8")
        options = self.options
        arguments = ["--config", options.config, "--port", str(options.port)]
        arguments += ["--state", str(self.folder), "--overlay", str(path)]
        if options.record is not None:
            Path(options.record).unlink(missing_ok=True)
            arguments += ["--record", options.record]
        return arguments

    def _greet(self, url: str) -> None:
        _say(f"\n  Wattkeeper demo: {url}   (scenario {self.options.scenario})")
        for role, key in self.keys.items():
            _say(f"  {role:9} key  {key}")
        _say("")

    async def _settle(self, service: ServiceChild) -> None:
        """Wait until every device has answered once, so that the scenario starts warm."""
        deadline = asyncio.get_running_loop().time() + SETTLE_S
        ready = self.folder / "ready"
        while not ready.exists() and asyncio.get_running_loop().time() < deadline:
            if not service.running:
                raise ChildDied("the service ended before it was ready")
            await asyncio.sleep(0.2)

    async def _until_the_end(self, simulator: Simulator, service: ServiceChild) -> None:
        if self.options.seconds is None:
            end = None
        else:
            end = asyncio.get_running_loop().time() + self.options.seconds
        stop = asyncio.create_task(self.interrupted.wait())
        try:
            while not self.interrupted.is_set():
                left = None if end is None else end - asyncio.get_running_loop().time()
                if left is not None and left <= 0.0:
                    return
                event = asyncio.create_task(simulator.events.get())
                died = asyncio.create_task(service.died()) if service.running else None
                waiting = {stop, event} | ({died} if died else set())
                await asyncio.wait(waiting, timeout=left, return_when=asyncio.FIRST_COMPLETED)
                if event.done():
                    await self._carry_out(event.result(), service)
                elif died is not None and died.done():
                    raise ChildDied(f"the service ended with code {died.result()}")
                for task in (event, died):
                    if task is not None:
                        task.cancel()
        finally:
            stop.cancel()
            await self.outage.end()
            if not service.running and not self.interrupted.is_set():
                await self._revive(service)

    async def _carry_out(self, event: Mapping[str, Any], service: ServiceChild) -> None:
        match event["event"]:
            case "kill-controller":
                _say("  the controller is killed")
                await service.kill()
            case "start-controller":
                _say("  the controller starts again")
                await self._revive(service)
            case "step-clock":
                _say(f"  the controller's clock steps by {event['value']:+g} s")
                write_step(self.calendar, round(1000.0 * event["value"]))
            case "restore-clock":
                _say("  the controller's clock is right again")
                write_step(self.calendar, 0)
            case "stop-database":
                _say("  the database cannot be written")
                await self.outage.begin()
            case "start-database":
                _say("  the database can be written again")
                await self.outage.end()
            case "died":
                raise ChildDied(f"the simulator ended with code {event.get('died')}")
            case other:
                _say(f"  {other}: {event.get('text', '')}")

    async def _revive(self, service: ServiceChild) -> None:
        with contextlib.suppress(FileNotFoundError):
            (self.folder / "ready").unlink()
        if not service.running:
            await service.start()
