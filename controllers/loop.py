"""The control loop: freeze, decide, journal the intent, apply, journal the acks. Every cycle.

Applying never blocks the next cycle: each group of writes is a task of its own and its acks are
inputs of a later cycle. Lowerings of a decision are sent and answered before its raises. Any
exception in deciding ends the loop (supervision: FATAL); agents' leases carry the plant.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Final, Protocol

from controllers.allocation import Solver
from controllers.cycle import admit, decide
from controllers.cycle.overrides import Admission
from controllers.cycle.state import CycleInput, FinishedPlan, Memory, PlanRequest, answer
from controllers.kept import Kept
from facility.clock import Clock
from facility.commands import Ack, Command, Decision, Mode, Outcome, Override
from facility.drills import Shed, Shedding
from facility.exact import digest
from facility.maintenance import Maintenance
from facility.ports import Journal, Workers
from facility.recording import Recorder
from facility.site import SiteModel
from facility.snapshot import LiveImage

Apply = Callable[[Sequence[Command]], Awaitable[Sequence[Ack]]]

#: Cycles whose duration is kept for the statistics.
KEPT_CYCLES: Final = 3600
#: How long the first cycle waits for devices that have not been read yet, s.
FIRST_LOOK_S: Final = 5.0
#: What a journal raises when it cannot commit; anything else is a bug and ends the loop.
JOURNAL_ERRORS: Final = (OSError, TimeoutError, ConnectionError)


class Spool(Protocol):
    """Where intents go while the journal cannot be written: a local append-only file."""

    def __call__(self, decision: Decision) -> None:
        """Append one decision; may raise OSError, and then nothing is sent."""


@dataclass(frozen=True, slots=True)
class LoopStats:
    """How the loop does.

    Attributes:
        cycle_ms: duration of each of the last cycles, decide and journal included.
        commands, applied, clamped, rejected, unanswered: writes since the start.
        overruns: cycles that took longer than the period.
    """

    cycles: int
    cycle_ms: tuple[float, ...]
    commands: int
    applied: int
    clamped: int
    rejected: int
    unanswered: int
    overruns: int
    plans: int


class ControlLoop:
    """Runs `decide` at the site's period, or at once when woken."""

    def __init__(
        self,
        site: SiteModel,
        image: LiveImage,
        clock: Clock,
        workers: Workers,
        journal: Journal,
        apply: Apply,
        *,
        config_sha256: str,
        modes: Mapping[str, Mode] | None = None,
        overrides: Sequence[Override] = (),
        maintenance: Sequence[Maintenance] = (),
        sequence_base: int = 0,
        epoch: Callable[[], int | None] = lambda: None,
        spool: Spool | None = None,
        recorder: Recorder | None = None,
        on_cycle: Callable[[Decision], None] | None = None,
        memory: Memory | None = None,
    ) -> None:
        """Wire a loop; `run` starts it.

        Args:
            site: the site.
            image: written by collectors, frozen here.
            clock: of the process.
            workers: where plans are solved.
            journal: commits intents, acks and alarms.
            apply: sends commands, returns one ack each; keeps its own deadlines.
            config_sha256: of the facility file.
            modes: scope -> mode; "hall" defaults to the file's.
            overrides: leases in force.
            maintenance: what people take out, besides the file; planned or open.
            sequence_base: commands' sequences rise above it.
            epoch: the lease held now, None when none is.
            spool: takes intents while the journal fails.
            recorder: records the run.
            on_cycle: told of every decision; must not block.
            memory: to go on with; None: a fresh start.
        """
        self._site, self._image, self._clock = site, image, clock
        self._workers, self._journal, self._apply = workers, journal, apply
        self._sha, self._sequence_base = config_sha256, sequence_base
        hall = {"hall": Mode(site.facility.control.mode)}
        self._modes: dict[str, Mode] = {**hall, **(modes or {})}
        self._overrides = tuple(overrides)
        self._maintenance = tuple(maintenance)
        self._epoch, self._spool = epoch, spool
        self._recorder, self._on_cycle = recorder, on_cycle
        self._memory = Memory.empty(site) if memory is None else memory
        self._away_s: float | None = None
        self._kept: Kept | None = None
        self._shed: Shed | None = None
        self._shedding: Shedding | None = None
        self._wake = asyncio.Event()
        self._acks: list[Ack] = []
        self._unjournalled: list[Ack] = []
        self._writers: set[asyncio.Task[None]] = set()
        # Warm from plan to plan; only the worker that solves touches it, one question at a time.
        self._solver = Solver()
        self._solving: Future[FinishedPlan] | None = None
        self._journal_ok = True
        self._cycle = 0
        self._durations: deque[float] = deque(maxlen=KEPT_CYCLES)
        self._counts: dict[Outcome, int] = dict.fromkeys(Outcome, 0)
        self._sent = self._overruns = self._plans = 0
        self._inputs: CycleInput | None = None
        self.latest: Decision | None = None

    @property
    def memory(self) -> Memory:
        """What the last cycle left."""
        return self._memory

    @property
    def inputs(self) -> CycleInput | None:
        """What the last cycle was given, None before the first."""
        return self._inputs

    @property
    def modes(self) -> Mapping[str, Mode]:
        """Modes in force, by scope."""
        return dict(self._modes)

    @property
    def stats(self) -> LoopStats:
        """How the loop does."""
        return LoopStats(
            self._cycle,
            tuple(self._durations),
            self._sent,
            self._counts[Outcome.APPLIED],
            self._counts[Outcome.CLAMPED],
            self._counts[Outcome.REJECTED],
            self._counts[Outcome.UNANSWERED],
            self._overruns,
            self._plans,
        )

    def wake(self) -> None:
        """Start the next cycle at once (a loss was seen)."""
        self._wake.set()

    def set_modes(self, modes: Mapping[str, Mode]) -> None:
        """Modes from the next cycle on; a scope that is missing has none of its own."""
        self._modes = {"hall": Mode(self._site.facility.control.mode), **modes}

    def set_overrides(self, overrides: Sequence[Override]) -> None:
        """Leases from the next cycle on; ended ones may stay, the cycle drops them."""
        self._overrides = tuple(overrides)

    def set_away(self, seconds: float | None) -> None:
        """How long no controller ran before this one, if the last one ended without a word."""
        self._away_s = seconds

    def set_kept(self, kept: Kept | None) -> None:
        """What the controller before this one left, before the first cycle."""
        self._kept = kept

    def set_maintenance(self, works: Sequence[Maintenance]) -> None:
        """What people take out, from the next cycle on; it starts and ends by itself."""
        self._maintenance = tuple(works)

    def set_shed(self, shed: Shed | None) -> None:
        """What a drill lowers, from the next cycle on; None: no more."""
        self._shed = shed

    def set_shedding(self, proof: Shedding | None) -> None:
        """What drills have proved, from the next cycle on."""
        self._shedding = proof

    def admit(self, override: Override) -> Admission:
        """What an override would get now; changes nothing."""
        if self._inputs is None:
            return Admission(None, "no cycle has run yet")
        return admit(self._site, self._memory, self._inputs, override)

    async def run(self) -> None:
        """Cycle until cancelled; writers under way are finished on the way out."""
        period = self._site.facility.control.period
        await self._first_look()
        try:
            while True:
                started = self._clock.monotonic_s()
                await self.step()
                took = self._clock.monotonic_s() - started
                if took > period:
                    self._overruns += 1
                self._wake.clear()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(max(period - took, 0.0)):
                        await self._wake.wait()
        finally:
            if self._writers:
                await asyncio.wait(self._writers, timeout=5.0)

    async def _first_look(self) -> None:
        """Wait until every device has spoken once, but not for long.

        What has not been asked yet would count as unknown, so as the worst case, and a restart
        would be the hall's largest load step.
        """
        until_s = self._clock.monotonic_s() + FIRST_LOOK_S
        # Collectors write the image by slice; nobody signals that it is complete.
        while not self._image.complete and self._clock.monotonic_s() < until_s:  # noqa: ASYNC110
            await asyncio.sleep(0.1)

    async def step(self) -> Decision:
        """One cycle."""
        started = self._clock.monotonic_s()
        self._cycle += 1
        inputs = self._take_inputs()
        if self._recorder is not None and self._recorder.memory_due(inputs.now_ms):
            self._recorder.memory(inputs.now_ms, self._memory)
        decision, memory, request = decide(self._site, self._memory, inputs)
        self._inputs = inputs
        if self._recorder is not None:
            self._recorder.cycle(inputs.to_json(), digest(decision))
        self._memory, self.latest = memory, decision
        if request is not None and self._solving is None:
            self._ask(request)
        sendable = await self._record(decision)
        if sendable:
            self._sent += len(sendable)
            task = asyncio.create_task(self._write(sendable))
            self._writers.add(task)
            task.add_done_callback(self._written)
        self._durations.append((self._clock.monotonic_s() - started) * 1000.0)
        if self._on_cycle is not None:
            self._on_cycle(decision)
        return decision

    def _written(self, task: asyncio.Task[None]) -> None:
        self._writers.discard(task)
        if not task.cancelled() and task.exception() is not None:
            # Re-raised by the next cycle: a broken writer is a bug, and bugs end the loop.
            self._broken = task.exception()

    _broken: BaseException | None = None

    def _take_inputs(self) -> CycleInput:
        if self._broken is not None:
            raise RuntimeError("a writer failed") from self._broken
        now_ms, now_s = self._clock.utc_ms(), self._clock.monotonic_s()
        acks, self._acks = tuple(self._acks), []
        plan: FinishedPlan | None = None
        if self._solving is not None and self._solving.done():
            plan = self._solving.result()
            self._solving = None
            self._plans += 1
        return CycleInput(
            cycle=self._cycle,
            snapshot=self._image.freeze(now_ms, now_s),
            now_ms=now_ms,
            now_s=now_s,
            epoch=self._epoch(),
            config_sha256=self._sha,
            modes=dict(self._modes),
            overrides=self._overrides,
            acks=acks,
            plan=plan,
            sequence_base=self._sequence_base,
            maintenance=self._maintenance,
            journal_ok=self._journal_ok,
            away_s=self._away_s,
            shed=self._shed,
            shedding=self._shedding,
            # What it says is taken over by the first cycle; a recording need not repeat it.
            kept=self._kept if self._memory.started_s is None else None,
        )

    def _ask(self, request: PlanRequest) -> None:
        self._solving = self._workers.submit(answer, request, self._solver)

    async def _record(self, decision: Decision) -> tuple[Command, ...]:
        """Commit alarms and the intent; the commands that may now be sent.

        Without the journal, lowerings go to the spool and out; raises do not.
        """
        try:
            if self._unjournalled:
                await self._journal.acks(tuple(self._unjournalled))
                self._unjournalled.clear()
            if decision.alarms:
                await self._journal.alarms(decision.alarms)
            if decision.commands or not self._journal_ok:
                await self._journal.intent(decision)
            self._journal_ok = True
            return decision.commands
        except JOURNAL_ERRORS:
            self._journal_ok = False
        lowerings = tuple(c for c in decision.commands if not c.raises)
        if not lowerings or self._spool is None:
            return ()
        try:
            self._spool(replace(decision, commands=lowerings))
        except OSError:
            return ()
        return lowerings

    async def _write(self, commands: Sequence[Command]) -> None:
        """Send lowerings, then raises if each lowering has been answered and was taken."""
        lower = [c for c in commands if not c.raises]
        upper = [c for c in commands if c.raises]
        held = True
        if lower:
            answered = await self._send(lower)
            held = all(a.outcome in (Outcome.APPLIED, Outcome.CLAMPED) for a in answered)
        if upper and held:
            await self._send(upper)

    async def _send(self, commands: Sequence[Command]) -> Sequence[Ack]:
        answered = await self._apply(commands)
        for ack in answered:
            self._counts[ack.outcome] += 1
        self._acks.extend(answered)
        try:
            await self._journal.acks(answered)
        except JOURNAL_ERRORS:
            self._unjournalled.extend(answered)
        return answered
