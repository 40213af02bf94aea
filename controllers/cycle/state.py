"""What goes into a cycle, what it remembers, and what it asks of a worker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from controllers.alarms import AlarmMemory
from controllers.allocation import Plan, Problem, Solver
from controllers.cooling import LoopMemory
from controllers.corrective import CorrectiveMemory
from controllers.cycle.poweroff import OffMemory
from controllers.efficiency import EfficiencyMemory
from controllers.gpu_caps import CapMemory
from controllers.kept import Kept
from controllers.loads import LoadsMemory
from controllers.losses import LossMemory
from controllers.reconcile import ReconcileMemory
from controllers.trips import TripMemory, bands_of
from facility.commands import Ack, Mode, Override
from facility.drills import Shed, Shedding
from facility.exact import decode, encode, shape
from facility.maintenance import Maintenance, taken_out
from facility.site import SiteModel
from facility.snapshot import Snapshot


@dataclass(frozen=True)
class FinishedPlan:
    """A solver's answer, with the question's key: what the plant was when it was asked."""

    key: str
    plan: Plan

    def to_json(self) -> dict[str, Any]:
        """For a recording."""
        return {"key": self.key, "plan": self.plan.to_json()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> FinishedPlan:
        """From a recording."""
        return cls(str(data["key"]), Plan.from_json(data["plan"]))


class Solvable(Protocol):
    """A question that can be made into a problem, which takes some milliseconds."""

    @property
    def whole(self) -> Problem:
        """The problem, with the policy's prices."""


@dataclass(frozen=True)
class PlanRequest:
    """A question for a worker: `answer(request)`, to come back as input of a later cycle."""

    key: str
    question: Solvable = field(repr=False)


def answer(request: PlanRequest, solver: Solver | None = None) -> FinishedPlan:
    """Solve a question; runs beside the cycle, deterministic.

    Args:
        request: the question.
        solver: that has answered the questions before, one at a time; None: a fresh one.
    """
    return FinishedPlan(request.key, (solver or Solver()).solve(request.question.whole))


@dataclass(frozen=True)
class CycleInput:
    """Everything that a cycle is given; nothing else may sway it.

    Attributes:
        cycle: number, counts from 1 within a run.
        snapshot: the frozen image.
        epoch: of the hall's lease held now; None: lowering only.
        journal_ok: intents can be committed; if not, lowering only.
        away_s: how long no controller ran before this run; None: unknown, or never one before.
        modes: scope ("hall", "rack:r01", "loop:loop-1") -> mode; the narrower scope wins.
        overrides: operators' leases; those that have ended are dropped by the cycle.
        acks: that arrived since the cycle before.
        plan: newest finished plan, None if none has finished since the cycle before.
        sequence_base: sequences rise above it (and above what memory remembers).
        maintenance: what people take out, besides the file; the cycle sees to start and end.
        shed: what a drill lowers, None when none runs.
        shedding: what drills have proved, None when nothing.
        kept: what the controller before this run left; None: nothing that can be read.
    """

    cycle: int
    snapshot: Snapshot
    now_ms: int
    now_s: float
    epoch: int | None
    config_sha256: str
    modes: Mapping[str, Mode] = field(default_factory=dict)
    overrides: tuple[Override, ...] = ()
    acks: tuple[Ack, ...] = ()
    plan: FinishedPlan | None = None
    sequence_base: int = 0
    maintenance: tuple[Maintenance, ...] = ()
    journal_ok: bool = True
    away_s: float | None = None
    shed: Shed | None = None
    shedding: Shedding | None = None
    kept: Kept | None = None

    @property
    def taken_out(self) -> tuple[str, ...]:
        """What maintenance takes out now, as `Topology.without` takes it; sorted."""
        return taken_out(self.maintenance, self.now_ms)

    @property
    def drilling(self) -> Shed | None:
        """The drill that runs now."""
        return self.shed if self.shed is not None and self.now_s < self.shed.until_s else None

    def to_json(self) -> dict[str, Any]:
        """All but the snapshot, which a replay freezes itself; exact."""
        return {
            "cycle": self.cycle,
            "snapshot": self.snapshot.number,
            "now_ms": self.now_ms,
            "now_s": encode(self.now_s),
            "epoch": self.epoch,
            "config_sha256": self.config_sha256,
            "modes": encode(self.modes),
            "overrides": encode(self.overrides),
            "acks": encode(self.acks),
            "plan": None if self.plan is None else encode(self.plan.to_json()),
            "sequence_base": self.sequence_base,
            "maintenance": encode(self.maintenance),
            "journal_ok": self.journal_ok,
            "away_s": encode(self.away_s),
            "shed": encode(self.shed),
            "shedding": encode(self.shedding),
            "kept": encode(self.kept),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any], snapshot: Snapshot) -> CycleInput:
        """Read back what `to_json` wrote.

        The snapshot takes the number it had then: others may have frozen the image in between.
        """
        return cls(
            cycle=int(data["cycle"]),
            snapshot=replace(snapshot, number=int(data["snapshot"])),
            now_ms=int(data["now_ms"]),
            now_s=decode(float, data["now_s"]),
            epoch=data["epoch"],
            config_sha256=str(data["config_sha256"]),
            modes={scope: Mode(mode) for scope, mode in data["modes"].items()},
            overrides=decode(tuple[Override, ...], data["overrides"]),
            acks=decode(tuple[Ack, ...], data["acks"]),
            plan=None if data["plan"] is None else FinishedPlan.from_json(data["plan"]),
            sequence_base=int(data["sequence_base"]),
            maintenance=decode(tuple[Maintenance, ...], data["maintenance"]),
            journal_ok=bool(data["journal_ok"]),
            away_s=decode(float | None, data["away_s"]),
            shed=decode(Shed | None, data["shed"]),
            shedding=decode(Shedding | None, data["shedding"]),
            kept=decode(Kept | None, data["kept"]),
        )


