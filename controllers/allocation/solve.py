"""From a problem to a plan: class by class, highest first, then the fallbacks."""

from __future__ import annotations

import numpy as np

from controllers.allocation.fill import fill
from controllers.allocation.plan import Missing, NodePlan, Plan
from controllers.allocation.prices import explain
from controllers.allocation.problem import CLASSES, Problem
from controllers.allocation.rows import Pool, Rows, Violation
from controllers.allocation.stage import Stage, StageResult
from facility.points import FloatArray


def solve(problem: Problem) -> Plan:
    """The best plan; deterministic, so equal problems give equal plans.

    Where the program reaches its iteration limit the class is filled by water instead; where the
    floors do not fit, the plan is the floors and says what is missing.
    """
    return _plan(problem, _caps(problem, linear=True), fallback_w(problem))


def water_fill(problem: Problem) -> Plan:
    """A plan without the linear program: feasible at every step, at most a little worse."""
    return _plan(problem, _caps(problem, linear=False), fallback_w(problem))


def feasible(problem: Problem, caps_w: dict[str, float]) -> Violation | None:
    """The limit that caps (W per GPU by node) break most now, or None when all hold."""
    return Rows(problem).violation(problem.unit_caps(caps_w))


def refusal(problem: Problem, node: str, cap_w: float) -> str | None:
    """Why an override of a node's cap cannot be granted, naming what binds; None when it can.

    It is granted when every other node can still have its floor.
    """
    i = problem.nodes.index(node)
    config = problem.configs[i]
    if not config.min_cap <= cap_w <= config.max_cap:
        return f"{node} accepts {config.min_cap:.0f} to {config.max_cap:.0f} W per GPU"
    u = problem.unit[i]
    if cap_w > problem.units.high[u] and problem.high_because[i].startswith("cooling"):
        return problem.high_because[i]
    caps = problem.units.low.copy()
    caps[u] = cap_w
    broken = Rows(problem).violation(caps)
    if broken is None:
        return None
    case = "in the normal case" if broken.case == "normal" else f"after {broken.case}"
    return f"{broken.element} {case} would be {broken.over_w / 1000.0:.1f} kW over"


def fallback_w(problem: Problem) -> FloatArray:
    """float64[U], W per GPU: what nodes may fall back to by themselves, preventive."""
    alone = problem.for_fallback()
    if np.array_equal(alone.units.low, alone.units.high):
        return alone.units.low
    caps, _, _ = _caps(alone, linear=True)
    return caps


Stages = tuple[FloatArray, list[StageResult], Pool]


def _caps(problem: Problem, *, linear: bool) -> Stages:
    pool = Pool(Rows(problem))
    caps = problem.units.low.copy()
    results: list[StageResult] = []
    if pool.rows.violation(caps) is not None:
        return caps, results, pool
    for rank in reversed(range(len(CLASSES))):
        units = np.flatnonzero(problem.rank == rank)
        if not len(units):
            continue
        result = Stage(problem, pool, caps, units).solve() if linear else None
        if result is None:
            result = fill(problem, pool, caps, units)
        results.append(result)
        caps = result.caps_w
    return caps, results, pool


def _plan(problem: Problem, stages: Stages, fallback: FloatArray) -> Plan:
    caps, results, pool = stages
    broken = pool.rows.violation(caps)
    known = explain(problem, caps, results, pool, fits=broken is None)
    c = problem.units.curves
    tokens = c.served(caps[problem.unit]) * np.array([n.gpus for n in problem.configs])
    nodes = []
    for i, name in enumerate(problem.nodes):
        u = problem.unit[i]
        nodes.append(
            NodePlan(
                node=name,
                cap_w=float(caps[u]),
                fallback_w=float(fallback[u]),
                tokens_per_s=float(tokens[i]) if problem.claimed[i] else None,
                parked=bool(known.parked[u]),
                because=known.because[i],
            )
        )
    missing = None
    if broken is not None:
        missing = Missing(
            broken.element, broken.case, broken.over_w / 1000.0, _would_fix(problem, broken)
        )
    return Plan(
        digest=problem.digest,
        feasible=broken is None,
        policy=problem.policy,
        objective=problem.objective(caps),
        tokens_per_s=float(sum(n.tokens_per_s or 0.0 for n in nodes)),
        nodes=tuple(nodes),
        prices=known.prices,
        missing=missing,
        together=known.together,
    )


def _would_fix(problem: Problem, broken: Violation) -> str:
    """What a person can do about a limit that even the floors break."""
    need = f"{broken.over_w / 1000.0:.1f} kW"
    rows = Rows(problem)
    caps = problem.units.low
    worst = rows.lacking(caps)
    row, over_w = worst if worst is not None else (0, 0.0)
    weights = rows.weights(row)
    able = np.array([n.min_cap for n in problem.configs])
    least = np.zeros(len(caps))
    np.maximum.at(least, problem.unit, able)
    yields = float(np.sum(problem.unit_price(weights) * np.maximum(caps - least, 0.0)))
    is_loop = broken.element in {heat.loop for heat in rows.heat}
    raised = "heat capacity" if is_loop else "rating"
    share = rows.room_share(row)
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
