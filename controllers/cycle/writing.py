"""From what is wanted to what may be written: present values, drafts, orders."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from controllers.cooling import LoopOutcome
from controllers.cycle.rooms import CapRooms, by_point
from controllers.cycle.state import CycleInput, Memory
from controllers.gpu_caps import CapForce
from controllers.gpu_caps.force import BoolArray
from controllers.guard import Draft, Drafts, StandingOrders, WriteLimits, authoriser
from facility.commands import Bounds, Setpoint
from facility.points import FloatArray, PointId
from facility.site import SiteModel


def present_values(site: SiteModel, outcomes: Sequence[LoopOutcome]) -> dict[PointId, float]:
    """The set-points in force of the loops, where they are known."""
    present: dict[PointId, float] = {}
    for loop, outcome in zip(site.loops, outcomes, strict=True):
        for point in loop.setpoint_points:
            if point is not None and outcome.present_c is not None:
                present[point] = outcome.present_c
    return present


class _BySite:
    """Makes a site a cache key by identity."""

    def __init__(self, site: SiteModel) -> None:
        self.site = site

    def __hash__(self) -> int:
        return id(self.site)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _BySite) and other.site is self.site


@lru_cache(maxsize=8)
def _authorised(key: _BySite) -> BoolArray:
    """bool[N]: the site's allow-list names the cap of the node."""
    allow = key.site.facility.control.allow
    return np.array(
        [authoriser(point, allow) is not None for point in key.site.cap_points], dtype=np.bool_
    )


def cap_drafts(
    site: SiteModel,
    inputs: CycleInput,
    rooms: CapRooms,
    force: CapForce,
    value_w: FloatArray,
    may_raise: BoolArray,
) -> Drafts:
    """Writes for caps that move, in the order of their points.

    Args:
        site: the site.
        inputs: of the cycle.
        rooms: the outcome of arbitration.
        force: caps in force.
        value_w: float64[N], NaN where nothing is written.
        may_raise: bool[N], the data on the node's paths are good.
    """
    key = _BySite(site)
    order = by_point(site)
    rows = order[(rooms.shown & ~np.isnan(value_w))[order]]
    nodes = rows.tolist()
    value, present = rooms.value_w[rows], force.in_force_w[rows]
    return Drafts(
        points=[site.cap_points[i] for i in nodes],
        value=value,
        present=present,
        raises=value > present,
        data_good=may_raise[rows],
        activity=site.cap_activity(inputs.modes)[rows],
        authorised=_authorised(key)[rows],
        low=site.min_cap_w[rows],
        high=site.max_cap_w[rows],
        because=lambda some: rooms.because([nodes[row] for row in some]),
        doubt="a meter on the paths of its rack",
    )


def loop_drafts(
    site: SiteModel, setpoints: Sequence[Setpoint], outcomes: Sequence[LoopOutcome]
) -> list[Draft]:
    """Writes for set-points of loops that differ from what is in force."""
    out: list[Draft] = []
    for setpoint in setpoints:
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
    """What must hold for any write; the hard limits of caps go with `cap_drafts`."""
    limits: dict[PointId, WriteLimits] = {}
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
