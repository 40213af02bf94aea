"""The collector: everybody at their own pace, whatever the others do."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise

import pytest
from structlog.testing import capture_logs

from drivers.collect import GRACE_S, Collector, DeviceHealth
from drivers.device import ProfiledDevice
from drivers.profile.binding import bind
from drivers.sim.impersonation import Impersonation
from drivers.sim.source import Instruments
from drivers.sim.transport import SimTransport
from facility.clock import LoopClock
from facility.points import Flaw, Grade, Layout, PointTable, Scan, quality
from facility.snapshot import LiveImage
from tests.drivers.wires import in_virtual_time, profile_of

PROFILE = profile_of(
    {"part": "total", "kind": "active_power", "at": {"modbus": {"address": 0, "type": "u32"}}},
    {
        "part": "total",
        "kind": "energy",
        "poll": "slow",
        "at": {"modbus": {"address": 2, "type": "u32"}},
    },
    classes={
        "fast": {"period": "1 s", "stale_after": "5 s"},
        "slow": {"period": "10 s", "stale_after": "60 s"},
    },
)


class Sink:
    def __init__(self) -> None:
        self.scans: list[Scan] = []

    def put(self, scan: Scan) -> None:
        self.scans.append(scan)


class Hall:
    """Some impersonated devices under one collector."""

    def __init__(self, clock: LoopClock, names: Sequence[str]) -> None:
        values = {(n, "total", k): 1000.0 for n in names for k in ("active_power", "energy")}
        self.plant = Instruments(values)
        self.clock, self.sink = clock, Sink()
        rng = random.Random(3)
        self.devices = [self.device(name, rng) for name in names]
        layouts = [layout for d in self.devices for layout in d.layouts]
        self.image = LiveImage(PointTable.of(layouts))
        self.seen: list[tuple[float, str, int]] = []
        self.collector = Collector(
            self.devices, self.image, self.sink, clock, rng, on_scan=self._on_scan
        )

    def device(self, name: str, rng: random.Random) -> ProfiledDevice:
        who = Impersonation(PROFILE, name, self.plant)
        return ProfiledDevice(bind(PROFILE, name), SimTransport(who, self.clock, rng), self.clock)

    def _on_scan(self, scan: Scan, number: int) -> None:
        self.seen.append((self.clock.monotonic_s(), scan.layout.device, number))

    def health(self, name: str) -> DeviceHealth:
        return next(h for h in self.collector.health() if h.id == name)

    async def run_for(self, seconds: float) -> None:
        task = asyncio.ensure_future(self.collector.run())
        await asyncio.sleep(seconds)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def fast_scans(hall: Hall) -> dict[str, list[Scan]]:
    found: dict[str, list[Scan]] = defaultdict(list)
    for scan in hall.sink.scans:
        if scan.layout.poll_class == "fast":
            found[scan.layout.device].append(scan)
    return found


def test_a_dead_device_changes_nobody_elses_period_and_is_logged_once() -> None:
    async def main(clock: LoopClock) -> tuple[Hall, list]:
        hall = Hall(clock, ["a", "b", "dead", "slow"])
        hall.plant.health.update(dead="dead", slow="slow")
        with capture_logs() as logs:
            await hall.run_for(120.0)
        return hall, logs

    hall, logs = in_virtual_time(main)
    scans = fast_scans(hall)
    for name in ("a", "b"):
        times = [s.monotonic_s for s in scans[name]]
        gaps = [later - earlier for earlier, later in pairwise(times)]
        assert len(times) in (119, 120, 121)
        assert max(abs(gap - 1.0) for gap in gaps) < 0.01
        assert hall.health(name).state == "good"
    assert all((s.quality & 3 == 2).all() for s in scans["dead"])
    assert hall.health("dead").state == "bad"
    assert hall.health("dead").last_good_ms is None
    assert hall.health("slow").state == "good"  # late, but within its period
    told = [entry for entry in logs if entry["event"] == "device unreachable"]
    assert [entry["device"] for entry in told] == ["dead"]


def test_a_device_that_comes_back_is_good_within_its_back_off() -> None:
    async def main(clock: LoopClock) -> tuple[list[str], list]:
        hall = Hall(clock, ["a"])
        task = asyncio.ensure_future(hall.collector.run())
        states = []
        with capture_logs() as logs:
            for health, seconds in (("ok", 20.0), ("dead", 60.0), ("ok", 20.0)):
                hall.plant.health["a"] = health
                await asyncio.sleep(seconds)
                states.append(hall.health("a").state)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return states, [entry["event"] for entry in logs]

    states, events = in_virtual_time(main)
    assert states == ["good", "bad", "good"]
    assert events == ["device unreachable", "device back"]


def test_a_device_that_speaks_up_in_the_first_seconds_is_no_news() -> None:
    async def main(clock: LoopClock) -> tuple[list[str], list]:
        hall = Hall(clock, ["a"])
        hall.plant.health["a"] = "garbage"
        task = asyncio.ensure_future(hall.collector.run())
        states = [hall.health("a").state]
        with capture_logs() as logs:
            for health in ("garbage", "ok"):
                hall.plant.health["a"] = health
                await asyncio.sleep(4.0)
                states.append(hall.health("a").state)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return states, logs

    assert in_virtual_time(main) == (["unknown", "unknown", "good"], [])


def test_a_start_logged_unreachable_and_back_for_every_device() -> None:
    async def main(clock: LoopClock) -> tuple[list, list]:
        hall = Hall(clock, [f"d{i}" for i in range(10)] + ["gone"])
        hall.plant.health.update({f"d{i}": "dead" for i in range(10)}, gone="dead")
        task = asyncio.ensure_future(hall.collector.run())
        with capture_logs() as logs:
            await asyncio.sleep(0.3 * GRACE_S)
            early = list(logs)
            hall.plant.health.update({f"d{i}": "ok" for i in range(10)})
            await asyncio.sleep(6.0 * GRACE_S)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return early, logs

    early, logs = in_virtual_time(main)
    assert early == []
    told = {(e["event"], e["device"]) for e in logs}
    assert told == {("device unreachable", "gone")}


def test_garbage_is_no_answer_and_no_number() -> None:
    async def main(clock: LoopClock) -> Hall:
        hall = Hall(clock, ["a"])
        hall.plant.health["a"] = "garbage"
        await hall.run_for(2.0 * GRACE_S)
        return hall

    hall = in_virtual_time(main)
    assert hall.health("a").state == "bad"
    assert "makes no sense" in hall.health("a").detail
    assert all(bool((scan.values != scan.values).all()) for scan in hall.sink.scans)


def test_every_scan_reaches_image_sink_and_listener_in_order() -> None:
    async def main(clock: LoopClock) -> Hall:
        hall = Hall(clock, ["a", "b"])
        await hall.run_for(30.0)
        return hall

    hall = in_virtual_time(main)
    assert [number for _, _, number in hall.seen] == list(range(1, len(hall.sink.scans) + 1))
    snapshot = hall.image.freeze(0, hall.sink.scans[-1].monotonic_s)
    assert (snapshot.values == 1000.0).all()


def test_polls_are_spread_over_the_period() -> None:
    async def main(clock: LoopClock) -> Hall:
        hall = Hall(clock, [f"d{i}" for i in range(20)])
        await hall.run_for(1.5)
        return hall

    hall = in_virtual_time(main)
    first: dict[str, float] = {}
    for at_s, device, _ in hall.seen:
        first.setdefault(device, at_s)
    assert max(first.values()) - min(first.values()) > 0.5


class Broken(ProfiledDevice):
    """A device with a bug of ours in it."""

    async def read(self, layout: Layout) -> Scan:
        raise ZeroDivisionError


def test_a_bug_in_one_reader_stops_no_other() -> None:
    async def main(clock: LoopClock) -> tuple[Hall, list]:
        hall = Hall(clock, ["a", "b"])
        broken = hall.devices[0]
        broken.__class__ = Broken
        with capture_logs() as logs:
            await hall.run_for(60.0)
        return hall, logs

    hall, logs = in_virtual_time(main)
    assert set(fast_scans(hall)) == {"b"}
    assert hall.health("a").state == "bad"
    assert len([e for e in logs if e["event"] == "reader failed"]) == 2  # one per poll class


def test_a_reader_that_swallows_a_cancellation_ends_all_the_same() -> None:
    class Deaf(ProfiledDevice):
        """As if a timeout of its own ended in the same moment as the first cancellation."""

        reading = asyncio.Event()
        swallowed = 0

        async def read(self, layout: Layout) -> Scan:
            try:
                self.reading.set()
                await asyncio.sleep(0.4)
            except asyncio.CancelledError:
                if self.swallowed:
                    raise
                self.swallowed += 1
            return await super().read(layout)

    async def body(clock: LoopClock) -> tuple[int, bool, float]:
        hall = Hall(clock, ["a", "b"])
        who = Impersonation(PROFILE, "a", hall.plant)
        deaf = Deaf(bind(PROFILE, "a"), SimTransport(who, clock, random.Random(3)), clock)
        both = [deaf, hall.devices[1]]
        collector = Collector(both, hall.image, hall.sink, clock, random.Random(3))
        task = asyncio.ensure_future(collector.run())
        await deaf.reading.wait()
        task.cancel()
        began_s = clock.monotonic_s()
        await asyncio.wait({task}, timeout=30.0)
        return deaf.swallowed, task.cancelled(), clock.monotonic_s() - began_s

    swallowed, ended, took_s = in_virtual_time(body)
    assert (swallowed, ended) == (1, True)
    assert took_s < 2.0


def test_an_urgent_look_comes_at_once_and_moves_no_turn() -> None:
    async def main(clock: LoopClock) -> None:
        hall = Hall(clock, ["a", "b"])
        task = asyncio.ensure_future(hall.collector.run())
        await asyncio.sleep(30.25)
        before = {name: [t for t, who, _ in hall.seen if who == name] for name in ("a", "b")}
        asked_s = clock.monotonic_s()
        assert hall.collector.urgent("a")
        assert not hall.collector.urgent("a"), "once a second is enough"
        assert not hall.collector.urgent("nobody")
        await asyncio.sleep(0.05)
        seen = [(t, who) for t, who, _ in hall.seen if t >= asked_s]
        early = [t for t, who in seen if who == "a"]
        assert len(early) >= 2, "both poll classes"
        assert min(early) - asked_s < 0.02
        await asyncio.sleep(20.0)
        after = [t for t, who, _ in hall.seen if who == "a" and t > asked_s + 0.05]
        turns = {round(t % 1.0, 2) for t in before["a"]}
        assert {round(t % 1.0, 2) for t in after} <= turns
        assert hall.collector.urgent("a"), "and again later"
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    in_virtual_time(main)


async def soon(hall: Hall) -> list[Scan]:
    hall.sink.scans.clear()
    await asyncio.sleep(1.1)
    return fast_scans(hall)["a"]


def test_a_call_while_a_look_is_under_way_is_not_lost() -> None:
    async def main(clock: LoopClock) -> None:
        hall = Hall(clock, ["a"])
        hall.plant.health["a"] = "slow"
        task = asyncio.ensure_future(hall.collector.run())
        await asyncio.sleep(40.0)
        hall.sink.scans.clear()
        await asyncio.sleep(1.05)
        last_s = fast_scans(hall)["a"][-1].monotonic_s
        # A slow look takes 0.6 s of each second: this is in the middle of one.
        await asyncio.sleep(last_s + 0.7 - clock.monotonic_s())
        assert hall.collector.urgent("a")
        looked = [s.monotonic_s - last_s for s in await soon(hall)]
        assert looked == pytest.approx([1.0, 1.6], abs=0.02), "the one under way, and one more"
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    in_virtual_time(main)


def test_turns_that_come_close_together_are_begun_together() -> None:
    async def main(clock: LoopClock) -> Hall:
        hall = Hall(clock, [f"d{i}" for i in range(100)])
        await hall.run_for(20.0)
        return hall

    hall = in_virtual_time(main)
    looks = defaultdict(list)
    for at_s, device, _ in hall.seen:
        if device == "d7":
            looks[device].append(at_s)
    begun = {round(at_s * 1000.0) for at_s, _, _ in hall.seen if at_s > 19.0}
    assert 10 < len(begun) < 40  # some 110 looks a second
    gaps = [b - a for a, b in pairwise(looks["d7"])]
    assert sum(gaps) / len(gaps) > 0.85  # a turn each second, and one each ten: none came early


def test_a_look_that_ends_after_its_period_is_counted_and_named() -> None:
    class Slow(ProfiledDevice):
        """Answers, but not within its period."""

        async def read(self, layout: Layout) -> Scan:
            await asyncio.sleep(1.4 if layout.poll_class == "fast" else 0.0)
            return await super().read(layout)

    async def main(clock: LoopClock) -> tuple[Hall, list]:
        hall = Hall(clock, ["a", "b"])
        hall.devices[0].__class__ = Slow
        with capture_logs() as logs:
            await hall.run_for(60.0)
        return hall, logs

    hall, logs = in_virtual_time(main)
    assert (hall.health("a").state, hall.health("b").state) == ("slow", "good")
    assert hall.health("a").overruns >= 28
    assert hall.health("b").overruns == 0
    told = [entry for entry in logs if entry["event"] == "device slow"]
    assert {entry["device"] for entry in told} == {"a"}


def test_the_agents_own_words_for_why_it_does_not_serve_us_are_shown() -> None:
    async def main(clock: LoopClock) -> Hall:
        hall = Hall(clock, ["ups"])
        hall.plant.health.update(ups="dead")
        hall.devices[0].transport.trouble = "it does not know this user"
        await hall.run_for(30.0)
        return hall

    told = in_virtual_time(main).health("ups")
    assert told.state == "bad"
    assert told.detail.endswith(": it does not know this user")


def test_a_wrong_profile_of_which_nothing_can_be_read_was_called_refused() -> None:
    class Other(ProfiledDevice):
        """Refuses all, and is another."""

        strange = "pdu/a is not for this device but pdu/b"

        async def read(self, layout: Layout) -> Scan:
            scan = await super().read(layout)
            if self.id != "alike":
                scan.quality[:] = quality(Grade.BAD, Flaw.REFUSED)
            return scan

    class Poor(Other):
        """Refuses all, and nobody knows why."""

        strange = ""

    class Onboarding(Hall):
        def device(self, name: str, rng: random.Random) -> ProfiledDevice:
            device = super().device(name, rng)
            device.__class__ = Poor if name == "poor" else Other
            return device

    async def main(clock: LoopClock) -> Hall:
        hall = Onboarding(clock, ["other", "alike", "poor"])
        await hall.run_for(30.0)
        return hall

    hall = in_virtual_time(main)
    assert hall.health("other").detail.endswith(": pdu/a is not for this device but pdu/b")
    assert hall.health("other").state == hall.health("poor").state == "bad"
    assert hall.health("poor").detail.endswith("it answers, but has no such values")
    assert hall.health("alike").state == "good"  # it answers, and yet its health has to tell
    assert hall.health("alike").detail == "pdu/a is not for this device but pdu/b"
