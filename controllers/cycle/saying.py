"""A cycle's facts: plain numbers and sentences for people, the page and the API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from controllers.alarms import AlarmMemory
from controllers.cooling import LoopOutcome
from controllers.cycle.deeds import Teller
from controllers.cycle.plant import Plant
from controllers.cycle.plight import critical, plight
from controllers.cycle.state import CycleInput, FinishedPlan
from controllers.cycle.wanted import Wanted
from controllers.gpu_caps import CapForce
from controllers.headroom import Headroom, sentence
from controllers.loads import RackLoads
from facility.commands import Mode
from facility.lazily import Lazily
from facility.points import PointId
from facility.site import SiteModel
from facility.snapshot import Snapshot


def trust(snapshot: Snapshot, blind: Sequence[str]) -> dict[str, Any]:
    """How far the data can be believed."""
    grades = snapshot.quality & 0b11
    total = len(grades)
    good, suspect, bad = (int(np.count_nonzero(grades == g)) for g in (0, 1, 2))
    if bad == 0 and suspect == 0:
        text = f"All {total} points are good."
    else:
        share = 100.0 * good / total if total else 0.0
        text = f"{share:.1f} % of {total} points are good; {bad} missing, {suspect} doubtful."
    if blind:
        text += f" Blind: {', '.join(blind[:5])}."
    return {
        "points": total,
        "good": good,
        "suspect": suspect,
        "bad": bad,
        "blind": list(blind),
        "text": text,
    }


def allocation(
    site: SiteModel,
    wanted: Wanted,
    finished: FinishedPlan | None,
    force: CapForce,
    waiting: str,
) -> Mapping[str, Any]:
    """The caps: in force, wanted, and where they come from."""
    plan = None if finished is None else finished.plan

    def nodes() -> dict[str, Any]:
        columns = (
            force.in_force_w.tolist(),
            wanted.desired_w.tolist(),
            force.readback_w.tolist(),
            site.fallback_w.tolist(),
            force.silent.tolist(),
            wanted.reasons.of(range(len(site.nodes))),
        )
        return {
            name: {
                "cap_w": cap_w,
                "wanted_w": wanted_w,
                "readback_w": _number(readback_w),
                "fallback_w": fallback_w,
                "silent": silent,
                "because": because,
            }
            for name, cap_w, wanted_w, readback_w, fallback_w, silent, because in zip(
                site.nodes, *columns, strict=True
            )
        }

    return Lazily(
        {
            "plan": None,
            "feasible": wanted.shortfall is None,
            "missing": None if wanted.shortfall is None else dict(wanted.shortfall),
            "policy": site.facility.controllers.allocation.policy,
            "prices": None,
            "together": None,
            "used": wanted.used,
            "waiting": waiting,
        },
        {
            "plan": lambda: {} if plan is None else plan.to_json(),
            "prices": lambda: [] if plan is None else [asdict(price) for price in plan.prices],
            "together": lambda: [] if plan is None else [list(group) for group in plan.together],
            "nodes": nodes,
        },
    )


def facts_of(
    site: SiteModel,
    inputs: CycleInput,
    *,
    headroom: Headroom,
    loads: RackLoads,
    wanted: Wanted,
    finished: FinishedPlan | None,
    outcomes: Sequence[LoopOutcome],
    efficiency: Mapping[str, Any],
    force: CapForce,
    waiting: str,
    plant: Plant,
    alarms: AlarmMemory,
    refused: Mapping[str, str],
    last: tuple[str, int] | None,
    teller: Teller,
    withheld: Sequence[tuple[PointId, float, str]],
) -> dict[str, Any]:
    """Everything that people are told of a cycle; see docs/ for the shape.

    `alarms` are those that stand after this cycle, `waiting` is why caps that are to rise do not,
    `refused` the overrides that do not fit, `withheld` the writes that were not sent.
    """
    losses = plant.losses
    acts = bool((site.cap_activity(inputs.modes) == Mode.AUTO.activity).any())
    grave = critical(alarms)
    text, at_ms = _next(waiting, plant, teller, withheld, len(grave), inputs.now_ms)
    return {
        "headroom": headroom.told(),
        "sentence": sentence(
            headroom,
            plight(site, plant, headroom, wanted, alarms, inputs.now_ms, acts=acts),
        ),
        "trust": trust(inputs.snapshot, loads.blind),
        "allocation": allocation(site, wanted, finished, force, waiting),
        "cooling": {
            loop.name: dict(outcome.facts)
            for loop, outcome in zip(site.loops, outcomes, strict=True)
        },
        "efficiency": efficiency,
        "losses": {
            "lost": list(losses.lost),
            "suspected": list(losses.suspected),
            "because": dict(losses.because),
        },
        "trouble": list(grave),
        "overrides_refused": dict(refused),
        "modes": {scope: mode.value for scope, mode in sorted(inputs.modes.items())},
        "next": {"text": text, "at_ms": at_ms},
        "last": {
            "text": "Nothing has been written yet." if last is None else last[0],
            "at_ms": None if last is None else last[1],
        },
    }


def _next(
    waiting: str,
    plant: Plant,
    teller: Teller,
    withheld: Sequence[tuple[PointId, float, str]],
    grave: int,
    now_ms: int,
) -> tuple[str, int | None]:
    if plant.holding:
        return f"{plant.holding}.", plant.resecure_ms
    if withheld:
        return teller.withheld(withheld), None
    if waiting:
        return f"GPU caps are to rise; waiting for: {waiting}.", None
    coming = teller.coming()
    if coming is not None:
        text, in_s = coming
        return text, now_ms + round(1000.0 * in_s)
    if grave:
        needs = "a critical alarm needs" if grave == 1 else f"{grave} critical alarms need"
        return f"Nothing by itself: {needs} a person.", None
    return "Nothing: everything is where it should be.", None


def _number(value: float) -> float | None:
    return value if np.isfinite(value) else None
