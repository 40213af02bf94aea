"""From a problem to a plan: class by class, highest first, then the fallbacks."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from controllers.allocation.bounds import COOLING
from controllers.allocation.fill import fill
from controllers.allocation.plan import Missing, NodeColumns, Plan
from controllers.allocation.prices import explain, nothing_fits
from controllers.allocation.problem import CLASSES, Problem
from controllers.allocation.rows import Pool, Rows, Violation
from controllers.allocation.stage import Remembered, Stage, StageResult
from facility.points import FloatArray


class Solver:
    """Solves one question after another, each from what the last one left: rows, prices, basis.

    The caps follow from the prices in closed form, so where it starts from sways them by less than
    the millionth part of a watt; equal problems in a fresh solver give equal plans.
    """

    def __init__(self) -> None:
        self._plan, self._alone = _Kept(), _Kept()
        self._fallback: tuple[Problem, FloatArray] | None = None

    def solve(self, problem: Problem) -> Plan:
        """The best plan.

        Where the program reaches its iteration limit the class is filled by water instead; where
        the floors do not fit, the plan is the floors and says what is missing.
        """
        stages = _caps(problem, linear=True, kept=self._plan.of(problem))
        return _plan(problem, stages, self.fallback_w(problem))

    def fallback_w(self, problem: Problem) -> FloatArray:
        """float64[U], W per GPU: what nodes may fall back to by themselves, preventive."""
        alone = problem.for_fallback()
        if np.array_equal(alone.units.low, alone.units.high):
            return alone.units.low
        if self._fallback is not None and _same_but_load(self._fallback[0], alone):
            return self._fallback[1]
        caps, _, _ = _caps(alone, linear=True, kept=self._alone.of(alone))
        self._fallback = (alone, caps)
        return caps


class _Kept:
    """What the classes of one kind of question left, as long as the rows mean the same."""

    def __init__(self) -> None:
        self._structure: object = None
        self._rows: tuple[object, ...] = ()
        self._classes: dict[int, Remembered] = {}

    def of(self, problem: Problem) -> dict[int, Remembered]:
        """By class; empty where the plant or the nodes are others."""
        structure = problem.shares.structure
        heat = tuple((row.loop, row.case) for row in problem.heat)
        rows = (problem.table, problem.present_only, heat)
        if structure is not self._structure or rows != self._rows:
            self._structure, self._rows, self._classes = structure, rows, {}
        return self._classes


def _same_but_load(one: Problem, other: Problem) -> bool:
    """Whether two fallback problems are one and the same question."""
    same = (
        one.shares.structure is other.shares.structure
        and one.table is other.table
        and one.units.curves is other.units.curves
        and [(r.loop, r.case, r.capacity_w) for r in one.heat]
        == [(r.loop, r.case, r.capacity_w) for r in other.heat]
    )
    pairs = (
        (one.base_w, other.base_w),
        (one.shares.base_w, other.shares.base_w),
        (one.shares.group_w, other.shares.group_w),
        *((a.share, b.share) for a, b in zip(one.heat, other.heat, strict=False)),
    )
    return same and all(np.array_equal(a, b) for a, b in pairs)


def solve(problem: Problem) -> Plan:
    """The best plan; deterministic, so equal problems give equal plans."""
    return Solver().solve(problem)


def water_fill(problem: Problem) -> Plan:
    """A plan without the linear program: feasible at every step, at most a little worse."""
    alone = problem.for_fallback()
    fallback = alone.units.low
    if not np.array_equal(fallback, alone.units.high):
        fallback = _caps(alone, linear=False, kept={})[0]
    return _plan(problem, _caps(problem, linear=False, kept={}), fallback)


def feasible(problem: Problem, caps_w: Mapping[str, float] | FloatArray) -> Violation | None:
    """The limit that caps break most now, or None when all hold.

    Args:
        problem: the question.
        caps_w: W per GPU, by node or float64[N] in the order of the problem's nodes.
    """
    return Rows(problem).violation(problem.unit_caps(caps_w))


def refusal(problem: Problem, node: str, cap_w: float) -> str | None:
    """Why an override of a node's cap cannot be granted, naming what binds; None when it can.

    It is granted when every other node can still have its floor.
    """
    i = problem.table.index[node]
    config = problem.configs[i]
    if not config.min_cap <= cap_w <= config.max_cap:
        return f"{node} accepts {config.min_cap:.0f} to {config.max_cap:.0f} W per GPU"
    u = problem.unit[i]
    if cap_w > problem.units.high[u] and problem.why[u] == COOLING:
        return problem.say_high(np.array([u]))[0]
    caps = problem.units.low.copy()
    caps[u] = cap_w
    broken = Rows(problem).violation(caps)
    if broken is None:
        return None
    case = "in the normal case" if broken.case == "normal" else f"after {broken.case}"
    return f"{broken.element} {case} would be {broken.over_w / 1000.0:.1f} kW over"


Stages = tuple[FloatArray, list[StageResult], Pool]


def _caps(problem: Problem, *, linear: bool, kept: dict[int, Remembered]) -> Stages:
    pool = Pool(Rows(problem))
    caps = problem.units.low.copy()
    results: list[StageResult] = []
    if pool.rows.violation(caps) is not None:
        return caps, results, pool
    for rank in reversed(range(len(CLASSES))):
        units = np.flatnonzero(problem.rank == rank)
        if not len(units):
            continue
        result = None
        if linear:
            memory = kept.setdefault(rank, Remembered.nothing())
            result = Stage(problem, pool, caps, units, memory).solve()
        if result is None:
            result = fill(problem, pool, caps, units)
        results.append(result)
        caps = result.caps_w
    return caps, results, pool


def _plan(problem: Problem, stages: Stages, fallback: FloatArray) -> Plan:
    caps, results, pool = stages
    slack_w = pool.rows.slack_w(problem.load_w(caps))
    broken = pool.rows.violation(caps) if np.any(slack_w < 0.0) else None
    known = explain(problem, caps, results, pool, slack_w)
    unit = problem.unit
    tokens = problem.units.curves.served(caps[unit]) * problem.table.gpus
    claimed = np.where(problem.claimed, tokens, np.nan)
    missing = None if broken is None else _missing(problem, broken)
    return Plan(
        digest=problem.digest,
        feasible=broken is None,
        policy=problem.policy,
        objective=problem.objective(caps),
        tokens_per_s=float(np.sum(tokens[problem.claimed])),
        columns=NodeColumns(
            problem.nodes, caps[unit], fallback[unit], claimed, known.parked[unit], known.because
        ),
        prices=known.prices,
        missing=missing,
        together=known.together,
    )


def floors_lack(problem: Problem) -> tuple[Missing, tuple[str, ...]] | None:
    """What is missing where even the floors do not fit, and what is said of each node's cap."""
    broken = Rows(problem).violation(problem.units.low)
    if broken is None:
        return None
    said = nothing_fits(problem, problem.units.low)
    return _missing(problem, broken), tuple(said[problem.unit].tolist())


