"""The agent of one node: reads its GPUs, tells once a second, and obeys whoever holds the lease.

All decisions are `drivers.agent.lease`; this is the part that reads clocks, writes limits and
keeps the state file. Limits outlive the agent: whatever ends it, the caps stay.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

import structlog

from drivers.agent.being import Settings as Settings
from drivers.agent.gpu import Board, GpuReading, NvmlPort, TokenCounts, TokenSource
from drivers.agent.lease import (
    Action,
    LowerTo,
    PowerOff,
    Restore,
    SetCap,
    Standing,
    State,
    Verdict,
    boot,
    hear,
    tick,
)
from drivers.agent.outcome import outcome_of
from drivers.agent.priors import Priors
from drivers.agent.protocol import (
    MAX_TTL_S,
    OFFLINE,
    BadMessage,
    Header,
    LeaseMessage,
    Message,
    PowerOffMessage,
    Topics,
    kind_of,
    parse_command,
)
from drivers.agent.report import GpuAck, Status, ack_bytes, gpu_report, status_bytes
from drivers.agent.state import CapState, Saved
from drivers.agent.writer import LimitWriter
from facility.clock import Clock
from facility.ports import Bus

#: Commands waiting to be judged; more are dropped, and would be too old anyway.
QUEUE: Final = 16
#: A status comes at least this often, as a part of the lease's life; and no oftener than that.
BEATS_SHARE: Final = 1.0 / 6.0
LEAST_PERIOD_S: Final = 0.2
#: How often GPUs are looked for anew, besides when one is missing.
LOOK_FOR_S: Final = 60.0

_log = structlog.get_logger("wattkeeper.agent")


class Agent:
    """One node's agent; `run` it until it is cancelled."""

    def __init__(
        self,
        nvml: NvmlPort,
        bus: Bus,
        clock: Clock,
        state: CapState,
        settings: Settings,
        rng: random.Random,
        tokens: TokenSource | None = None,
        on_safe: Callable[[], None] = lambda: None,
        power_off: Callable[[], None] | None = None,
    ) -> None:
        """Wire an agent; nothing is read or written before `run`.

        Args:
            nvml: the node's GPUs.
            bus: a client of its own, with `Topics.birth` and `Topics.will`.
            clock: leases and ages use its monotonic side.
            state: what outlives the agent.
            settings: who it is.
            rng: nonces, phases and the delay before a move to the fallback.
            tokens: the inference engine's counters, if there is one.
            on_safe: called once limits are where they must be before workloads start.
            power_off: starts the site's hook; None: the site has none, the command is refused.
        """
        self._nvml, self._bus, self._clock = nvml, bus, clock
        self._state, self._settings, self._rng = state, settings, rng
        self._tokens = tokens
        self._on_safe = on_safe
        self._power_off = power_off
        self._topics = Topics.of(settings.prefix, settings.node)
        self._writer = LimitWriter(nvml, settings.floor_w)
        self._standing = Standing(fallback_w=settings.fallback_w)
        self._priors = Priors({}, (), settings.node)
        self._boards: Sequence[Board] = ()
        self._looked_s = float("-inf")
        self._to_lower_w: float | None = None
        self._nonces: dict[str, float] = {}
        self._queue: asyncio.Queue[bytes] = asyncio.Queue(QUEUE)
        self._turn = asyncio.Lock()
        self._run = self._word()
        self._sequence = 0
        self._refused = 0
        self._unsaved = False
        self._last_fault = ""
        self._ttl_s = MAX_TTL_S

    @property
    def standing(self) -> Standing:
        """Where the lease machine stands."""
        return self._standing

    async def run(self) -> None:
        """Start up safe, then serve for ever. Cancelling leaves every limit as it is."""
        await self._begin()
        self._on_safe()
        self._bus.subscribe(self._topics.command, self._on_command)
        await self._bus.start()
        listener = asyncio.create_task(self._listen(), name=f"{self._settings.node} commands")
        try:
            # Agents started together must not all report in the same millisecond.
            await asyncio.sleep(self._rng.uniform(0.0, self._settings.period_s))
            await self._beat_for_ever()
        finally:
            listener.cancel()
            await asyncio.gather(listener, return_exceptions=True)
            await self._bus.publish(self._topics.availability, OFFLINE, qos=1, retain=True)
            await self._bus.close()
            await self._nvml.close()

    async def _begin(self) -> None:
        """Take up what the last run left, and lower what must be lowered before anything else."""
        saved = self._state.load()
        if saved is not None:
            standing = saved.standing
            if standing.fallback_w is None or self._settings.fallback_w != saved.configured_w:
                standing = replace(standing, fallback_w=self._settings.fallback_w)
            self._standing = standing
            self._priors = Priors(saved.prior_w, saved.assumed, self._settings.node)
        rebooted = saved is None or saved.boot_id != self._settings.boot_id
        verdict = boot(self._standing, self._now(), rebooted=rebooted, chance=self._rng.random())
        self._standing = verdict.standing
        await self._look_for_gpus()
        if isinstance(verdict.action, LowerTo):
            self._to_lower_w = verdict.action.watts
            await self._lower()
        await self._save()
        _log.info(
            "agent started",
            node=self._settings.node,
            gpus=len(self._boards),
            rebooted=rebooted,
            state=self._standing.state.name.lower(),
        )

    async def _beat_for_ever(self) -> None:
        due_s = self._now()
        while True:
            await self._beat()
            # After a stall the missed statuses are not made up for.
            due_s = max(due_s + self._period_s, self._now())
            await asyncio.sleep(due_s - self._now())

    @property
    def _period_s(self) -> float:
        """Between statuses: several a lease, for a renewal needs a fresh nonce to quote."""
        short_s = max(self._ttl_s * BEATS_SHARE, LEAST_PERIOD_S)
        leased = self._standing.state is State.LEASED
        return min(self._settings.period_s, short_s) if leased else self._settings.period_s

    async def _beat(self) -> None:
        await self._look_for_gpus()
        async with self._turn:
            await self._pass_time()
            if self._to_lower_w is not None:
                await self._lower()
        boards = self._boards
        readings = await asyncio.gather(*(self._nvml.read(board.uuid) for board in boards))
        if any(reading.fault == "gpu_lost" for reading in readings):
            self._looked_s = float("-inf")
        counts = await self._tokens.counts() if self._tokens is not None else None
        await self._bus.publish(self._topics.status, self._status(boards, readings, counts))

    async def _pass_time(self) -> None:
        before = self._standing
        verdict = tick(before, self._now(), self._rng.random())
        await self._settle(verdict)
        if verdict.standing.state is not before.state:
            _log.warning(
                "the lease ended" if before.state is State.LEASED else "the hold ended",
                node=self._settings.node,
                state=verdict.standing.state.name.lower(),
                commanded_w=verdict.standing.commanded_w,
            )
            await self._save()

    async def _listen(self) -> None:
        while True:
            payload = await self._queue.get()
            async with self._turn:
                await self._pass_time()
                await self._obey(payload)

    def _on_command(self, topic: str, payload: bytes, retained: bool) -> None:
        """Queue a command. A retained one is from nobody knows when, so it is refused."""
        if retained or self._queue.full():
            self._refused += 1
        else:
            self._queue.put_nowait(payload)

    async def _obey(self, payload: bytes) -> None:
        """Judge one message, act, and answer."""
        try:
            message = parse_command(payload)
        except BadMessage as error:
            self._refused += 1
            if str(error) != self._last_fault:  # a flood of one kind is one line
                self._last_fault = str(error)
                _log.warning("command is not one", node=self._settings.node, reason=str(error))
            if error.header is not None:
                await self._answer(error.kind, error.header, error.refusal, str(error))
            return
        verdict = hear(self._standing, message, self._now(), self._nonces.get(message.header.nonce))
        if verdict.refusal is None and isinstance(message, PowerOffMessage) and not self._power_off:
            verdict = Verdict(self._standing, refusal="not_allowed")
        if verdict.refusal is not None:
            await self._refuse(message, verdict)
            return
        before, assumed = self._standing, frozenset(self._priors.assumed)
        acks = await self._settle(verdict)
        assumed |= self._priors.assumed
        # Saved before it is acknowledged: what a controller counts on must survive a crash.
        if _worth_saving(before, self._standing):
            await self._save()
        if isinstance(message, LeaseMessage):
            self._ttl_s = message.ttl_s
        else:
            code, detail = outcome_of(acks, verdict.action, assumed)
            await self._answer(kind_of(message), message.header, code, detail, acks)

    async def _refuse(self, message: Message, verdict: Verdict) -> None:
        self._refused += 1
        refusal = str(verdict.refusal)
        standing = verdict.standing
        detail = (
            f"{refusal.replace('_', ' ')}; this node knows epoch {standing.epoch} of"
            f" {standing.owner or 'nobody'}, sequence {standing.sequence}"
        )
        await self._answer(kind_of(message), message.header, refusal, detail)

    async def _answer(
        self, kind: str, header: Header, code: str, detail: str, gpus: Sequence[GpuAck] = ()
    ) -> None:
        payload = ack_bytes(self._settings.node, kind or "?", header, code, detail, gpus)
        await self._bus.publish(self._topics.ack, payload)

    async def _settle(self, verdict: Verdict) -> Sequence[GpuAck]:
        """Take over a verdict: the standing first, then what it asks of the GPUs."""
        self._standing = verdict.standing
        return await self._act(verdict.action) if verdict.action is not None else ()

    async def _act(self, action: Action) -> Sequence[GpuAck]:
        if isinstance(action, LowerTo):
            self._to_lower_w = action.watts
            return await self._lower()
        if isinstance(action, PowerOff):
            _log.warning("power off", node=self._settings.node)
            if self._power_off is not None:
                self._power_off()
            return ()
        self._to_lower_w = None
        if isinstance(action, SetCap):
            await self._keep_prior(assume=True)
            acks = await self._writer.set_all(
                self._boards, action.watts, self._priors.limits_w.keys()
            )
            if self._priors.settle(acks):
                await self._save()
            return acks
        assert isinstance(action, Restore)
        # Whatever was said before the release must not take the node back.
        self._nonces.clear()
        acks = await self._writer.restore(self._boards, self._priors.limits_w)
        self._priors.forget(ack.uuid for ack in acks if ack.answer.fault is None)
        kept_w = self._priors.limits_w
        if kept_w:
            _log.warning("not given back", node=self._settings.node, limits_w=dict(kept_w))
        return acks

    async def _lower(self) -> Sequence[GpuAck]:
        """Bring limits down; GPUs that did not answer are tried again at the next beat."""
        target_w = self._to_lower_w
        if target_w is None:
            return ()
        await self._keep_prior(assume=False)
        acks, complete = await self._writer.lower_all(
            self._boards, target_w, self._priors.limits_w.keys()
        )
        if complete and self._boards:
            self._to_lower_w = None
        return acks

    async def _keep_prior(self, *, assume: bool) -> None:
        """Save the limits that were there before our first write to each GPU.

        A disk that refuses does not stop a cap: protection outranks the way back. The status
        says `unsaved`.
        """
        if await self._priors.find(self._nvml, self._boards, assume=assume):
            await self._save()

    async def _look_for_gpus(self) -> None:
        now_s = self._now()
        if self._boards and now_s - self._looked_s < LOOK_FOR_S:
            return
        self._looked_s = now_s
        found = await self._nvml.boards()
        if found:
            # A GPU that vanished stays known, so that its silence is reported as a fault.
            here = {board.uuid for board in found}
            gone = [board for board in self._boards if board.uuid not in here]
            self._boards = (*found, *gone)

    async def _save(self) -> None:
        settings, priors = self._settings, self._priors
        saved = Saved(
            settings.boot_id,
            self._standing,
            dict(priors.limits_w),
            settings.fallback_w,
            frozenset(priors.assumed),
        )
        self._unsaved = not await self._state.save(saved)

    def _status(
        self,
        boards: Sequence[Board],
        readings: Sequence[GpuReading],
        tokens: TokenCounts | None,
    ) -> bytes:
        now_s = self._now()
        nonce = self._word()
        self._nonces = {n: t for n, t in self._nonces.items() if now_s - t < MAX_TTL_S}
        self._nonces[nonce] = now_s
        self._sequence += 1
        standing = self._standing
        leased = standing.state is State.LEASED
        return status_bytes(
            Status(
                node=self._settings.node,
                run=self._run,
                sequence=self._sequence,
                nonce=nonce,
                utc_ms=self._clock.utc_ms(),
                monotonic_s=now_s,
                state=standing.state,
                owner=standing.owner or None,
                epoch=standing.epoch,
                lease_left_s=standing.lease_until_s - now_s if leased else None,
                fallback_w=standing.fallback_w,
                applied=standing.sequence if standing.sequence >= 0 else None,
                refused=self._refused,
                unsaved=self._unsaved,
                gpus=tuple(
                    gpu_report(
                        board,
                        reading,
                        self._writer.written_w.get(board.uuid),
                        self._priors.limits_w.get(board.uuid),
                        self._priors.origin(board.uuid),
                    )
                    for board, reading in zip(boards, readings, strict=True)
                ),
                tokens=tokens,
            )
        )

    def _word(self) -> str:
        return f"{self._rng.getrandbits(64):016x}"

    def _now(self) -> float:
        return self._clock.monotonic_s()


def _worth_saving(before: Standing, after: Standing) -> bool:
    """Whether a crash now would lose something that the next run needs."""

    def kept(standing: Standing) -> Standing:
        return replace(standing, lease_until_s=0.0, sequence=0, move_at_s=None)

    return kept(before) != kept(after)
