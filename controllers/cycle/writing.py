"""From what is wanted to what may be written: proposals, present values, drafts, orders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from controllers.base import must, told, would
from controllers.cooling import LoopOutcome
from controllers.cycle.state import CycleInput, Memory
from controllers.cycle.wanted import Wanted
from controllers.gpu_caps import CapForce
from controllers.gpu_caps.force import BoolArray
from controllers.guard import Draft, StandingOrders, WriteLimits
from facility.commands import Bounds, Mode, Override, Proposal, Setpoint
from facility.points import FloatArray, PointId
from facility.site import SiteModel

SOURCE = "allocation"


def cap_proposals(
    site: SiteModel,
    inputs: CycleInput,
    wanted: Wanted,
    force: CapForce,
    value_w: FloatArray,
    leases: Mapping[str, Override],
) -> list[Proposal]:
    """Protection's room and the next step inside it, for every node that is not off."""
    out: list[Proposal] = []
    for i, point in enumerate(site.cap_points):
        if site.mode_of(point, inputs.modes) is Mode.OFF:
            continue
        in_force, low = float(force.in_force_w[i]), float(site.min_cap_w[i])
        moving = not np.isnan(value_w[i])
        step = float(value_w[i]) if moving else in_force
        # A room ends where this cycle's write ends: the rest of a raise waits for the ramp.
        high = max(min(float(wanted.high_w[i]), float(site.max_cap_w[i])), low)
        if wanted.protect[i]:
            high = max(min(high, float(wanted.desired_w[i])), low)
        reason = f"{wanted.reasons[i]} (wanted {wanted.desired_w[i]:.0f} W)"
        out.append(must(point, low, high, reason, SOURCE))
        lease = leases.get(site.nodes[i])
        if lease is not None and moving and abs(step - wanted.desired_w[i]) < 1.0:
            out.append(told(point, step, f"{lease.by}: {lease.reason}", lease.id))
        out.append(would(point, step, reason, SOURCE))
    return out


def present_values(
    site: SiteModel, force: CapForce, outcomes: Sequence[LoopOutcome]
) -> dict[PointId, float]:
    present = {p: float(force.in_force_w[i]) for i, p in enumerate(site.cap_points)}
    for loop, outcome in zip(site.loops, outcomes, strict=True):
        for point in loop.setpoint_points:
            if point is not None and outcome.present_c is not None:
                present[point] = outcome.present_c
    return present


def drafts(
    site: SiteModel,
    inputs: CycleInput,
    setpoints: Sequence[Setpoint],
    force: CapForce,
    value_w: FloatArray,
    outcomes: Sequence[LoopOutcome],
    may_raise: BoolArray,
) -> list[Draft]:
    """Writes for set-points that differ from what is in force."""
    out: list[Draft] = []
    for setpoint in setpoints:
        node = site.cap_index.get(setpoint.point)
        if node is not None:
            if np.isnan(value_w[node]):
                continue
            in_force = float(force.in_force_w[node])
            up = setpoint.value > in_force
            out.append(
                Draft(
                    setpoint.point,
                    setpoint.value,
                    in_force,
                    up,
                    setpoint.because,
                    bool(may_raise[node]),
                    "a meter on the paths of its rack",
                )
            )
            continue
        loop = site.setpoint_loop.get(setpoint.point)
        if loop is None:
            continue
        present = outcomes[loop].present_c
        if present is None or abs(setpoint.value - present) < 0.05:
            continue
        bounds = outcomes[loop].bounds
        # Up to L is protection, not a raise towards the chips' limit.
        rises = setpoint.value > max(present, bounds.low_c) + 1e-6
        good = not bounds.inputs_lost and bounds.high_c is not None
        out.append(
            Draft(
                setpoint.point,
                setpoint.value,
                present,
                rises,
                setpoint.because,
                good,
                ", ".join(bounds.inputs_lost) or "margins",
            )
        )
    return out


def orders(site: SiteModel, inputs: CycleInput, memory: Memory) -> StandingOrders:
    limits: dict[PointId, WriteLimits] = {
        point: WriteLimits(Bounds(float(site.min_cap_w[i]), float(site.max_cap_w[i])))
        for i, point in enumerate(site.cap_points)
    }
    settings = site.facility.controllers.cooling
    step = max(
        settings.protection_rate / 60.0 * 15.0,
        settings.max_raise_per_dwell,
        settings.lower_rate * min(settings.dwell / 60.0, 1.0),
    )
    for point, index in site.setpoint_loop.items():
        loop, spec = site.loops[index].config, site.table.specs[site.table.index[point]]
        room = Bounds(max(loop.supply_min, spec.low), min(loop.supply_max, spec.high))
        limits[point] = WriteLimits(room, step + 0.1)
    return StandingOrders(
        enabled=site.facility.control.enabled,
        allow=site.facility.control.allow,
        mode_of=lambda point: site.mode_of(point, inputs.modes),
        limits=limits,
        epoch=inputs.epoch,
        last_epoch=memory.epoch,
        journal_ok=inputs.journal_ok,
    )
