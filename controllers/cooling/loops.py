"""One loop, one cycle: bounds, faults, target and the set-point's next value."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from controllers.base import Condition, must, told, would
from controllers.blocks import dwelt, slew
from controllers.cooling.bounds import LoopBounds, observe
from controllers.cooling.faults import BoolArray, watch_flow, watch_leaks
from controllers.cooling.memory import LoopMemory
from controllers.cooling.reset import CREDIT_S, Move, aim, next_move, verify
from controllers.cooling.sentences import conditions, facts
from facility.commands import Command, Override, Proposal
from facility.points import FloatArray
from facility.site import LoopModel, SiteModel
from facility.snapshot import Snapshot

SOURCE = "cooling"


@dataclass(frozen=True, eq=False)
class LoopOutcome:
    """What one loop asks for in this cycle.

    Attributes:
        thermal_cap_w: float64[N], W per GPU; inf for nodes of other loops, NaN where no margin
            was ever seen.
        to_min: bool[N], flow is lost: caps to the board's minimum at once.
        to_floor: bool[N], a confirmed leak at the node's rack.
        no_raise: bool[N], caps there must not rise.
        conflict: L > U: caps are shed until there is room again.
        present_c: set-point in force, None if unknown.
    """

    proposals: tuple[Proposal, ...]
    thermal_cap_w: FloatArray
    to_min: BoolArray
    to_floor: BoolArray
    no_raise: BoolArray
    conflict: bool
    conditions: tuple[Condition, ...]
    facts: Mapping[str, Any]
    present_c: float | None
    move: Move
    bounds: LoopBounds


def present_setpoint(loop: LoopModel, snapshot: Snapshot, memory: LoopMemory) -> float:
    """The set-point in force: read back, or just written and on its way; NaN if unknown."""
    readback = snapshot.good(loop.setpoint)
    if np.isnan(readback).all():
        return math.nan
    first = float(readback[~np.isnan(readback)][0])
    fresh = memory.written_s is not None and snapshot.now_s - memory.written_s <= 3.0
    return memory.written_c if fresh and memory.written_c is not None else first


def control_loop(
    site: SiteModel,
    index: int,
    snapshot: Snapshot,
    caps_w: FloatArray,
    rack_w: FloatArray,
    overrides: tuple[Override, ...],
    memory: LoopMemory,
) -> tuple[LoopOutcome, LoopMemory]:
    """Decide one loop.

    Args:
        site: the site.
        index: of the loop in `site.loops`.
        snapshot: the present.
        caps_w: float64[N], caps in force.
        rack_w: float64[R], racks' power at their caps.
        overrides: in force now, of any point.
        memory: of the loop.
    """
    loop, settings = site.loops[index], site.facility.controllers.cooling
    now = snapshot.now_s
    present = present_setpoint(loop, snapshot, memory)
    known = None if math.isnan(present) else present
    bounds, caps, memory = observe(site, loop, snapshot, caps_w, rack_w, memory, settings, known)
    since = now if memory.lost_since_s is None else memory.lost_since_s
    lost_since = since if bounds.inputs_lost else None
    writes = tuple(t for t in memory.writes_s if now - t < 3600.0)
    memory = replace(memory, lost_since_s=lost_since, writes_s=writes)
    readback = snapshot.good(loop.setpoint)
    first = readback[~np.isnan(readback)]
    memory = verify(memory, float(first[0]) if first.size else math.nan, bounds.supply_c, now)
    flow_why, memory = watch_flow(site, loop, snapshot, bounds, memory)
    leaks, memory = watch_leaks(site, loop, snapshot, memory)
    if memory.target_c is None or dwelt(memory.target_s, now, settings.period):
        memory = _aimed(site, loop, snapshot, bounds, memory)
    conflict = bounds.high_c is not None and bounds.low_c > bounds.high_c
    move = next_move(
        loop.config,
        settings,
        bounds,
        memory,
        known,
        now,
        may_raise=not bounds.inputs_lost
        and bounds.high_c is not None
        and not flow_why
        and not bounds.loss_spent,
    )
    mine = np.zeros(len(site.nodes), dtype=np.bool_)
    mine[loop.nodes] = True
    thermal = np.full(len(site.nodes), np.inf)
    thermal[loop.nodes] = caps
    racks = leaks.confirmed[site.node_rack] if len(site.nodes) else mine
    doubted = leaks.suspected | leaks.drying
    wary = racks | (doubted[site.node_rack] if len(site.nodes) else mine)
    cdu_leak = any(sure for _, sure in leaks.cdus) or bool(leaks.drying_cdus)
    still = bool(flow_why) or cdu_leak or bool(bounds.inputs_lost) or bounds.loss_spent
    outcome = LoopOutcome(
        _proposals(loop, move, memory, overrides, now, settings.protection_rate),
        thermal,
        mine & bool(flow_why),
        racks,
        (mine & still) | wary,
        conflict,
        conditions(site, loop, snapshot, bounds, memory, move, flow_why, leaks, conflict),
        facts(loop, bounds, memory, move, known, settings.margin),
        known,
        move,
        bounds,
    )
    return outcome, memory


def _aimed(
    site: SiteModel, loop: LoopModel, snapshot: Snapshot, bounds: LoopBounds, memory: LoopMemory
) -> LoopMemory:
    """The memory with a new economic target, where everything it rests on is measured now."""
    ambient = float(snapshot.good(np.array([site.ambient]))[0])
    missing = site.ambient >= 0 and math.isnan(ambient)
    if bounds.inputs_lost or (missing and memory.target_c is not None):
        return memory
    waters = snapshot.good(loop.primary_supply)
    primary = math.nan if np.isnan(waters).all() else float(np.nanmax(waters))
    settings = site.facility.controllers.cooling
    target, _ = aim(bounds, settings, ambient, primary, loop.config.default_setpoint)
    return replace(memory, target_c=target, target_s=snapshot.now_s)


def _proposals(
    loop: LoopModel,
    move: Move,
    memory: LoopMemory,
    overrides: tuple[Override, ...],
    now_s: float,
    rate_k_min: float,
) -> tuple[Proposal, ...]:
    if move.value_c is None:
        return ()
    found: list[Proposal] = []
    for point in loop.setpoint_points:
        if point is None:
            continue
        found.append(must(point, move.low_c, move.high_c, f"[L, U]: {move.text}", SOURCE))
        found.append(would(point, move.value_c, move.text, SOURCE))
        for lease in overrides:
            if lease.point == point:
                since = math.inf if memory.written_s is None else now_s - memory.written_s
                credit = rate_k_min / 60.0 * min(since, CREDIT_S)
                value = round(slew(move.value_c, lease.value, credit, credit), 2)
                reason = f"{lease.by}: {lease.reason} ({lease.value:g} °C)"
                found.append(told(point, value, reason, lease.id))
    return tuple(found)


def remember_setpoint(
    loop: LoopModel, memory: LoopMemory, commands: tuple[Command, ...], move: Move, now_s: float
) -> LoopMemory:
    """Note set-points that are about to be sent."""
    mine = [c for c in commands if c.point in loop.setpoint_points]
    if not mine:
        return memory
    counted = memory.writes_s if move.protective else (*memory.writes_s, now_s)
    return replace(
        memory,
        written_c=mine[0].value,
        written_s=now_s,
        writes_s=counted,
        unconfirmed=False,
        confirmed=False,
        foreign=False,
    )
