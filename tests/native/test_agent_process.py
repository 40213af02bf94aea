"""`wattkeeper agent` as the process that it is: a fake driver below it, a real broker above."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import socket
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from drivers.agent.lease import State
from drivers.mqtt.bus import MqttBus
from drivers.node import NodeDevice
from drivers.sim.broker import EmbeddedBroker
from facility.clock import SystemClock
from facility.commands import Ack, Command, Outcome
from facility.points import PointId
from tests.drivers.agent.rig import NODE, until
from tests.native.fake import Rack

pytestmark = pytest.mark.system

PROGRAM = "import sys; from api.commands.agent import agent; sys.exit(agent(sys.argv[1]))"


class Site:
    """A broker, a controller's side, and the agent of one node as a process."""

    def __init__(self, root: Path, driver: Path, rack: Rack, folder: Path) -> None:
        self.root, self.driver, self.rack, self.folder = root, driver, rack, folder
        self.clock = SystemClock()
        self.broker = EmbeddedBroker()
        self.availability: list[bytes] = []
        self.sequence = 0
        self.process: asyncio.subprocess.Process | None = None

    async def open(self) -> None:
        address = await self.broker.start()
        self.bus = MqttBus(address, name="control", clock=self.clock, rng=random.Random())
        self.node = NodeDevice("n01", NODE, self.bus, self.clock, prefix="wk", lease_s=5.0)
        self.bus.subscribe("wk/n01/availability", lambda _t, p, _r: self.availability.append(p))
        await self.bus.start()
        self.config = self.folder / "agent.yaml"
        self.boot_id = self.folder / "boot_id"
        self.boot_id.write_text("first-boot\n")
        self.config.write_text(
            f"agent: 1\nnode: n01\nbroker: {address}\ntopic_prefix: wk\n"
            f"state_dir: {self.folder / 'state'}\nfallback: 350 W\n"
            f"boot_id_file: {self.boot_id}\n"
        )

    async def start_agent(self, **more: str) -> None:
        before = None if self.node.status is None else self.node.status.run
        self.process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", PROGRAM, str(self.config),
            env=os.environ | {
                "PYTHONPATH": str(self.root),
                "LD_LIBRARY_PATH": str(self.driver.parent),
                "FAKE_NVML": str(self.rack.path),
            } | more,
            stderr=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        await until(lambda: self.node.status is not None and self.node.status.run != before, 30.0)

    async def boot_agent(self) -> list[float]:
        """Start the agent as a unit of type notify; the limits at the moment it says READY=1.

        Units of workloads are ordered behind that word.
        """
        name = f"wattkeeper-test-{uuid.uuid4()}"  # abstract: paths of temporary folders grow long
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ear:
            ear.bind(f"\0{name}")
            ear.setblocking(False)

            async def wait() -> list[float]:
                while b"READY=1" not in await asyncio.get_running_loop().sock_recv(ear, 4096):
                    pass
                return self.rack.limits_w()

            listening = asyncio.create_task(wait())
            await self.start_agent(NOTIFY_SOCKET=f"@{name}")
            return await asyncio.wait_for(listening, 15.0)

    async def end_agent(self, sign: signal.Signals) -> int:
        process, self.process = self.process, None
        assert process is not None
        process.send_signal(sign)
        return await asyncio.wait_for(process.wait(), 15.0)

    async def lead(self, owner: str = "c1", epoch: int = 1) -> None:
        """Take the lease and see that the agent has it."""
        assert await self.node.renew(owner, epoch)
        await until(
            lambda: (
                self.node.status is not None
                and self.node.status.state is State.LEASED
                and self.node.status.owner == owner
            )
        )

    async def cap(self, watts: float, *, epoch: int = 1, sequence: int | None = None) -> Ack:
        if sequence is None:
            self.sequence += 1
            sequence = self.sequence
        point = PointId("n01", "total", "power_cap")
        return await self.node.write(
            Command(point, watts, sequence, epoch, self.clock.utc_ms(), 2.0, "test")
        )

    async def close(self) -> None:
        if self.process is not None:
            self.process.kill()
            await self.process.wait()
        await self.bus.close()
        await self.broker.stop()


@pytest.fixture
async def site(root: Path, driver: Path, rack: Rack, tmp_path: Path) -> AsyncIterator[Site]:
    found = Site(root, driver, rack, tmp_path)
    await found.open()
    yield found
    await found.close()


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGKILL])
async def test_a_signal_leaves_every_limit_and_the_next_run_holds_it(
    site: Site, sign: signal.Signals
) -> None:
    site.rack.put(1, limit_mw=650_000)
    await site.start_agent()
    assert site.rack.limits_w() == [350.0, 350.0]
    await site.lead()
    ack = await site.cap(480.0)
    assert (ack.outcome, ack.actual) == (Outcome.APPLIED, 480.0)
    code = await site.end_agent(sign)
    assert code == (0 if sign is signal.SIGTERM else -signal.SIGKILL)
    await until(lambda: site.availability[-1:] == [b"offline"])
    assert site.node.status is None
    assert site.rack.limits_w() == [480.0, 480.0]
    # While nobody watched, the driver numbered the GPUs anew and lost one's limit.
    site.rack.swap(0, 1)
    site.rack.put(0, limit_mw=700_000)
    await site.start_agent()
    assert site.rack.limits_w() == [480.0, 480.0]
    assert site.node.status is not None
    assert site.node.status.state is State.HOLDING
    # An older controller, a thief of the epoch, and a command from before are all refused.
    await site.lead("c2", 2)
    assert (await site.cap(500.0, epoch=2, sequence=5)).outcome is Outcome.APPLIED
    assert "stale_sequence" in (await site.cap(510.0, epoch=2, sequence=5)).detail
    await site.node.renew("c1", 1)
    assert "stale_epoch" in (await site.cap(600.0, sequence=99)).detail
    await site.node.renew("thief", 2)
    assert "wrong_owner" in (await site.cap(600.0, epoch=2, sequence=99)).detail
    assert site.rack.limits_w() == [500.0, 500.0]
    await site.node.renew("c2", 2)
    assert await site.node.release(sequence=100) is Outcome.APPLIED
    assert site.rack.limits_w() == [650.0, 700.0]  # by UUID: GPU-bbbb is now the first


