"""The whole cycle on the toy plant, second by second, with plans solved in line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from controllers.cycle import decide
from controllers.cycle.state import CycleInput, FinishedPlan, Memory, answer
from controllers.kept import Kept
from controllers.trips import rested
from facility.commands import Ack, AlarmEvent, Decision, Mode, Override
from facility.drills import Shed, Shedding
from facility.maintenance import Maintenance
from tests.controllers.toy import Toy, site_of, small_hall


@dataclass
class Hall:
    """A toy plant under control.

    Attributes:
        solving: whether questions are answered (one cycle later).
        obey: whether commands reach the plant.
    """

    toy: Toy = field(default_factory=lambda: Toy(site_of(small_hall())))
    modes: Mapping[str, Mode] = field(default_factory=lambda: {"hall": Mode.AUTO})
    overrides: tuple[Override, ...] = ()
    epoch: int | None = 1
    journal_ok: bool = True
    solving: bool = True
    obey: bool = True
    maintenance: tuple[Maintenance, ...] = ()
    shed: Shed | None = None
    shedding: Shedding | None = None

    def __post_init__(self) -> None:
        self.site = self.toy.site
        self.memory = Memory.empty(self.site)
        self.kept: Kept | None = rested(self.site, self.toy.now_ms)
        self.cycle = 0
        self.acks: tuple[Ack, ...] = ()
        self.plan: FinishedPlan | None = None
        self.decisions: list[Decision] = []
        self.events: list[AlarmEvent] = []

    def inputs(self) -> CycleInput:
        return CycleInput(
            cycle=self.cycle,
            snapshot=self.toy.snapshot(),
            now_ms=self.toy.now_ms,
            now_s=self.toy.now_s,
            epoch=self.epoch,
            config_sha256="0" * 64,
            modes=self.modes,
            overrides=self.overrides,
            acks=self.acks,
            plan=self.plan,
            maintenance=self.maintenance,
            journal_ok=self.journal_ok,
            shed=self.shed,
            shedding=self.shedding,
            kept=self.kept,
        )

    def step(self) -> Decision:
        self.cycle += 1
        inputs = self.inputs()
        decision, self.memory, request = decide(self.site, self.memory, inputs)
        self.plan = None
        if request is not None and self.solving:
            self.plan = answer(request)
        self.acks = tuple(self.toy.apply(decision.commands)) if self.obey else ()
        self.decisions.append(decision)
        self.events.extend(decision.alarms)
        self.toy.advance()
        return decision

    def run(self, seconds: int, each: Callable[[Decision], None] | None = None) -> Decision:
        decision = self.step()
        for _ in range(seconds - 1):
            if each is not None:
                each(decision)
            decision = self.step()
        return decision

    def raised(self) -> dict[str, AlarmEvent]:
        return {e.key: e for e in self.events if e.active}

    def commands(self) -> list[str]:
        return [f"{d.cycle}:{c.point}={c.value:g}" for d in self.decisions for c in d.commands]
