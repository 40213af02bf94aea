"""The loop under a virtual clock: order of journal and wire, pacing, recording and replay."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar

import pytest

from controllers.cycle.state import recorded_shape
from controllers.loop import ControlLoop
from controllers.replaying import ReplayReport, replay
from facility.clock import LoopClock, VirtualTimeLoop
from facility.commands import Ack, AlarmEvent, Command, Decision, Override
from facility.config import Facility
from facility.loading import load_text
from facility.points import PointId
from facility.recording import Recorder, RecordingError, read_recording
from tests.conftest import ROOT
from tests.controllers.toy import EPOCH_MS, Toy, site_of, small_hall

T = TypeVar("T")


class InLine:
    """Workers of a virtual clock: the work is done when it is submitted."""

    def submit(self, work: Callable[..., T], *args: Any) -> Future[T]:
        done: Future[T] = Future()
        done.set_result(work(*args))
        return done


class Log:
    """A journal in memory that can be unplugged; keeps the order of everything."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, Any]] = []
        self.dead = False

    def _note(self, what: str, item: Any) -> None:
        if self.dead:
            raise OSError("the disk is gone")
        self.lines.append((what, item))

    async def intent(self, decision: Decision) -> None:
        self._note("intent", decision.commands)

    async def acks(self, acks: Sequence[Ack]) -> None:
        self._note("acks", tuple(acks))

    async def alarms(self, events: Iterable[AlarmEvent]) -> None:
        self._note("alarms", tuple(events))


class World:
    """A toy plant whose seconds pass on the virtual clock, and the loop that controls it."""

    def __init__(self, **plant: Any) -> None:
        self.loop = VirtualTimeLoop()
        self.clock = LoopClock(self.loop, EPOCH_MS)
        self.text = small_hall()
        self.toy = Toy(site_of(self.text), now_s=0.0, **plant)
        self.log = Log()
        self.slow_s: dict[str, float] = {}
        self.sent: list[tuple[float, Command]] = []
        self.epoch: int | None = 3
        self.recorder: Recorder | None = None
        self.spooled: list[Decision] = []

    async def apply(self, commands: Sequence[Command]) -> Sequence[Ack]:
        for command in commands:
            self.sent.append((self.clock.monotonic_s(), command))
            self.log.lines.append(("wire", command))
        await asyncio.sleep(max([self.slow_s.get(c.point.device, 0.1) for c in commands]))
        return self.toy.apply(commands)

    def control(self, **more: Any) -> ControlLoop:
        return ControlLoop(
            self.toy.site,
            self.toy.image,
            self.clock,
            InLine(),
            self.log,
            self.apply,
            config_sha256="c" * 64,
            epoch=lambda: self.epoch,
            recorder=self.recorder,
            spool=self.spooled.append,
            **more,
        )

    async def seconds(self, n: int) -> None:
        for _ in range(n):
            self.toy.now_s = self.clock.monotonic_s()
            self.toy.scan()
            await asyncio.sleep(1.0)
            self.toy.advance(1.0)

    def run(self, main: Callable[[], Awaitable[None]]) -> None:
        try:
            self.loop.run_until_complete(asyncio.wait_for(main(), 100_000.0))
        finally:
            self.loop.close()


async def during(world: World, control: ControlLoop, seconds: int) -> None:
    task = asyncio.create_task(control.run())
    await world.seconds(seconds)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def test_no_write_leaves_before_its_intent_is_committed_and_acks_follow() -> None:
    world = World(cap_w=690.0)
    control = world.control()
    world.run(lambda: during(world, control, 30))
    committed: set[int] = set()
    for what, item in world.log.lines:
        if what == "intent":
            committed |= {c.sequence for c in item}
        elif what == "wire":
            assert item.sequence in committed
    stats = control.stats
    assert stats.commands == stats.applied == len(world.sent) > 0
    answered = {
        a.command.sequence for what, item in world.log.lines if what == "acks" for a in item
    }
    assert answered == {c.sequence for _, c in world.sent}


