"""Reads every device at its own pace and puts what it saw into the image and the store.

One task per device and poll class, spread over the period. A task waits only for its own device,
so a dead or slow one changes nobody else's period; how long it is left alone is the transport's
business (`drivers.transport.Patience`), and here its reads simply come back at once, all BAD.

Readers whose turns come close together are woken together (`_Beats`): to wake a sleeping process
costs as much as to read a device.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol, runtime_checkable

import structlog

from drivers.physics import Doubt, physics_of
from drivers.transport import Counting, Troubled
from facility.clock import Clock
from facility.flaw_words import words_for
from facility.points import Flaw, Grade, Layout, Scan, flaw_of
from facility.ports import Device, SampleSink
from facility.snapshot import LiveImage

log = structlog.get_logger(__name__)

OnScan = Callable[[Scan, int], None]

#: a look that fails once may be a lost datagram; this many in a row are a dead device
DEAD_AFTER: Final = 2
#: a start takes a moment on every side (links, brokers, agents, our own loop); until then neither
#: the silence of a device that was never heard nor a slow look is news, seconds
GRACE_S: Final = 10.0
#: waits after a fault of our own in a reader, seconds
FIRST_RESTART_S: Final = 1.0
LONGEST_RESTART_S: Final = 60.0
#: a reader that still runs this long after it was cancelled is cancelled again, seconds
CANCEL_AGAIN_S: Final = 0.5
#: turns are put off by no more than this, so that several are begun at once, seconds
SHORTEST_BEAT_S: Final = 0.005
LONGEST_BEAT_S: Final = 0.05
#: looks that are begun at once where there are many: answers that come together fill a buffer
LOOKS_A_BEAT: Final = 32
#: a device is not looked at out of turn more often than this, whoever asks, seconds
URGENT_EVERY_S: Final = 1.0


@runtime_checkable
class Strange(Protocol):
    """A device that may be another than the facility file says."""

    @property
    def strange(self) -> str:
        """What does not fit, in words; empty when all does."""


@dataclass(frozen=True, slots=True)
class DeviceHealth:
    """How a device answers.

    Attributes:
        state: "good", "slow" (a look takes longer than its period), "bad" (it does not answer),
            or "unknown" (not asked yet, or not heard in the first seconds).
        last_good_ms: UTC ms of the last scan with a value in it; None if there was none.
        failures: consecutive looks without an answer, of its worst poll class.
        overruns: looks that ended later than a period after their turn, since start.
        look_s: how long after its turn the last look ended, of its slowest poll class, seconds.
        detail: the last fault in words, empty when there is none.
        doubts: checks of physics that its readings fail, in words.
        odd: what was odd in its answers since start, by name: it may be well, and miscount them.
    """

    id: str
    endpoint: str
    state: str
    last_good_ms: int | None
    failures: int = 0
    overruns: int = 0
    detail: str = ""
    look_s: float = 0.0
    doubts: tuple[str, ...] = ()
    odd: Mapping[str, int] = field(default_factory=dict)


class _Beats:
    """Wakes whoever is due within the same few milliseconds by one timer."""

    def __init__(self, clock: Clock, step_s: float) -> None:
        self._clock = clock
        self._step_s = step_s
        self._due: dict[int, list[asyncio.Future[bool]]] = {}

    def call(self, nap: asyncio.Future[bool], due_s: float) -> None:
        """End a nap, with False, at the first beat that is not before `due_s` (monotonic)."""
        beat = math.ceil(due_s / self._step_s)
        naps = self._due.get(beat)
        if naps is None:
            naps = self._due[beat] = []
            wait_s = max(beat * self._step_s - self._clock.monotonic_s(), 0.0)
            asyncio.get_running_loop().call_later(wait_s, self._ring, beat)
        naps.append(nap)

    def _ring(self, beat: int) -> None:
        for nap in self._due.pop(beat):
            _end_nap(nap, False)


def _beat_s(periods_s: Sequence[float]) -> float:
    """Seconds from beat to beat for readers with these periods."""
    looks_per_s = sum(1.0 / period_s for period_s in periods_s)
    together_s = LOOKS_A_BEAT / max(looks_per_s, 1e-9)
    step_s = min(max(together_s, SHORTEST_BEAT_S), LONGEST_BEAT_S)
    return min(step_s, 0.1 * min(periods_s, default=1.0))


class _Watch:
    """What is known of one device; its readers write here."""

    def __init__(self, device: Device, beats: _Beats) -> None:
        self.device = device
        # Asking a protocol at each look costs as much as the look.
        self.stranger = device if isinstance(device, Strange) else None
        self.physics = physics_of(device)
        self.doubts: tuple[Doubt, ...] = ()
        self._beats = beats
        self.failures: dict[str, int] = {}
        self.late: dict[str, bool] = {}
        self.named_slow: set[str] = set()
        self.overruns = 0
        self.look_s: dict[str, float] = {}
        self.last_good_ms: int | None = None
        self.first_look_s: float | None = None
        self.last_look_s = 0.0
        self.detail = ""
        self.reported = False
        self.urgent_s = -math.inf
        self.calls = 0
        self._naps: set[asyncio.Future[bool]] = set()

    async def nap(self, due_s: float) -> bool:
        """Sleep until the beat that is due; True when `wake` ended it before its time."""
        nap: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._beats.call(nap, due_s)
        self._naps.add(nap)
        try:
            return await nap
        finally:
            self._naps.discard(nap)

    def wake(self) -> None:
        """End the naps of all its readers; those that read now will look once more."""
        self.calls += 1
        for nap in self._naps:
            _end_nap(nap, True)

    def judged(self, scan: Scan) -> Scan:
        """The scan, with what contradicts physics marked; news of that are logged once."""
        if self.physics is None:
            return scan
        judged = self.physics.judge(scan)
        doubts = self.physics.doubts
        if doubts is not self.doubts:
            before = {(d.check, d.part) for d in self.doubts}
            for doubt in doubts:
                if (doubt.check, doubt.part) not in before:
                    log.warning("readings contradict", device=self.device.id, detail=str(doubt))
            if before and not doubts:
                log.info("readings agree again", device=self.device.id)
            self.doubts = doubts
        return judged

    def is_new(self) -> bool:
        """Whether it has been watched for no longer than a start takes."""
        return self.first_look_s is None or self.last_look_s - self.first_look_s < GRACE_S

    def state(self) -> str:
        """How it answers, in one word; see `DeviceHealth`."""
        worst = max(self.failures.values(), default=0)
        never_heard = self.last_good_ms is None and worst > 0
        if not self.failures or (never_heard and self.is_new()):
            return "unknown"
        if worst >= DEAD_AFTER:
            return "bad"
        return "slow" if any(self.late.values()) else "good"

    def health(self) -> DeviceHealth:
        state = self.state()
        strange = "" if self.stranger is None else self.stranger.strange
        return DeviceHealth(
            self.device.id,
            self.device.endpoint,
            state,
            self.last_good_ms,
            max(self.failures.values(), default=0),
            self.overruns,
            self.detail if state in ("bad", "slow") else strange,
            max(self.look_s.values(), default=0.0),
            tuple(str(doubt) for doubt in self.doubts),
            dict(self.device.odd) if isinstance(self.device, Counting) else {},
        )


def _end_nap(nap: asyncio.Future[bool], woken: bool) -> None:
    if not nap.done():
        nap.set_result(woken)


class Collector:
    """Keeps a live image of a set of devices."""

    def __init__(
        self,
        devices: Sequence[Device],
        image: LiveImage,
        sink: SampleSink,
        clock: Clock,
        rng: random.Random,
        on_scan: OnScan | None = None,
    ) -> None:
        """Take the devices; `on_scan(scan, number)` is called for each scan put into the image."""
        self._image = image
        self._sink = sink
        self._clock = clock
        self._rng = rng
        self._on_scan = on_scan
        periods = [device.period_s(layout) for device in devices for layout in device.layouts]
        beats = _Beats(clock, _beat_s(periods))
        self._watches = tuple(_Watch(device, beats) for device in devices)
        self._by_name = {watch.device.id: watch for watch in self._watches}

    async def run(self) -> None:
        """Read until cancelled; closes every device on the way out."""
        readers = [
            asyncio.create_task(self._keep(watch, layout))
            for watch in self._watches
            for layout in watch.device.layouts
        ]
        try:
            await asyncio.gather(*readers)
        finally:
            await _end(readers)
            for watch in self._watches:
                await watch.device.close()

    def health(self) -> list[DeviceHealth]:
        """How each device answers, in the order they were given."""
        return [watch.health() for watch in self._watches]

    def urgent(self, device: str) -> bool:
        """Look at a device now, out of turn; its own turns stay where they are.

        Returns:
            False when it was looked at out of turn a moment ago, or is not one of ours.
        """
        watch = self._by_name.get(device)
        now_s = self._clock.monotonic_s()
        if watch is None or now_s - watch.urgent_s < URGENT_EVERY_S:
            return False
        watch.urgent_s = now_s
        watch.wake()
        return True

    async def _keep(self, watch: _Watch, layout: Layout) -> None:
        """Read one layout for ever; a fault of ours is logged once and tried again."""
        wait_s = FIRST_RESTART_S
        while True:
            try:
                await self._read_on(watch, layout)
            except Exception as error:
                if wait_s == FIRST_RESTART_S:
                    log.exception("reader failed", device=watch.device.id, layout=layout.poll_class)
                watch.failures[layout.key] = DEAD_AFTER
                watch.last_look_s = self._clock.monotonic_s()
                watch.first_look_s = watch.last_look_s - GRACE_S
                watch.detail = f"fault in its reader: {error!r}"
            await asyncio.sleep(wait_s * self._rng.uniform(0.8, 1.2))
            wait_s = min(2.0 * wait_s, LONGEST_RESTART_S)

    async def _read_on(self, watch: _Watch, layout: Layout) -> None:
        period_s = watch.device.period_s(layout)
        due_s = self._clock.monotonic_s() + self._rng.uniform(0.0, period_s)
        calls = watch.calls
        while True:
            urgent = calls != watch.calls
            if not urgent:
                urgent = await watch.nap(due_s)
            calls = watch.calls
            # A turn counts from when it was due: one that had to wait for us is late as well.
            from_s = self._clock.monotonic_s() if urgent else due_s
            scan = watch.judged(await watch.device.read(layout))
            took_s = self._clock.monotonic_s() - from_s
            number = self._image.update(scan)
            self._sink.put(scan)
            self._note(watch, scan, took_s, period_s)
            if self._on_scan is not None:
                self._on_scan(scan, number)
            if urgent and self._clock.monotonic_s() < due_s:
                continue
            # An overrun skips the turns that it missed; it never catches up in a burst.
            due_s += period_s * max(1.0, -((due_s - self._clock.monotonic_s()) // period_s))

    def _note(self, watch: _Watch, scan: Scan, took_s: float, period_s: float) -> None:
        key, device = scan.layout.key, watch.device
        watch.last_look_s = self._clock.monotonic_s()
        watch.look_s[key] = took_s
        if watch.first_look_s is None:
            watch.first_look_s = watch.last_look_s
        fine = not scan.quality.any()
        spoke = fine or answered(scan)
        late = took_s > period_s
        if spoke:
            watch.failures[key] = 0
            if fine or bool(((scan.quality & 0b11) != int(Grade.BAD)).any()):
                watch.last_good_ms = scan.received_ms
        else:
            watch.failures[key] = watch.failures.get(key, 0) + 1
            flaw = flaw_of(int(scan.quality[0])) if len(scan.quality) else Flaw.TIMEOUT
            why = device.trouble if isinstance(device, Troubled) else ""
            why = why or words_for(flaw)
            if flaw is Flaw.REFUSED and watch.stranger is not None:
                why = watch.stranger.strange or why
            watch.detail = f"{device.endpoint}: {why}"
        if late:
            watch.overruns += 1
            if spoke:
                watch.detail = (
                    f"a look took {took_s:.2f} s from its turn; one is due each {period_s:g} s"
                )
                if key not in watch.named_slow and not watch.is_new():
                    watch.named_slow.add(key)
                    log.warning("device slow", device=device.id, detail=watch.detail)
        else:
            watch.named_slow.discard(key)
        if spoke and watch.stranger is not None and watch.stranger.strange:
            watch.detail = watch.stranger.strange
        watch.late[key] = late and spoke
        state = watch.state()
        if state == "bad" and not watch.reported:
            watch.reported = True
            log.warning("device unreachable", device=device.id, detail=watch.detail)
        elif watch.reported and state in ("good", "slow"):
            watch.reported = False
            log.info("device back", device=device.id)


async def _end(tasks: Sequence[asyncio.Task[None]]) -> None:
    """Cancel tasks until they have ended: a library's timeout may swallow one cancellation."""
    pending = {task for task in tasks if not task.done()}
    while pending:
        for task in pending:
            task.cancel()
        _, pending = await asyncio.wait(pending, timeout=CANCEL_AGAIN_S)


def answered(scan: Scan) -> bool:
    """Whether the device spoke: a value, or its own word for "no value", at any point."""
    grades, flaws = scan.quality & 0b11, scan.quality >> 2
    spoke = (grades != int(Grade.BAD)) | (flaws == int(Flaw.SENTINEL))
    return bool(spoke.any()) or not len(scan.layout)
