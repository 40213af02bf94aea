"""Single-cord drills of a running hall: watched each cycle, kept in the store and the audit."""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Any, Final, Protocol

import structlog

from api.cords import Cord, Told
from api.hall import Refused, Unknown
from controllers.cycle.state import CycleInput
from controllers.losses import footprints
from controllers.reconcile.cords import CordWatch, begin, look, unfit
from facility.clock import Clock
from facility.commands import Decision
from facility.cords import CordDrill, CordState, signatures
from facility.site import SiteModel
from facility.store import Store
from facility.store.adapters import committed
from facility.topology import named, suggestion

log = structlog.get_logger(__name__)

SEEN_META: Final = "cords_seen"
LONGEST_MIN: Final = 120.0


class Cycling(Protocol):
    """What of the control loop is needed here."""

    @property
    def inputs(self) -> CycleInput | None:
        """What the last cycle was given."""


class ServiceCords:
    """Implements `api.cords.Cords`."""

    def __init__(
        self, site: SiteModel, store: Store, clock: Clock, config_sha256: str, loop: Cycling
    ) -> None:
        self._site, self._store, self._clock = site, store, clock
        self._sha, self._loop = config_sha256, loop
        self._drill: CordDrill | None = None
        self._watch: CordWatch | None = None
        self._latest: Decision | None = None
        self._signed: dict[tuple[str, str], CordDrill] = {}
        self._since_ms: dict[str, int] = {}
        power = site.facility.power
        loads = {**power.racks, **power.loads}
        self._parents = {(a, b): loads[a].feeds[b] for a, b in site.topology.feeds}

    async def restore(self) -> None:
        """Take over signatures, end what a former run left open, note cords that are new."""
        for drill in await committed(self._store.cord_drills()):
            if drill.running:
                why = {**drill.evidence, "why": "the controller ended while it ran"}
                left = replace(
                    drill, state="interrupted", ended_ms=self._clock.utc_ms(), evidence=why
                )
                await committed(self._store.save_cord_drill(left))
        proved = await committed(self._store.signed_cords())
        self._signed = signatures(proved, self._parents)
        seen = await committed(self._store.meta(SEEN_META))
        known = json.loads(seen or "{}")
        now_ms = self._clock.utc_ms()
        self._since_ms = {
            _as_declared(cord, parent): int(known.get(_as_declared(cord, parent), now_ms))
            for cord, parent in self._parents.items()
        }
        if self._since_ms != known:
            await committed(self._store.set_meta(SEEN_META, json.dumps(self._since_ms)))

    def cords(self) -> Sequence[Cord]:
        """Every cord, in file order."""
        now_ms = self._clock.utc_ms()
        return [
            Cord(
                load,
                feed,
                parent,
                self._site.feed_device[column],
                self._signed.get((load, feed)),
                self._since_ms.get(_as_declared((load, feed), parent), now_ms),
            )
            for column, ((load, feed), parent) in enumerate(self._parents.items())
        ]

    async def listed(self, limit: int = 100) -> Sequence[Told]:
        """The newest first."""
        return [self._told(drill) for drill in await committed(self._store.cord_drills(limit))]

    # ---- what people do ------------------------------------------------------------------------

    async def start(self, load: str, feed: str, minutes: float, by: str, reason: str) -> Told:
        """Begin to watch a cord; see `api.cords`."""
        column = self._column(load, feed)
        if not 1.0 <= minutes <= LONGEST_MIN:
            raise Refused(f"between 1 and {LONGEST_MIN:.0f} minutes", "minutes")
        if self._drill is not None:
            raise Refused(f"{self._drill.name} is being drilled", self._drill.name)
        inputs, decision = self._loop.inputs, self._latest
        if inputs is None or decision is None:
            raise Refused("no cycle has run yet")
        lost = self._strange_losses(decision, column)
        if lost:
            raise Refused(f"{', '.join(lost)} is lost", lost[0])
        if not decision.facts["headroom"]["ok"]:
            raise Refused("N+1 does not hold now: see the headroom", "headroom")
        why = unfit(self._site, inputs.snapshot, column)
        if why:
            raise Refused(why, self._name(column))
        cord = self._site.topology.feeds[column]
        now_ms = self._clock.utc_ms()
        drill = CordDrill(
            uuid.uuid4().hex,
            *cord,
            self._parents[cord],
            by,
            reason,
            now_ms,
            now_ms + round(minutes * 60_000.0),
            self._sha,
        )
        self._drill, self._watch = drill, begin(self._site, inputs.snapshot, column)
        try:
            await committed(self._store.save_cord_drill(drill))
        except BaseException:
            self._drill = self._watch = None
            raise
        return self._told(drill)

    async def cancel(self, drill_id: str, by: str) -> Told:
        """Call it off; see `api.cords`."""
        drill = self._drill
        if drill is None or drill.id != drill_id:
            raise Unknown(f"no drill of a cord with id {drill_id!r} runs")
        ended = replace(
            drill,
            state="cancelled",
            ended_ms=self._clock.utc_ms(),
            evidence={**drill.evidence, "why": f"called off by {by}"},
        )
        self._drill = self._watch = None
        await committed(self._store.save_cord_drill(ended))
        return self._told(ended)

    def _column(self, load: str, feed: str) -> int:
        topology = self._site.topology
        known = named(load, topology.loads)
        if known is None:
            hint = suggestion(load, topology.loads)
            raise Unknown(f"no rack or load {load!r}" + (f"; {hint}" if hint else ""))
        column = topology.feed_index.get((known, feed))
        if column is None:
            feeds = [f for name, f in topology.feeds if name == known]
            raise Unknown(f"{known} has no feed {feed!r}; it has {', '.join(feeds)}")
        return column

    def _name(self, column: int) -> str:
        return "/".join(self._site.topology.feeds[column])

    def _strange_losses(self, decision: Decision, column: int) -> list[str]:
        """Losses that the opening of this cord does not explain."""
        prints = footprints(self._site.topology)
        out = []
        for element in decision.facts.get("losses", {}).get("lost", ()):
            print_ = prints.get(element)
            mine = print_ is not None and print_.feeds[column] and int(print_.feeds.sum()) == 1
            if not mine:
                out.append(str(element))
        return out

    # ---- what the plant does -------------------------------------------------------------------

    def after_cycle(self, decision: Decision) -> None:
        """Look at the cord that is drilled, once a cycle."""
        self._latest = decision
        drill, watch, inputs = self._drill, self._watch, self._loop.inputs
        if drill is None or watch is None or inputs is None:
            return
        lost = self._strange_losses(decision, watch.column)
        if lost:
            self._end("interrupted", why=f"{', '.join(lost)} is lost")
            return
        watch = look(self._site, inputs.snapshot, watch)
        self._watch = watch
        if watch.verdict == "failed":
            self._end("failed", why=watch.why)
        elif watch.verdict == "back":
            self._end("signed")
        elif watch.verdict == "open" and drill.state == "waiting":
            self._drill = replace(drill, state="open", evidence=watch.evidence or {})
            self._keep(self._store.save_cord_drill(self._drill))
        elif self._clock.utc_ms() >= drill.until_ms:
            if drill.state == "open":
                self._end("signed", left_open=True)
            else:
                self._end("expired", why="nothing was opened")

    def _end(self, state: CordState, **more: Any) -> None:
        drill, watch = self._drill, self._watch
        if drill is None or watch is None:
            return
        now_ms = self._clock.utc_ms()
        evidence = {**(watch.evidence or {}), **more}
        ended = replace(drill, state=state, ended_ms=now_ms, evidence=evidence)
        self._drill = self._watch = None
        if state == "signed":
            self._signed[drill.load, drill.feed] = ended
        self._keep(self._store.save_cord_drill(ended))
        detail = {"id": drill.id, "parent": drill.parent, **evidence}
        self._keep(self._store.audit(drill.by, f"cord {state}", drill.name, detail))
        log.info("cord_drilled", cord=drill.name, state=state, why=more.get("why", ""))

    def _keep(self, written: Future[None]) -> None:
        def done(future: Future[None]) -> None:
            error = future.exception()
            if error is not None:
                log.warning("cord_drill_not_kept", error=str(error))

        written.add_done_callback(done)

    def _told(self, drill: CordDrill) -> Told:
        mine = self._drill is not None and self._drill.id == drill.id
        watch = self._watch if mine else None
        return Told(self._drill if mine and self._drill is not None else drill, _text(drill, watch))


def _as_declared(cord: tuple[str, str], parent: str) -> str:
    return f"{cord[0]}/{cord[1]} on {parent}"


def _text(drill: CordDrill, watch: CordWatch | None) -> str:
    """What is so, and what to do."""
    if watch is not None and watch.verdict == "learning":
        return f"Wait: the meters are watched first. Do not open {drill.name} yet."
    if watch is not None and watch.verdict == "ready":
        return f"Open {drill.name} now, and only that. Nothing else may be switched."
    why = str(drill.evidence.get("why", ""))
    words: dict[CordState, str] = {
        "waiting": f"{drill.name} is being watched.",
        "open": f"{drill.name} is open and hangs on {drill.parent}. Close it again.",
        "signed": f"{drill.name} hangs on {drill.parent}: signed off.",
        "failed": f"{drill.name} is not as the file says: {why}. Close what was opened.",
        "expired": f"{drill.name} was not opened in time.",
        "cancelled": f"{drill.name}: {why}.",
        "interrupted": f"{drill.name}: interrupted, {why}.",
    }
    if drill.evidence.get("left_open"):
        return f"{words['signed']} It was still open when its time was up: close it."
    return words[drill.state]