def test_a_refused_lowering_keeps_the_raises_beside_it_back() -> None:
    world = World()
    world.toy.refuse.add("r01-n1")
    control = world.control()
    low, high = (PointId(node, "total", "power_cap") for node in ("r01-n1", "r02-n1"))
    lowering = Command(low, 250.0, 1, 3, EPOCH_MS, 2.0, "test")
    raising = Command(high, 400.0, 2, 3, EPOCH_MS, 2.0, "test", raises=True)

    async def main() -> None:
        await control._write([lowering, raising])
        assert [c.point for _, c in world.sent] == [low]
        world.toy.refuse.clear()
        await control._write([lowering, raising])
        assert [c.point for _, c in world.sent] == [low, low, high]

    world.run(main)


def test_sequences_only_rise() -> None:
    world = World(cap_w=300.0)
    control = world.control(sequence_base=1000)
    world.run(lambda: during(world, control, 30))
    sequences = [c.sequence for _, c in world.sent]
    assert sequences == sorted(set(sequences))
    assert sequences[0] == 1001


def test_a_slow_device_does_not_delay_cycles() -> None:
    world = World(cap_w=690.0)
    world.slow_s["r01-n1"] = 8.0
    control = world.control()
    world.run(lambda: during(world, control, 20))
    assert control.stats.cycles >= 19
    assert control.stats.overruns == 0


def test_without_the_journal_only_spooled_lowerings_are_sent() -> None:
    world = World(cap_w=300.0)
    control = world.control()

    async def main() -> None:
        await during(world, control, 8)
        world.log.dead = True
        world.sent.clear()
        for node in world.toy.site.nodes:
            world.toy.caps[node] = 690.0
        await during(world, control, 15)
        assert world.sent
        assert not any(c.raises for _, c in world.sent)
        assert len(world.spooled) > 0
        world.log.dead = False
        world.log.lines.clear()
        await during(world, control, 10)
        assert any(what == "acks" for what, _ in world.log.lines)

    world.run(main)


def test_without_a_lease_nothing_rises() -> None:
    world = World(cap_w=300.0)
    control = world.control()

    async def main() -> None:
        await during(world, control, 2)
        world.epoch = None
        before = len([c for _, c in world.sent if c.raises])
        await during(world, control, 20)
        assert len([c for _, c in world.sent if c.raises]) == before

    world.run(main)


def test_a_wake_starts_a_cycle_at_once() -> None:
    world = World()
    control = world.control()

    async def main() -> None:
        task = asyncio.create_task(control.run())
        await world.seconds(2)
        cycles = control.stats.cycles
        control.wake()
        await asyncio.sleep(0.01)
        assert control.stats.cycles == cycles + 1
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    world.run(main)


def test_a_bug_in_a_writer_ends_the_loop() -> None:
    world = World(cap_w=690.0)

    async def broken(commands: Sequence[Command]) -> Sequence[Ack]:
        raise ValueError("a bug")

    world.apply = broken  # type: ignore[method-assign]
    control = world.control()

    async def main() -> None:
        task = asyncio.create_task(control.run())
        await world.seconds(10)
        assert isinstance(task.exception(), RuntimeError)

    world.run(main)


def test_an_override_is_admitted_or_refused_before_it_is_taken() -> None:
    world = World(cap_w=300.0)
    control = world.control()
    ask = Override("a", PointId("r01-n1", "total", "power_cap"), 320.0, "kim", "test", 0, 10**15)
    assert control.admit(ask).granted is None
    world.run(lambda: during(world, control, 8))
    assert control.admit(ask).granted == 320.0
    cold = Override(
        "b", PointId("cdu-1", "loop.secondary", "supply_setpoint"), 5.0, "kim", "t", 0, 10**15
    )
    admission = control.admit(cold)
    assert admission.granted == pytest.approx(19.0)
    assert "dew point" in admission.bounded_by
    nowhere = Override("c", PointId("r01-n1", "gpu.0", "clock"), 5.0, "kim", "t", 0, 10**15)
    assert control.admit(nowhere).granted is None


