"""Drills of a running hall: a declared loss, load that comes off, and a clock that runs.

Measured end to end: from the moment a drill is asked for, over the next control cycle, journal,
guard, bus and agent, to the read-back of every cap and to what the rack meters then show.
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Protocol

import numpy as np
import structlog

from api.hall import Refused, Unknown
from controllers.cycle.state import CycleInput, Memory
from controllers.drilling import Shedable, shedable
from controllers.whatif import what_if
from facility.clock import Clock
from facility.commands import Ack, Decision, Outcome, Severity
from facility.drills import LONGEST_S, OVER, Drill, DrillState, Shed, Shedding, shedding, spread
from facility.points import Scan
from facility.site import SiteModel
from facility.store import Store, StoreError
from facility.store.adapters import committed
from facility.topology import named, suggestion

log = structlog.get_logger(__name__)

#: How long caps are given to come back before the next drill may start.
RESTORE_S: Final = 300.0
#: Statuses come each second, and are looked at each second.
READ_BACK_S: Final = 2.5
#: A cap within this share of the one before counts as restored.
BACK: Final = 0.99


class Cycling(Protocol):
    """What of the control loop is needed here."""

    @property
    def memory(self) -> Memory:
        """What the last cycle left."""

    @property
    def inputs(self) -> CycleInput | None:
        """What it was given."""

    def set_shed(self, shed: Shed | None) -> None:
        """Lower caps for a drill, or no more."""

    def set_shedding(self, proof: Shedding | None) -> None:
        """Tell the cycle what drills have proved."""

    def wake(self) -> None:
        """Start the next cycle at once."""


class ServiceDrills:
    """Implements `api.drills.Drills`."""

    def __init__(
        self, site: SiteModel, store: Store, clock: Clock, loop: Cycling, *, allowed: bool
    ) -> None:
        """Wire it.

        Args:
            site: the site.
            store: keeps drills.
            clock: of the process.
            loop: the control loop.
            allowed: whether real sheds may be drilled here.
        """
        self._site, self._store, self._clock, self._loop = site, store, clock, loop
        self._allowed = allowed
        self._drill: Drill | None = None
        self._run: _Run | None = None
        self._task: asyncio.Task[None] | None = None

    async def restore(self) -> None:
        """Close what a former run left open, and tell the cycle what is proved."""
        for drill in await committed(self._store.drills()):
            if drill.state not in OVER:
                report = {**drill.report, "why": "the controller ended while it ran"}
                ended_ms = self._clock.utc_ms()
                left = replace(drill, state="aborted", ended_ms=ended_ms, report=report)
                await committed(self._store.save_drill(left))
        await self._prove()

    async def _prove(self) -> None:
        known = await committed(self._store.drills())
        self._loop.set_shedding(shedding(known, self._clock.utc_ms()))

    def _element(self, name: str) -> str:
        known = self._site.topology.element_index
        found = named(name, known)
        if found is None:
            hint = suggestion(name, known)
            raise Unknown(f"no element {name!r}" + (f"; {hint}" if hint else ""))
        return found

    def _seen(self) -> CycleInput:
        inputs = self._loop.inputs
        if inputs is None:
            raise Refused("no cycle has run yet")
        return inputs

    async def suppose(self, element: str) -> Mapping[str, Any]:
        """What a loss would leave and demand; see `api.drills`."""
        name, inputs = self._element(element), self._seen()
        headroom = what_if(self._site, self._loop.memory, inputs, [name])
        found = shedable(self._site, self._loop.memory, inputs, name)
        return {
            "element": name,
            "headroom": headroom.to_json(),
            "caps": _caps(self._site, found),
            "cleared_w": found.cleared_w,
            "may_drill": not self._refusal(found),
            "because": self._refusal(found) or None,
        }

    def _refusal(self, found: Shedable) -> str:
        if not self._allowed:
            return "this site does not allow drills (control.drills in the facility file)"
        if self._drill is not None:
            return f"a drill of {self._drill.element} is not over yet"
        return found.because

    async def start(self, element: str, by: str, reason: str) -> Drill:
        """Begin a real shed; see `api.drills`."""
        name, inputs = self._element(element), self._seen()
        found = shedable(self._site, self._loop.memory, inputs, name)
        why = self._refusal(found)
        if why:
            raise Refused(why, "drill")
        drill = Drill(uuid.uuid4().hex, name, by, reason, self._clock.utc_ms())
        self._drill = drill
        try:
            await committed(self._store.save_drill(drill))
        except StoreError:
            self._drill = None
            raise
        self._run = _Run(self._site, found, self._clock.monotonic_s())
        self._task = asyncio.create_task(self._work(drill, self._run), name="drill")
        log.warning("drill_started", element=name, by=by, nodes=len(self._run.nodes_left))
        return drill

    async def stop(self, drill_id: str, by: str) -> Drill:
        """Abort the drill that runs; see `api.drills`."""
        if self._drill is None or self._drill.id != drill_id or self._run is None:
            raise Unknown(f"no drill {drill_id!r} runs")
        self._run.abort(f"stopped by {by}")
        return self._drill

    async def listed(self, limit: int = 100) -> Sequence[Drill]:
        """The newest first."""
        return await committed(self._store.drills(limit))

    async def close(self) -> None:
        """End a drill that runs; the next start of the service notes it as aborted."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    # ---- what happens meanwhile ----------------------------------------------------------------

    def heard(self, acks: Iterable[Ack]) -> None:
        """Commands were answered."""
        if self._run is not None:
            self._run.heard(acks, self._clock.monotonic_s())

    def saw(self, scan: Scan) -> None:
        """A device was read."""
        if self._run is not None:
            self._run.saw(scan)

    def after_cycle(self, decision: Decision) -> None:
        """A real alarm ends a drill."""
        if self._run is not None:
            self._run.judge(decision)

    async def _work(self, drill: Drill, run: _Run) -> None:
        try:
            until_s = run.began_s + LONGEST_S
            self._loop.set_shed(Shed(drill.id, drill.element, run.found.caps_w, until_s))
            self._loop.wake()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LONGEST_S):
                    await run.over.wait()
            self._loop.set_shed(None)
            self._loop.wake()
            state: DrillState = "done" if run.complete else "failed"
            if run.why:
                state = "aborted"
            self._run = None
            drill = replace(drill, state="restoring", report=run.report())
            self._drill = drill
            await self._save(drill)
            restored_s = await self._restored(run)
            report = {**drill.report, "restored_s": restored_s}
            ended_ms = self._clock.utc_ms()
            drill = replace(drill, state=state, ended_ms=ended_ms, report=report)
            await self._save(drill)
            await self._prove()
            log.warning("drill_over", element=drill.element, state=state, **drill.report)
        finally:
            self._loop.set_shed(None)
            self._drill = self._run = None

    async def _save(self, drill: Drill) -> None:
        try:
            await committed(self._store.save_drill(drill))
        except StoreError as error:
            log.error("drill_not_kept", drill=drill.id, error=str(error))

    async def _restored(self, run: _Run) -> float | None:
        """Seconds until every cap is back; None: not within RESTORE_S."""
        began_s = self._clock.monotonic_s()
        # What was read back before the shed is still what is known of the caps.
        await asyncio.sleep(READ_BACK_S)
        while (passed_s := self._clock.monotonic_s() - began_s) < RESTORE_S:
            caps = self._loop.memory.caps.readback_w
            lowered = ~np.isnan(run.found.caps_w)
            if bool((caps[lowered] >= BACK * run.found.before_w[lowered]).all()):
                return round(passed_s, 3)
            await asyncio.sleep(1.0)
        return None