def _missing(problem: Problem, broken: Violation) -> Missing:
    return Missing(broken.element, broken.case, broken.over_w / 1000.0, _would_fix(problem, broken))


def _would_fix(problem: Problem, broken: Violation) -> str:
    """What a person can do about a limit that even the floors break."""
    need = f"{broken.over_w / 1000.0:.1f} kW"
    rows = Rows(problem)
    caps = problem.units.low
    worst = rows.lacking(caps)
    row, over_w = worst if worst is not None else (0, 0.0)
    weights = rows.weights([row])[0]
    least = problem.table.least_w
    yields = float(np.sum(problem.unit_price(weights) * np.maximum(caps - least, 0.0)))
    is_loop = broken.element in {heat.loop for heat in rows.heat}
    raised = "heat capacity" if is_loop else "rating"
    share = float(rows.room_share[row])
    place = broken.element if share == 1.0 else f"the fullest phase of {broken.element}"
    off_w = over_w * share
    off = f"{off_w / 1000.0:.1f} kW"
    if yields >= off_w:
        return (
            f"lower floors of nodes on {place} by {off} in all (they can give "
            f"{yields / 1000.0:.1f} kW) or raise its {raised} by {need}"
        )
    loads = weights * problem.load_w(caps)
    heaviest = problem.topology.loads[int(np.argmax(loads))]
    return (
        f"take {off} of load off {place} ({heaviest} puts "
        f"{float(loads.max()) / 1000.0:.1f} kW on it) or raise its {raised} by {need}"
    )
