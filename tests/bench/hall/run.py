"""Cycles of a made hall: what each one costs, while plans, faults and a loss come and go."""

from __future__ import annotations

import gc
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeVar, cast

import numpy as np

from controllers.cycle import CycleInput, FinishedPlan, Memory, PlanRequest, decide
from controllers.cycle.question import Question
from controllers.cycle.state import answer
from controllers.gpu_caps import caps_in_force
from controllers.headroom import study
from controllers.loads import rack_loads
from facility.commands import Ack, Decision, Mode
from facility.site import SiteModel
from facility.store.rows.as_json import decision_to_json, packed
from facility.topology import Topology
from tests.bench.hall.feed import Feed

T = TypeVar("T")
#: A solver's answer is an input of so many cycles later.
SOLVING_CYCLES = 2


@dataclass
class Costs:
    """Milliseconds of each cycle, and of what belongs to it.

    Attributes:
        cycle: freeze, inputs and decide; cpu: the same in CPU time of the thread.
        freeze: of the image alone; check: one N+1 study with fresh weights.
        intent: a decision with commands as journal text; scan: feeding the image, outside.
        commands: of each cycle; plan: solving a plan, beside the cycle.
    """

    cycle: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    freeze: list[float] = field(default_factory=list)
    check: list[float] = field(default_factory=list)
    intent: list[float] = field(default_factory=list)
    scan: list[float] = field(default_factory=list)
    commands: list[int] = field(default_factory=list)
    plan: list[float] = field(default_factory=list)


class Run:
    """A hall under control; `step` is one second."""

    def __init__(self, site: SiteModel, seed: int = 1) -> None:
        """Start with every cap at its fallback and nothing known."""
        self.site, self.feed = site, Feed(site, seed)
        self.memory = Memory.empty(site)
        self.costs = Costs()
        self.decision: Decision | None = None
        self.cycle = 0
        self._acks: tuple[Ack, ...] = ()
        self._plans: deque[tuple[int, FinishedPlan]] = deque()
        self._plants: dict[tuple[str, ...], Topology] = {}
        self._rng = np.random.default_rng(seed)
        self._asked: PlanRequest | None = None

    def settle(self, cycles: int) -> None:
        """Cycles that are not counted; then what was built counts as permanent."""
        for _ in range(cycles):
            self.step()
        self.costs = Costs(plan=self.costs.plan)
        gc.collect()
        gc.freeze()

    def move_all_caps(self) -> None:
        """The next plan is that of the other policy, which wants other caps nearly everywhere.

        It bears the key of the question that the cycle asked; the plan after it takes caps back.
        """
        assert self._asked is not None
        facility = self.site.facility
        thrifty = facility.controllers.allocation.model_copy(update={"policy": "efficiency"})
        controllers = facility.controllers.model_copy(update={"allocation": thrifty})
        other = facility.model_copy(update={"controllers": controllers})
        question = cast("Question", self._asked.question)
        moved = replace(question, site=replace(self.site, facility=other))
        plan = answer(PlanRequest(self._asked.key, moved))
        self._plans.append((self.cycle + 1, plan))

    def step(self) -> Decision:
        """Scan, freeze, decide, apply."""
        costs, feed, site = self.costs, self.feed, self.site
        self.cycle += 1
        costs.scan.append(_timed(lambda: feed.scan(self._broken()))[1])
        plan = None
        if self._plans and self._plans[0][0] <= self.cycle:
            plan = self._plans.popleft()[1]
        before = self.memory
        cpu_s, began_s = time.thread_time(), time.perf_counter()
        snapshot = feed.image.freeze(feed.now_ms, feed.now_s)
        frozen_s = time.perf_counter()
        inputs = CycleInput(
            cycle=self.cycle,
            snapshot=snapshot,
            now_ms=feed.now_ms,
            now_s=feed.now_s,
            epoch=1,
            config_sha256="0" * 64,
            modes={"hall": Mode.AUTO},
            acks=self._acks,
            plan=plan,
        )
        decision, self.memory, request = decide(site, before, inputs)
        costs.cycle.append(1e3 * (time.perf_counter() - began_s))
        costs.cpu.append(1e3 * (time.thread_time() - cpu_s))
        costs.freeze.append(1e3 * (frozen_s - began_s))
        costs.commands.append(len(decision.commands))
        costs.check.append(self._check(before, inputs, decision))
        if decision.commands:
            costs.intent.append(_timed(lambda: packed(decision_to_json(decision)))[1])
        if request is not None:
            self._asked = request
            finished, took_ms = _timed(lambda: answer(request))
            costs.plan.append(took_ms)
            self._plans.append((self.cycle + SOLVING_CYCLES, finished))
        self._acks = feed.apply(decision.commands)
        feed.advance()
        self.decision = decision
        return decision

    def _broken(self) -> set[str]:
        """Three meters that do not answer this time, now and then."""
        if self._rng.random() < 0.5:
            return set()
        meters = [name for name in self.site.feed_device if name is not None]
        return set(self._rng.choice(meters, 3).tolist())

    def _check(self, before: Memory, inputs: CycleInput, decision: Decision) -> float:
        """What the N+1 study of this cycle took, made once more by itself."""
        site, lost = self.site, tuple(decision.facts["losses"]["lost"])
        topology = self._plants.get(lost) or site.topology.without(lost)
        self._plants[lost] = topology
        force, _ = caps_in_force(
            site, inputs.snapshot, before.caps, inputs.acks, before.meter_bounds_of(site)
        )
        loads = rack_loads(site, inputs.snapshot, force.in_force_w, before.loads)
        headroom, took_ms = _timed(lambda: study(topology, loads.load_w, loads.split))
        assert lost or headroom.binding == _binding(decision)
        return took_ms


def _binding(decision: Decision) -> tuple[str, str, float] | None:
    """What the decision says of the least headroom."""
    told = decision.facts["headroom"]["binding"]
    return None if told is None else (told["element"], told["case"], told["headroom_w"])


def _timed(work: Callable[[], T]) -> tuple[T, float]:
    began_s = time.perf_counter()
    out = work()
    return out, 1e3 * (time.perf_counter() - began_s)