class _Run:
    """The clock of one shed.

    Attributes:
        nodes_left, racks_left: not confirmed yet.
        over: set when all is measured, or aborted.
        why: what aborted it; empty if nothing did.
    """

    def __init__(self, site: SiteModel, found: Shedable, began_s: float) -> None:
        self.found, self.began_s, self.why = found, began_s, ""
        self._site = site
        self._target = {node: caps[1] for node, caps in found.caps(site).items()}
        self.nodes_left = set(self._target)
        self.racks_left = {
            site.racks[i]: float(found.allowed_w[i])
            for i in np.flatnonzero(~np.isnan(found.allowed_w)).tolist()
        }
        self._read_back_s: dict[str, float] = {}
        self._fell_s: dict[str, float] = {}
        self._feeds = {
            name: device.measures.rack
            for name, device in site.facility.devices.items()
            if device.measures.feed is not None and device.measures.rack in self.racks_left
        }
        metered = set(self._feeds.values())
        # What no meter shows is proved by the caps alone.
        self.racks_left = {rack: w for rack, w in self.racks_left.items() if rack in metered}
        self._all_racks = tuple(self.racks_left)
        self._meter_w: dict[str, float] = {}
        self.over = asyncio.Event()

    @property
    def complete(self) -> bool:
        """Every cap is read back and every meter has fallen."""
        return not self.nodes_left and not self.racks_left

    def abort(self, why: str) -> None:
        """End it; the first reason stays."""
        self.why = self.why or why
        self.over.set()

    def heard(self, acks: Iterable[Ack], now_s: float) -> None:
        for ack in acks:
            node = ack.command.point.device
            if node not in self.nodes_left or ack.command.point.kind != "power_cap":
                continue
            took = ack.outcome in (Outcome.APPLIED, Outcome.CLAMPED)
            if took and ack.actual is not None and ack.actual <= self._target[node] + 1.0:
                self.nodes_left.discard(node)
                self._read_back_s[node] = now_s - self.began_s
        if self.complete:
            self.over.set()

    def saw(self, scan: Scan) -> None:
        rack = self._feeds.get(scan.layout.device)
        if rack not in self.racks_left or scan.monotonic_s < self.began_s:
            return
        for spec, value in zip(scan.layout.points, scan.values, strict=True):
            if (spec.id.part, spec.id.kind) == ("total", "active_power") and not np.isnan(value):
                self._meter_w[scan.layout.device] = float(value)
        mine = [name for name, other in self._feeds.items() if other == rack]
        read = [self._meter_w[name] for name in mine if name in self._meter_w]
        if len(read) == len(mine) and sum(read) <= self.racks_left[rack]:
            del self.racks_left[rack]
            self._fell_s[rack] = scan.monotonic_s - self.began_s
        if self.complete:
            self.over.set()

    def judge(self, decision: Decision) -> None:
        losses, trust = decision.facts["losses"], decision.facts["trust"]
        if losses["lost"] or losses["suspected"]:
            self.abort(f"{', '.join((*losses['lost'], *losses['suspected']))} may really be lost")
        if trust["blind"]:
            self.abort("meters went blind")
        for event in decision.alarms:
            if event.active and event.severity is Severity.CRITICAL:
                self.abort(f"a real alarm: {event.text}")

    def report(self) -> dict[str, Any]:
        """What was measured; times in s from the start."""
        facility = self._site.facility
        shed_s = [
            max(at_s, self._fell_s.get(facility.nodes[node].rack, at_s))
            for node, at_s in self._read_back_s.items()
        ]
        slowest = sorted(self._read_back_s, key=lambda node: -self._read_back_s[node])[:5]
        return {
            "nodes": len(self._target),
            "racks_metered": len(self._all_racks),
            "cleared_w": round(self.found.cleared_w, 1),
            "read_back_s": spread(self._read_back_s.values()),
            "meters_fell_s": spread(self._fell_s.values()),
            "shed_s": spread(shed_s),
            "slowest": {node: round(self._read_back_s[node], 3) for node in slowest},
            "missing": [*sorted(self.nodes_left), *sorted(self.racks_left)],
            "why": self.why or None,
        }


def _caps(site: SiteModel, found: Shedable) -> list[dict[str, Any]]:
    return [
        {"node": node, "in_force_w": before, "drill_w": after}
        for node, (before, after) in found.caps(site).items()
    ]
