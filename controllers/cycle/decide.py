"""One control cycle as a pure function: what is known in, what is asked for out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from controllers import alarms
from controllers.alarms.watch import things_dead
from controllers.allocation import refusal
from controllers.arbiter import arbitrate_all
from controllers.cooling import remember_setpoint
from controllers.corrective import Corrective, corrective
from controllers.cycle.cooled import Cooling, cool, merge
from controllers.cycle.deeds import Teller
from controllers.cycle.electrical import electrical
from controllers.cycle.gathering import GATHER_S, conditions, hangs_below_now
from controllers.cycle.overrides import cap_overrides, in_force, within_board
from controllers.cycle.plant import Plant, forget_peaks, may_lower_all, paths, present_plant
from controllers.cycle.question import Question, pose
from controllers.cycle.refreshing import loop_writes, moved, remember_written
from controllers.cycle.rooms import CapRooms, Setpoints
from controllers.cycle.saying import facts_of
from controllers.cycle.state import CycleInput, FinishedPlan, Memory, PlanRequest
from controllers.cycle.surges import without_surges
from controllers.cycle.wanted import Wanted, choose, plant_key, with_room
from controllers.cycle.writing import cap_drafts, orders, present_values
from controllers.efficiency import account
from controllers.gpu_caps import CapForce, caps_in_force, move_caps
from controllers.gpu_caps.force import BoolArray, remember_sent
from controllers.guard import check
from controllers.headroom import study_shares
from controllers.loads import RackLoads, caps_term_w, rack_loads
from controllers.maintenance import frozen_nodes, leave_caps, told
from facility.commands import (
    Decision,
    Mode,
    Override,
)
from facility.points import FloatArray
from facility.site import SiteModel
from facility.topology import Shares

__all__ = ["CycleInput", "FinishedPlan", "Memory", "PlanRequest", "decide"]


def _fixed(
    site: SiteModel, inputs: CycleInput, force: CapForce, leases: Mapping[str, Override]
) -> dict[str, float]:
    """Node -> cap that this cycle cannot or may not change; overrides excluded."""
    off = site.cap_activity(inputs.modes) == Mode.OFF.activity
    rows = np.flatnonzero(~force.answering | off).tolist()
    fixed = {site.nodes[i]: float(force.in_force_w[i]) for i in rows}
    return {name: watts for name, watts in fixed.items() if name not in leases}


def _meter_bounds(site: SiteModel, force: CapForce, loads: RackLoads) -> BoolArray:
    """bool[N]: the rack is metered and draws no more than its last known caps allow.

    A silent node that counts at its board's maximum must not prove itself calm by that.
    """
    metered = ~np.isnan(loads.meter_w)
    last = np.where(np.isnan(force.readback_w), site.max_cap_w, force.readback_w)
    known = caps_term_w(site, np.where(force.silent, last, force.in_force_w)) + loads.besides_w
    with np.errstate(invalid="ignore"):
        calm = loads.meter_w <= known[: len(loads.meter_w)] + 1.0
    return np.asarray((metered & calm)[site.node_rack], dtype=np.bool_)


def decide(
    site: SiteModel, memory: Memory, inputs: CycleInput
) -> tuple[Decision, Memory, PlanRequest | None]:
    """Conclude everything that one cycle can.

    Args:
        site: the site; never changes within a run.
        memory: what the cycle before left.
        inputs: the image and what people, devices and solvers said since.

    Returns:
        The decision; the memory for the next cycle; a question for the solver, if one is due.
    """
    snapshot, now_s = inputs.snapshot, inputs.now_s
    plant = present_plant(site, memory, inputs)
    used = paths(site, plant.out)
    force, cap_memory = caps_in_force(
        site, snapshot, memory.caps, inputs.acks, memory.meter_bounds_of(site)
    )
    before = forget_peaks(site, memory.loads, cap_memory.lowered_s, now_s)
    if memory.started_s is None:
        before = replace(before, overheads=before.overheads.recalled(site, inputs.kept))
    dead_feeds = plant.topology.dead_feeds
    loads = rack_loads(site, snapshot, force.in_force_w, before, dead_feeds)
    shares = Shares.of(plant.topology, loads.split)
    beyond, beyond_memory = corrective(
        site,
        plant.topology,
        snapshot,
        shares,
        losses=plant.losses,
        force=force,
        loads=loads,
        trips=memory.trips,
        shedding=inputs.shedding,
        acts=may_lower_all(site, inputs),
        now_ms=inputs.now_ms,
        memory=memory.corrective,
    )
    shares = beyond.applied(shares)
    loads, cap_memory = without_surges(site, shares, loads, force, cap_memory, now_s)
    headroom = study_shares(shares, loads.load_w)
    electric = electrical(site, memory, inputs, plant, headroom, shares, force)
    leases = in_force(inputs.overrides, inputs.now_ms)
    outcomes, loop_memories = cool(site, memory, inputs, force, loads, leases)
    merged = merge(site, outcomes)
    cap_leases = cap_overrides(site, leases)
    fixed = _fixed(site, inputs, force, cap_leases)
    wanted, refused = _want(
        site, memory, inputs, plant, loads, shares, beyond, force, merged, fixed, cap_leases
    )
    started_s = now_s if memory.started_s is None else memory.started_s
    frozen = _frozen(inputs, plant)
    if now_s - started_s < GATHER_S and bool(np.isnan(cap_memory.readback_w).any()):
        # A controller that has just started knows too little to move what runs well.
        urgent = merged.to_min | merged.to_floor
        wanted = replace(
            wanted,
            desired_w=np.where(urgent, wanted.desired_w, force.in_force_w),
            protect=urgent,
            shortfall=None,
        )
        frozen = "just started: not every node has been heard yet"
    untrusted = np.isin(
        np.array(plant.topology.elements), np.array(sorted(loads.untrusted_elements), dtype=str)
    )
    doubtful: BoolArray = np.asarray((used & untrusted[None, :]).any(axis=1))
    rack_ok = ~doubtful
    still = frozen_nodes(site, inputs.maintenance, inputs.now_ms)
    may_raise = rack_ok[site.node_rack] & ~merged.no_raise & ~force.foreign & force.answering
    may_raise &= ~still
    if not frozen:
        wanted = with_room(site, wanted, force)
    moves, cap_memory = move_caps(
        site,
        wanted.desired_w,
        force,
        cap_memory,
        now_s=now_s,
        may_raise=may_raise,
        protect=wanted.protect,
        frozen_because=frozen,
        min_move=site.facility.controllers.allocation.min_move,
    )
    value = _recheck(site, wanted, force, moves.value_w, moves.raises)
    rooms = CapRooms.of(site, inputs, wanted, force, value, cap_leases)
    of_loops = arbitrate_all(
        [
            p
            for o in outcomes
            for p in o.proposals
            if site.mode_of(p.point, inputs.modes) is not Mode.OFF
        ],
        present_values(site, outcomes),
    )
    drafts, kept, waiting = loop_writes(
        site, inputs, of_loops, outcomes, loop_memories, memory.written_s, started_s
    )
    caps, left = leave_caps(
        cap_drafts(site, inputs, rooms, force, value, may_raise), inputs.maintenance, inputs.now_ms
    )
    writes = [*drafts, *electric.offs.drafts]
    standing = electric.offs.orders(orders(site, inputs, memory))
    sequence = max(memory.sequence, inputs.sequence_base)
    commands, withheld = check(
        writes, standing, sequence=sequence, now_ms=inputs.now_ms, columns=caps
    )
    withheld = (*sorted((*waiting, *left)), *withheld)
    off = memory.offs.sent(electric.offs, commands, now_s)
    cap_memory = remember_sent(site, cap_memory, commands, now_s)
    to_loops = moved(site, commands, kept, loop_memories)
    loop_memories = tuple(
        remember_setpoint(loop, m, to_loops, o.move, now_s)
        for loop, m, o in zip(site.loops, loop_memories, outcomes, strict=True)
    )
    efficiency, efficiency_memory = account(site, snapshot, loads.meter_w, memory.efficiency)
    events, alarm_memory = alarms.step(
        memory.alarms,
        conditions(
            site, memory, inputs, plant, loads, headroom, force, outcomes, wanted, electric.trips
        )
        + electric.conditions(off)
        + beyond.conditions(),
        {**things_dead(site, plant.losses), **hangs_below_now(site, inputs)},
        now_s=now_s,
        now_ms=inputs.now_ms,
        on_delay_s=site.facility.alerts.on_delay,
        off_delay_s=site.facility.alerts.off_delay,
    )
    request, asked_s, asked = _ask(site, memory, inputs, plant, loads, merged, fixed, wanted)
    last = memory.last
    teller = Teller(site, force, wanted, outcomes, {lease.point: lease for lease in leases})
    if commands:
        last = (teller.written(commands), inputs.now_ms)
    after = Memory(
        caps=cap_memory,
        loads=loads.memory,
        losses=plant.memory,
        loops=loop_memories,
        alarms=alarm_memory,
        efficiency=efficiency_memory,
        trips=electric.trip_memory,
        reconcile=electric.reconcile_memory,
        offs=off,
        corrective=beyond_memory,
        plan=inputs.plan if inputs.plan is not None else memory.plan,
        asked_s=asked_s,
        asked=asked,
        sequence=sequence + len(commands),
        epoch=inputs.epoch if inputs.epoch is not None else memory.epoch,
        overrides=tuple(o.id for o in leases),
        last=last,
        started_s=started_s,
        meter_bounds=_meter_bounds(site, force, loads),
        written_s=remember_written(site, memory.written_s, commands, now_s),
    )
    facts = facts_of(
        site,
        inputs,
        headroom=headroom,
        loads=loads,
        wanted=wanted,
        finished=after.plan,
        outcomes=outcomes,
        efficiency=efficiency,
        force=force,
        waiting=moves.waiting,
        plant=plant,
        alarms=alarm_memory,
        refused=refused,
        last=last,
        teller=teller,
        withheld=withheld,
    )
    facts["corrective"] = beyond.to_json()
    facts |= electric.facts(site, off)
    facts["maintenance"] = told(inputs.maintenance, inputs.now_ms, headroom.ok)
    decision = Decision(
        cycle=inputs.cycle,
        snapshot=snapshot.number,
        last_scan=snapshot.last_scan,
        now_ms=inputs.now_ms,
        setpoints=Setpoints(rooms, of_loops),
        commands=commands,
        withheld=withheld,
        alarms=events,
        facts=facts,
        config_sha256=inputs.config_sha256,
    )
    return decision, after, request


def _want(
    site: SiteModel,
    memory: Memory,
    inputs: CycleInput,
    plant: Plant,
    loads: RackLoads,
    shares: Shares,
    beyond: Corrective,
    force: CapForce,
    merged: Cooling,
    fixed: Mapping[str, float],
    leases: Mapping[str, Override],
) -> tuple[Wanted, dict[str, str]]:
    """Caps wanted, and overrides that do not fit (lease id -> what is in the way)."""
    refused: dict[str, str] = {}
    held = dict(fixed)
    present_only = bool(plant.holding)

    def posed(with_fixed: Mapping[str, float]) -> Question:
        return pose(
            site,
            plant.topology,
            loads,
            merged.thermal_w,
            with_fixed,
            present_only=present_only,
            shares=shares,
        )

    for node, lease in leases.items():
        value = within_board(site, node, lease.value)
        why = refusal(posed(held).check, node, value)
        if why is not None:
            refused[lease.id] = why
        else:
            held[node] = value
    still = frozen_nodes(site, inputs.maintenance, inputs.now_ms)
    foreign = {
        site.nodes[int(i)]: float(force.in_force_w[i])
        for i in np.flatnonzero(force.foreign | still)
        if site.nodes[int(i)] not in held
    }
    # Somebody else's cap, or a frozen one, is left alone as long as every limit allows it.
    if foreign and posed(held).broken_by(force.in_force_w) is None:
        held.update(foreign)
    policy = site.facility.controllers.allocation.policy
    key = plant_key(plant.out, held, present_only=present_only, policy=policy) + beyond.key
    finished = inputs.plan if inputs.plan is not None else memory.plan
    wanted = choose(
        site, posed(held), key, force, finished, merged.thermal_w, hold_because=plant.holding
    )
    desired, protect, high = wanted.desired_w.copy(), wanted.protect.copy(), wanted.high_w.copy()
    for node, value in held.items():
        if node in leases:
            desired[site.node_index[node]] = value
    pressing: dict[int, str] = {}
    drill = inputs.drilling
    if drill is not None:
        asked = ~np.isnan(drill.caps_w)
        desired = np.where(asked, np.fmin(desired, drill.caps_w), desired)
        protect |= asked
        why = f"drill: what the loss of {drill.element} would demand"
        pressing.update(dict.fromkeys(np.flatnonzero(asked).tolist(), why))
    for flag, bound, why in (
        (merged.to_floor, site.floor_w, "a leak at the rack: its floor"),
        (merged.to_min, site.min_cap_w, "coolant flow lost: the board's minimum"),
    ):
        desired = np.where(flag, np.minimum(desired, bound), desired)
        high = np.where(flag, np.minimum(high, bound), high)
        protect |= flag
        pressing.update(dict.fromkeys(np.flatnonzero(flag).tolist(), why))
    # What is frozen still yields to protection: a leak, lost flow, what cooling allows.
    kept = {n: v for n, v in foreign.items() if n in held}
    for i in np.flatnonzero(still & protect & ~force.foreign):
        kept.pop(site.nodes[int(i)], None)
    for node, value in (*fixed.items(), *kept.items()):
        desired[site.node_index[node]] = value
    changed = replace(
        wanted,
        desired_w=desired,
        protect=protect,
        high_w=high,
        reasons=wanted.reasons.but(pressing),
    )
    return changed, refused


def _frozen(inputs: CycleInput, plant: Plant) -> str:
    """Why no cap at all may rise in this cycle."""
    if inputs.epoch is None:
        return "no lease is held: lowering only"
    if not inputs.journal_ok:
        return "the journal cannot be written: lowering only"
    if plant.holding:
        return plant.holding
    if plant.losses.suspected:
        return f"{', '.join(plant.losses.suspected)} may be lost: no raises until it is clear"
    if inputs.drilling is not None:
        return f"a drill of {inputs.drilling.element} runs"
    return ""


def _recheck(
    site: SiteModel, wanted: Wanted, force: CapForce, value_w: FloatArray, raises: BoolArray
) -> FloatArray:
    """The whole vector once more: if it breaks a limit, every cap is min(new, in force)."""
    if not raises.any():
        return value_w
    after = np.where(np.isnan(value_w), force.in_force_w, np.maximum(value_w, force.in_force_w))
    if wanted.question.broken_by(after) is None:
        return value_w
    return np.where(raises, np.nan, value_w)


def _ask(
    site: SiteModel,
    memory: Memory,
    inputs: CycleInput,
    plant: Plant,
    loads: RackLoads,
    merged: Cooling,
    fixed: Mapping[str, float],
    wanted: Wanted,
) -> tuple[PlanRequest | None, float | None, str]:
    """A question for the solver, if the period has passed and the answer could differ."""
    period = site.facility.controllers.allocation.period
    due = memory.asked_s is None or inputs.now_s - memory.asked_s >= period
    changed = memory.plan is None or memory.plan.key != wanted.key
    if plant.holding or not site.nodes or not (due or (changed and memory.asked_s is None)):
        return None, memory.asked_s, memory.asked
    digest = wanted.question.digest
    if digest == memory.asked and not changed:
        return None, inputs.now_s, memory.asked
    return PlanRequest(wanted.key, wanted.question), inputs.now_s, digest
