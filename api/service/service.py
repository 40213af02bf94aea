"""One running hall: collectors, control loop, leases, and what people see and propose of them.

Built by `api.service.wiring`; the same class runs over real protocols and under virtual time.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import structlog

from api.hall import (
    Granted,
    Refused,
    Released,
    SinkTest,
    Unknown,
)
from api.service.absence import Absence
from api.service.cords import ServiceCords
from api.service.drilling import ServiceDrills
from api.service.keeping import ServiceKeeping
from api.service.letting_go import LettingGo, walk_seconds
from api.service.parts import Parts
from api.service.showing import Showing
from api.service.telling import tell
from api.service.tripwire import Tripwire
from api.service.upkeep import ServiceUpkeep
from controllers.cycle import CycleInput, FinishedPlan
from controllers.loop import ControlLoop
from controllers.single_line import single_line
from controllers.whatif import at_most, what_if
from drivers.node import NodeDevice
from facility.commands import Ack, Command, Decision, Mode, Outcome, Override, modes_after
from facility.points import PointId, Scan
from facility.store import StoreError, StoreUnavailable
from facility.store.adapters import committed
from facility.store.records import CycleRecord

log = structlog.get_logger(__name__)

LONGEST_OVERRIDE_MIN = 24 * 60.0
#: A release waits no longer than this for the database, seconds.
JOURNAL_WAIT_S = 2.0


class Service(Showing):
    """Implements `api.hall.Hall`."""

    def __init__(self, parts: Parts, make_loop: Callable[[Service], ControlLoop]) -> None:
        super().__init__(parts)
        self._corrective_s: float | None = None
        self._carried: FinishedPlan | None = None
        self._modes: dict[str, Mode] = {}
        self._overrides: dict[str, Override] = {}
        self._writing: set[asyncio.Task[None]] = set()
        self._tripwire = Tripwire()
        self.letting_go = LettingGo(parts.nodes, parts.facility)
        self.absence = Absence(parts.store, parts.clock, parts.facility.site.name)
        self.loop = make_loop(self)
        allowed = parts.simulated or parts.facility.control.drills == "allowed"
        self.drills = ServiceDrills(
            parts.site, parts.store, parts.clock, self.loop, allowed=allowed
        )
        self.cords = ServiceCords(
            parts.site, parts.store, parts.clock, parts.loaded.sha256, self.loop
        )
        self.keeping = ServiceKeeping(
            parts.site, parts.store, parts.clock, self.loop, simulated=parts.simulated
        )
        self.upkeep = ServiceUpkeep(
            parts.site, parts.store, parts.clock, parts.workers, parts.loaded.sha256, self.loop
        )

    # ---- starting ------------------------------------------------------------------------------

    async def restore(self) -> None:
        """Take over what the database remembers: modes, overrides, alarms, open intents."""
        # A write, so that what was spilled in an outage (a release) is in the database first.
        await committed(self.store.ping())
        for mode in await committed(self.store.modes()):
            self._modes[mode.scope] = mode.mode
        for record in await committed(self.store.overrides(active=True)):
            self._overrides[record.override.id] = record.override
        self._feed.remember(a.event for a in await committed(self.store.alarms(active_only=True)))
        self.loop.set_modes(self._modes)
        self.loop.set_overrides(self.overrides())
        await self.upkeep.restore()
        await self.drills.restore()
        await self.cords.restore()
        await self.keeping.restore()

    async def resolve_open_intents(self) -> None:
        """End commands that a former run sent and never saw answered, by what is read back."""
        acks: list[Ack] = []
        frozen = self._parts.image.freeze(self.clock.utc_ms(), self.clock.monotonic_s())
        for record in await committed(self.store.pending_intents()):
            command = record.command
            reading = frozen.reading(command.point)
            actual = reading.value if reading is not None and reading.good else None
            took = actual is not None and abs(actual - command.value) <= 0.51
            outcome = Outcome.APPLIED if took else Outcome.UNANSWERED
            words = "read back after a restart" if took else "not answered before a restart"
            acks.append(Ack(command, outcome, actual, words, self.clock.utc_ms()))
        if acks:
            await committed(self.store.journal_acks(acks))
            log.info("open_intents_resolved", commands=len(acks))

    def close_recording(self) -> None:
        """Complete the recording of the run, if there is one."""
        if self._parts.recorder is not None:
            self._parts.recorder.close()

    # ---- the loop's hands ----------------------------------------------------------------------

    async def apply(self, commands: Sequence[Command]) -> Sequence[Ack]:
        """Send commands, all devices at once; one ack each."""
        return await asyncio.gather(*(self._apply_one(command) for command in commands))

    async def _apply_one(self, command: Command) -> Ack:
        device = self._parts.devices.get(command.point.device)
        if device is None:
            return Ack(command, Outcome.REJECTED, None, "no such device", self.clock.utc_ms())
        ack = await device.write(command)
        self.drills.heard([ack])
        return ack

    def after_cycle(self, decision: Decision) -> None:
        """Tell listeners, and let leases carry the plan's fallbacks."""
        self._cycle_s = self.clock.monotonic_s()
        self._count(decision)
        self.drills.after_cycle(decision)
        self.cords.after_cycle(decision)
        tell(decision)
        plan = self.loop.memory.plan
        if plan is not None and plan is not self._carried:
            self._carried = plan
            for name, fallback_w in plan.plan.fallback_w.items():
                if name in self._parts.nodes:
                    self._parts.nodes[name].set_fallback(fallback_w)
        self._set_leases(decision.facts["corrective"]["lease_s"])
        self._feed.publish(decision)

    def _set_leases(self, corrective_s: float | None) -> None:
        """In corrective mode leases are short, and orphaned nodes drop to their fallback at once.

        Before the mode may engage, not after: a lease of the time before would outlive a shed.
        """
        if corrective_s == self._corrective_s:
            return
        self._corrective_s = corrective_s
        agents = self.facility.agents
        for node in self.nodes.values():
            if corrective_s is None:
                node.set_lease(agents.lease, agents.hold, walk_seconds(self.facility))
            else:
                node.set_lease(min(agents.lease, corrective_s), 0.0, 0.0)

    def _count(self, decision: Decision) -> None:
        """Leave a row per cycle; an outage is the journal's to report, not this row's."""
        record = CycleRecord(
            self._parts.lease.epoch or 0, decision.cycle, decision.now_ms, decision.last_scan
        )
        self.store.journal_cycle(record).add_done_callback(lambda done: done.exception())

    def notice(self, scan: Scan, number: int) -> None:
        """Wake the loop at once when a power meter has just gone dark."""
        if self._tripwire.touched_by(scan):
            self.loop.wake()
        self.drills.saw(scan)

    # ---- what people propose -------------------------------------------------------------------

    def overrides(self) -> Sequence[Override]:
        """Leases of people that are in force."""
        now_ms = self.clock.utc_ms()
        return [o for o in self._overrides.values() if o.until_ms > now_ms]

    async def what_if(self, fail: Sequence[str]) -> Mapping[str, Any]:
        """Headroom for the present load with these elements lost."""
        inputs = self._asked_of(fail)
        return what_if(self._parts.site, self.loop.memory, inputs, fail).to_json()

    async def single_line(self, fail: Sequence[str]) -> Mapping[str, Any]:
        """The single-line diagram as data; caps that would follow are solved in a worker."""
        inputs, memory, site = self._asked_of(fail), self.loop.memory, self._parts.site
        work = self._parts.workers.submit(lambda: single_line(site, memory, inputs, fail))
        return await asyncio.wrap_future(work)

    def _asked_of(self, fail: Sequence[str]) -> CycleInput:
        """What the last cycle was given, when every element asked about exists."""
        unknown = [e for e in fail if e not in self._parts.site.topology.element_index]
        if unknown:
            raise Unknown(f"no element {unknown[0]!r}")
        if self.loop.inputs is None:
            raise Refused("no cycle has run yet")
        return self.loop.inputs

    def _known_scope(self, scope: str) -> None:
        if scope not in self.scopes():
            raise Unknown(f"no scope {scope!r}")

    def scopes(self) -> tuple[str, ...]:
        """Everything that a mode or a release can name."""
        racks = (f"rack:{r}" for r in self.facility.power.racks)
        loops = (f"loop:{name}" for name in self.facility.cooling.loops)
        return ("hall", *racks, *loops)

    async def set_mode(self, scope: str, mode: Mode, by: str, reason: str) -> None:
        """Change who acts in a scope; kept in the database before it counts."""
        self._known_scope(scope)
        if mode is Mode.AUTO and not self.facility.control.enabled:
            raise Refused("the facility file does not enable control", "control.enabled")
        if mode is Mode.ADVISE:
            raise Refused("advise is not offered by this release; use observe", "mode")
        await committed(self.store.set_mode(scope, mode, by, reason))
        self._take_mode(scope, mode)

    def _take_mode(self, scope: str, mode: Mode) -> None:
        self._modes = modes_after(self._modes, scope, mode)
        self.loop.set_modes(self._modes)
        if mode is Mode.AUTO:
            taken = [node for node in self._nodes_in(scope) if self._acts_on(node)]
            self.letting_go.keep(taken)
            for node in taken:
                node.resume()
        self.loop.wake()

    def _acts_on(self, node: NodeDevice) -> bool:
        point = self._parts.site.cap_points[self._parts.site.node_index[node.id]]
        return self._parts.site.mode_of(point, self.loop.modes) is Mode.AUTO

    def _nodes_in(self, scope: str) -> list[NodeDevice]:
        kind, _, name = scope.partition(":")
        if kind == "hall":
            return list(self._parts.nodes.values())
        if kind != "rack":
            return []
        return [
            node
            for node_id, node in self._parts.nodes.items()
            if self.facility.nodes[node_id].rack == name
        ]

    async def add_override(
        self, point: PointId, value: float, minutes: float, by: str, reason: str
    ) -> Granted:
        """Hold a writable point at a value for a while."""
        if not np.isfinite(value):
            raise Refused("a value must be a finite number", "value")
        if not 0.0 < minutes <= LONGEST_OVERRIDE_MIN:
            raise Refused(f"between 0 and {LONGEST_OVERRIDE_MIN:.0f} minutes", "minutes")
        index = self.table.index.get(point)
        if index is None:
            raise Unknown(f"no point {point}")
        if not self.table.specs[index].writable:
            raise Refused(f"{point} cannot be written", "profile")
        now_ms = self.clock.utc_ms()
        lease = Override(
            uuid.uuid4().hex, point, value, by, reason, now_ms, now_ms + round(minutes * 60_000)
        )
        admission = self.loop.admit(lease)
        if admission.granted is None:
            raise Refused(admission.bounded_by, admission.bounded_by)
        granted = Override(
            lease.id, point, admission.granted, by, reason, lease.since_ms, lease.until_ms
        )
        await committed(self.store.add_override(granted))
        self._overrides[granted.id] = granted
        self._use_overrides()
        return Granted(granted, value, admission.bounded_by or None)

    async def cancel_override(self, override_id: str, by: str) -> Override:
        """End an override now."""
        override = self._overrides.get(override_id)
        if override is None or override.until_ms <= self.clock.utc_ms():
            raise Unknown(f"no override {override_id!r} in force")
        await committed(self.store.end_override(override_id, by))
        del self._overrides[override_id]
        self._use_overrides()
        return override

    def _use_overrides(self) -> None:
        self.loop.set_overrides(self.overrides())
        self.loop.wake()

    def release_preview(self, scope: str) -> Released:
        """What `release` would do."""
        self._known_scope(scope)
        nodes, inputs, most = self._nodes_in(scope), self.loop.inputs, None
        if inputs is not None:
            rising = {node.id for node in self.letting_go.leaving(nodes)}
            most = at_most(self._parts.site, self.loop.memory, inputs, rising)
        return self.letting_go.preview(scope, nodes, self._loops_in(scope), most)

    async def release(self, scope: str, by: str, reason: str) -> Released:
        """Give everything in a scope back to local control, database or not.

        The mode is off when this returns; nodes follow in turns, inside the site's ramp.
        """
        planned = self.release_preview(scope)
        self._take_mode(scope, Mode.OFF)
        self.letting_go.add(self._nodes_in(scope))
        kept = asyncio.ensure_future(self._keep_mode_off(scope, by, reason))
        self._writing.add(kept)
        kept.add_done_callback(self._writing.discard)
        await asyncio.wait({kept}, timeout=JOURNAL_WAIT_S)
        return planned

    async def _keep_mode_off(self, scope: str, by: str, reason: str) -> None:
        try:
            await committed(self.store.release(scope, by, reason))
        except StoreUnavailable as error:
            log.warning("release_not_journalled", scope=scope, spilled=error.spilled)
        except (StoreError, OSError) as error:
            log.warning("release_not_journalled", scope=scope, error=str(error))

    def _loops_in(self, scope: str) -> list[str]:
        kind, _, name = scope.partition(":")
        if kind == "hall":
            return list(self.facility.cooling.loops)
        return [name] if kind == "loop" else []

    async def test_webhook(self, sink: str) -> SinkTest:
        """Send one signed message of type `test` to a sink."""
        return await self._parts.courier.test(sink)