def facility_of(text: str) -> Facility:
    return load_text(text).facility


def recorded(path: Path, seconds: int = 40) -> World:
    world = World(cap_w=690.0)
    world.recorder = Recorder(path, world.text, world.toy.site.table, shape=recorded_shape())
    world.toy.hook = world.recorder.scan
    control = world.control()

    async def main() -> None:
        await during(world, control, seconds // 2)
        world.toy.dead_feeds.add("b")
        world.toy.broken.add("r02-n2")
        await during(world, control, seconds - seconds // 2)

    world.run(main)
    world.recorder.close()
    return world


@pytest.mark.parametrize("name", ["run.jsonl", "run.jsonl.gz"])
def test_a_recorded_run_replays_bit_for_bit(tmp_path: Path, name: str) -> None:
    recorded(tmp_path / name)
    report = replay(read_recording(tmp_path / name), facility_of)
    assert report.same
    assert report.cycles >= 38
    assert report.checkpoints >= 1


def test_a_recorded_run_replays_bit_for_bit_in_another_process(tmp_path: Path) -> None:
    recorded(tmp_path / "run.jsonl", seconds=20)
    script = (
        "import sys\n"
        "from pathlib import Path\n"
        "from controllers.replaying import replay, to_text\n"
        "from facility.loading import load_text\n"
        "from facility.recording import read_recording\n"
        "r = read_recording(Path(sys.argv[1]))\n"
        "report = replay(r, lambda text: load_text(text).facility)\n"
        "print(to_text(report)); sys.exit(0 if report.same and report.cycles else 1)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "run.jsonl")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        env={"PYTHONHASHSEED": "77", "PATH": ""},
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_changed_reading_is_found_by_a_replay(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    recorded(path, seconds=12)
    lines = path.read_text().splitlines(keepends=True)
    cycle = next(i for i, x in enumerate(lines) if '"line":"cycle"' in x and '"cycle":5,' in x)
    lines[cycle] = lines[cycle].replace('"hall":"auto"', '"hall":"off"')
    path.write_text("".join(lines))
    report: ReplayReport = replay(read_recording(path), facility_of)
    assert not report.same


def test_a_recording_of_another_version_is_refused_in_words(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    recorded(path, seconds=5)
    first, rest = path.read_text().split("\n", 1)
    start = json.loads(first)
    assert start["shape"] == recorded_shape()
    for change in ({"shape": "0" * 32, "version": "0.0.9"}, {"shape": None}):
        path.write_text(json.dumps(start | change) + "\n" + rest)
        with pytest.raises(RecordingError, match="recorded by another version of Wattkeeper"):
            replay(read_recording(path), facility_of)
    older = {key: value for key, value in start.items() if key not in ("shape", "version")}
    path.write_text(json.dumps(older | {"format": 1}) + "\n" + rest)
    with pytest.raises(RecordingError, match="another version of Wattkeeper"):
        read_recording(path)


def test_another_configuration_shows_what_would_have_been_decided(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    recorded(path, seconds=12)
    report = replay(read_recording(path), facility_of, small_hall(ROW="16 kW"))
    assert report.differences
    assert any(d.commands for d in report.differences)


def test_a_recording_cut_short_by_a_crash_replays_as_far_as_it_goes(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    recorded(path, seconds=12)
    raw = path.read_bytes()
    path.write_bytes(raw[: len(raw) - 300])
    assert replay(read_recording(path), facility_of).same


@pytest.mark.parametrize(
    "damage", [b"", b"{}\n", b"not json\n", b'{"line": "start", "format": 99}\n', b"[1]\n"]
)
def test_what_is_no_recording_is_refused(tmp_path: Path, damage: bytes) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(damage)
    with pytest.raises(RecordingError):
        read_recording(path)


def test_a_facility_text_that_was_changed_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    recorded(path, seconds=4)
    path.write_text(path.read_text().replace("name: Toy", "name: Boy", 1))
    with pytest.raises(RecordingError, match="facility"):
        read_recording(path)
