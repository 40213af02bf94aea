"""The simulated plant as a process, over its real protocols on loopback."""

from __future__ import annotations

import asyncio
import json
import random
import sys
from collections.abc import AsyncIterator, Callable
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from drivers.mqtt.bus import MqttBus
from drivers.sim.__main__ import arguments, main
from facility.clock import SystemClock

ROOT = Path(__file__).parents[3]


class Child:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    def say(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line.encode() + b"\n")

    async def hear(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = await asyncio.wait_for(self.process.stdout.readline(), 30.0)
        answer = json.loads(line)
        assert isinstance(answer, dict)
        return answer


async def start(scenario: str, seconds: float) -> Child:
    config = resources.files("facility") / "demo.yaml"
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "drivers.sim", "--config", str(config), "--scenario", scenario,
        "--for", str(seconds), "--seed", "3",
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL, cwd=ROOT, limit=2**22,
    )  # fmt: skip
    return Child(process)


async def until(condition: Callable[[], bool], seconds: float) -> None:
    for _ in range(round(seconds / 0.05)):
        if condition():
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"did not happen within {seconds} s")


@pytest.fixture
async def child() -> AsyncIterator[Child]:
    running = await start("broker-loss", 6.0)
    yield running
    if running.process.returncode is None:
        running.process.kill()
        await running.process.wait()


@pytest.mark.system
async def test_serves_the_hall_and_answers_its_parent(child: Child) -> None:
    ready = await child.hear()
    assert set(ready) == {"addresses", "broker"}
    assert len(ready["addresses"]) == 24
    assert ready["addresses"]["cdu-1"].startswith("modbus://127.0.0.1:")
    assert ready["addresses"]["ups-a1"].startswith("snmp://127.0.0.1:")
    rng = random.Random(1)
    bus = MqttBus(ready["broker"], name="test", clock=SystemClock(), rng=rng)
    heard: dict[str, bytes] = {}
    bus.subscribe("#", lambda topic, payload, _: heard.__setitem__(topic, payload))
    await bus.start()
    try:
        await until(lambda: len(heard) >= 64 + 24 + 2, 15.0)  # nodes say two things each
        assert {f"wattkeeper/r0{n}-n1/status" for n in range(1, 9)} <= set(heard)
        assert json.loads(heard["hall/r01/top"])["temperature_c"] > 15.0
        child.say("start")
        await until(lambda: not bus.connected, 10.0)
        await until(lambda: bus.connected, 10.0)
    finally:
        await asyncio.wait_for(bus.close(), 10.0)
    child.say("truth")
    truth = await child.hear()
    assert {"power", "cooling", "tokens", "uncontrolled", "seconds"} <= set(truth)
    assert truth["seconds"] > 2.0
    assert truth["power"]["largest_step_w"] < 5e3
    child.say("stop")
    assert await asyncio.wait_for(child.process.wait(), 10.0) == 0


@pytest.mark.system
async def test_ends_with_its_parent() -> None:
    running = await start("steady", 6.0)
    await running.hear()
    assert running.process.stdin is not None
    running.process.stdin.close()
    assert await asyncio.wait_for(running.process.wait(), 10.0) == 0


def test_a_wrong_command_line_is_usage(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        arguments(["--config", "x.yaml", "--seed", "one"])
    assert ended.value.code == 2
    assert "--seed" in capsys.readouterr().err


def test_a_scenario_that_there_is_not_is_told_with_those_there_are(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = str(root / "facility" / "demo.yaml")
    assert main(["--config", config, "--scenario", "no-such"]) == 2
    answer = capsys.readouterr()
    assert "feed-loss" in answer.err
    assert answer.out == ""


def test_a_wrong_file_is_told_and_starts_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "f.yaml"
    config.write_text("facility: 1\nsite: {name: X}\n", encoding="utf-8")
    assert main(["--config", str(config)]) == 2
    answer = capsys.readouterr()
    assert "f.yaml:" in answer.err
    assert answer.out == ""