@dataclass(frozen=True, eq=False)
class Memory:
    """What one cycle leaves for the next.

    Attributes:
        plan: newest plan that was ever usable.
        asked_s: when a plan was last asked for; asked: digest of that question.
        sequence: of the last command.
        epoch: last lease held.
        overrides: ids in force in the cycle before, to notice those that ended.
        last: the last command and when (UTC ms), for people.
        meter_bounds: per node, whether its rack's meter bounds what it draws.
        started_s: monotonic time of the first cycle.
        written_s: set-point that its device forgets -> when it was last sent, monotonic.
    """

    caps: CapMemory
    loads: LoadsMemory
    losses: LossMemory
    loops: tuple[LoopMemory, ...]
    alarms: AlarmMemory
    efficiency: EfficiencyMemory
    trips: TripMemory = field(default_factory=TripMemory)
    reconcile: ReconcileMemory = field(default_factory=ReconcileMemory)
    offs: OffMemory = field(default_factory=OffMemory)
    corrective: CorrectiveMemory = field(default_factory=CorrectiveMemory)
    plan: FinishedPlan | None = None
    asked_s: float | None = None
    asked: str = ""
    sequence: int = 0
    epoch: int | None = None
    overrides: tuple[str, ...] = ()
    last: tuple[str, int] | None = None
    meter_bounds: npt.NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))
    started_s: float | None = None
    written_s: Mapping[str, float] = field(default_factory=dict)

    def meter_bounds_of(self, site: SiteModel) -> npt.NDArray[np.bool_]:
        """bool[N]: the rack's meter showed last cycle that a silent node keeps its caps."""
        if len(self.meter_bounds) != len(site.nodes):
            return np.zeros(len(site.nodes), dtype=np.bool_)
        return self.meter_bounds

    @classmethod
    def empty(cls, site: SiteModel) -> Memory:
        """Of a controller that has just started."""
        return cls(
            caps=CapMemory.empty(len(site.nodes)),
            loads=LoadsMemory.empty(site),
            losses=LossMemory(),
            loops=tuple(LoopMemory.empty(site, loop) for loop in site.loops),
            alarms=AlarmMemory(),
            efficiency=EfficiencyMemory.empty(site),
        )


def to_keep(site: SiteModel, memory: Memory, now_ms: int) -> Kept | None:
    """What the controller after this one must know; None before the first cycle.

    Args:
        site: the site.
        memory: what the last cycle left.
        now_ms: when that was, UTC.
    """
    names, trips = bands_of(site).elements, memory.trips
    if memory.started_s is None:
        return None
    return Kept(
        now_ms,
        dict(zip(names, trips.used.tolist(), strict=True)),
        dict(zip(names, trips.load_w.tolist(), strict=True)),
        memory.loads.overheads.to_keep(site),
    )


def recorded_shape() -> str:
    """A digest of all that a recording holds of the controllers; another one cannot be read."""
    return shape(Memory, CycleInput)