@pytest.mark.parametrize("told", ["second-boot\n", "", None])
async def test_after_a_reboot_the_fallback_stands_before_workloads_and_nothing_was_raised(
    site: Site, told: str | None
) -> None:
    await site.start_agent()
    await site.lead()
    assert (await site.cap(480.0)).outcome is Outcome.APPLIED
    assert await site.end_agent(signal.SIGKILL) == -signal.SIGKILL
    # The machine is booted: the driver is back at its defaults, but one board was put lower.
    site.rack.put(0, limit_mw=700_000, writes=0)
    site.rack.put(1, limit_mw=300_000, writes=0)
    if told is None:
        site.boot_id.unlink()
    else:
        site.boot_id.write_text(told)
    limits_at_ready = await site.boot_agent()
    assert limits_at_ready == [350.0, 300.0]
    assert [site.rack.get(slot, "writes") for slot in (0, 1)] == [1, 0]
    status = site.node.status
    assert status is not None
    assert status.state is State.FALLBACK
    # What a release gives back is what stood there before the first boot's first write.
    await site.lead(epoch=2)
    assert await site.node.release(sequence=100) is Outcome.APPLIED
    assert site.rack.limits_w() == [700.0, 700.0]


async def test_a_driver_that_refuses_is_shown_as_refused(site: Site) -> None:
    await site.start_agent()
    await site.lead()
    for slot in (0, 1):
        site.rack.put(slot, no_permission=1)
    ack = await site.cap(300.0)
    assert ack.outcome is Outcome.REJECTED
    assert ack.actual == 350.0
    assert "no_permission" in ack.detail
    site.rack.put(0, lost=1)
    site.rack.put(1, no_permission=0, limit_mw=700_000)
    await until(
        lambda: site.node.status is not None and site.node.status.gpus[0].reading.fault is not None
    )
    status = site.node.status
    assert status is not None
    assert status.gpus[0].reading.fault == "gpu_lost"
    # Somebody else's limit is shown beside ours, and not fought.
    assert (status.gpus[1].reading.limit_w, status.gpus[1].commanded_w) == (700.0, 350.0)
    await asyncio.sleep(1.2)
    assert site.rack.get(1, "limit_mw") == 700_000


async def test_the_agent_outlives_its_broker(site: Site) -> None:
    await site.start_agent()
    await site.lead()
    assert (await site.cap(480.0)).outcome is Outcome.APPLIED
    await site.broker.stop()
    assert (await site.cap(600.0)).outcome is Outcome.UNANSWERED
    last = site.node.status
    await site.broker.start()
    await until(lambda: site.node.status is not None and site.node.status is not last, 20.0)
    assert site.rack.limits_w() == [480.0, 480.0]
    await site.lead()
    assert (await site.cap(490.0)).outcome is Outcome.APPLIED


def run(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", *arguments],
        env=os.environ | {"PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_faulty_file_starts_nothing_and_names_every_place(root: Path, tmp_path: Path) -> None:
    config = tmp_path / "agent.yaml"
    config.write_text("agent: 1\nnode: n01\nbroker: broker:1883\nfallback: 350\nfallbak: 1 W\n")
    found = run(root, PROGRAM, str(config))
    assert found.returncode == 1
    places = [line.split(": ")[0].removeprefix(f"{config}:") for line in found.stderr.splitlines()]
    assert places == ["3:9", "4:11", "5:1"]
    assert found.stdout == ""


def test_a_missing_secret_starts_nothing(root: Path, tmp_path: Path) -> None:
    config = tmp_path / "agent.yaml"
    config.write_text(
        "agent: 1\nnode: n01\nbroker: mqtt://127.0.0.1:1\n"
        "auth: {user: n01, secret: {env: WATTKEEPER_TEST_ABSENT}}\n"
    )
    found = run(root, PROGRAM, str(config))
    assert found.returncode == 1
    assert "WATTKEEPER_TEST_ABSENT" in found.stderr


FORBIDDEN = ("fastapi", "starlette", "uvicorn", "sqlalchemy", "scipy", "highspy", "pymodbus")
FORBIDDEN += ("pysnmp", "gufo", "amqtt", "pcodec", "jinja2")


def test_the_agent_imports_no_service_no_store_no_solver_no_device_protocol(root: Path) -> None:
    program = "import api.commands.agent, json, sys; print(json.dumps(sorted(sys.modules)))"
    found = run(root, program)
    assert found.returncode == 0, found.stderr
    modules: list[Any] = json.loads(found.stdout)
    assert "drivers.agent.agent" in modules
    assert [m for m in modules if m.split(".")[0] in FORBIDDEN] == []
