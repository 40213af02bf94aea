"""Which cap each node should have now: the finished plan, what is in force, or water-filling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, Literal

import numpy as np

from controllers.allocation import Plan, Problem, feasible, heat_rows, relieve, water_fill
from controllers.cycle.state import FinishedPlan
from controllers.gpu_caps import CapForce
from controllers.gpu_caps.force import BoolArray
from controllers.loads import RackLoads
from facility.points import FloatArray
from facility.site import SiteModel
from facility.topology import Shares, Topology

Used = Literal["plan", "hold", "water_fill"]


@dataclass(frozen=True, eq=False)
class Wanted:
    """The caps wanted, W per GPU.

    Attributes:
        desired_w: float64[N].
        protect: bool[N], a lowering there is protection.
        high_w: float64[N], hard upper end for protection.
        reasons: per node, for people.
        used: where the caps come from.
        question: the present one; key: of the plant it describes.
        shortfall: element, case and kW that no cap at or above the floors can satisfy.
    """

    desired_w: FloatArray
    protect: BoolArray
    high_w: FloatArray
    reasons: tuple[str, ...]
    used: Used
    question: Question
    key: str
    shortfall: Mapping[str, Any] | None


def plant_key(
    out: Sequence[str], fixed: Mapping[str, float], *, present_only: bool, policy: str
) -> str:
    """What a plan is valid for: elements out, overrides, which limits, which policy."""
    held = ",".join(f"{n}={w!r}" for n, w in sorted(fixed.items()))
    return f"{policy}|{','.join(sorted(out))}|{held}|{present_only}"


class _Same:
    """Makes a site and a topology a cache key by identity."""

    def __init__(self, site: SiteModel, topology: Topology) -> None:
        self.site, self.topology = site, topology

    def __hash__(self) -> int:
        return hash((id(self.site), id(self.topology)))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, _Same) and other.site is self.site and other.topology is self.topology
        )


@lru_cache(maxsize=64)
def _skeleton(
    key: _Same,
    thermal: tuple[tuple[str, float], ...],
    fixed: tuple[tuple[str, float], ...],
    present_only: bool,
) -> Problem:
    """What of a problem does not change with the load; without prices, for checks only."""
    return Problem.of(
        key.topology,
        key.site.facility.nodes,
        policy="throughput",
        thermal_w=dict(thermal),
        fixed_w=dict(fixed),
        heat=heat_rows(key.topology, key.site.facility.cooling.loops),
        present_only=present_only,
    )


@dataclass(frozen=True, eq=False)
class Question:
    """The allocation problem of this moment: cheap to check against, whole when asked for.

    Attributes:
        thermal: node -> cap that cooling allows, where that is below the board's maximum.
        fixed: node -> cap that this cycle cannot change.
        present_only: hold the limits of the plant as it is, not those of further losses.
    """

    site: SiteModel
    topology: Topology
    loads: RackLoads
    thermal: tuple[tuple[str, float], ...]
    fixed: tuple[tuple[str, float], ...]
    present_only: bool

    @cached_property
    def check(self) -> Problem:
        """For `feasible` and `refusal`: the present limits and loads."""
        key = _Same(self.site, self.topology)
        bare = _skeleton(key, self.thermal, self.fixed, self.present_only)
        base, metered = bare.base_w.copy(), np.zeros(len(bare.base_w))
        for name, watts in self.loads.unmanaged_w(self.site).items():
            base[self.topology.load_index[name]] = watts
        accuracy = 1.0 + self.topology.power.meter_accuracy
        for name, watts in self.loads.peaks_w(self.site).items():
            metered[self.topology.load_index[name]] = watts * accuracy
        shares = Shares.of(self.topology, self.loads.split)
        return replace(bare, shares=shares, base_w=base, metered_w=metered)

    @cached_property
    def whole(self) -> Problem:
        """For `solve` and `water_fill`: with the policy's prices."""
        return Problem.of(
            self.topology,
            self.site.facility.nodes,
            policy=self.site.facility.controllers.allocation.policy,
            load_w=self.loads.unmanaged_w(self.site),
            split=self.loads.split,
            metered_w=self.loads.peaks_w(self.site),
            thermal_w=dict(self.thermal),
            fixed_w=dict(self.fixed),
            heat=heat_rows(self.topology, self.site.facility.cooling.loops),
            present_only=self.present_only,
        )


def pose(
    site: SiteModel,
    topology: Topology,
    loads: RackLoads,
    thermal_w: FloatArray,
    fixed: Mapping[str, float],
    *,
    present_only: bool,
) -> Question:
    """The question of this moment.

    Args:
        site: the site.
        topology: the plant as it is.
        loads: live.
        thermal_w: float64[N]; inf where cooling sets no cap, NaN where it cannot tell.
        fixed: node -> cap that this cycle cannot change.
        present_only: as in `Question`.
    """
    with np.errstate(invalid="ignore"):
        binding = thermal_w < site.max_cap_w
    thermal = tuple(
        (site.nodes[int(i)], float(np.floor(thermal_w[i]))) for i in np.flatnonzero(binding)
    )
    held = tuple(sorted(fixed.items()))
    return Question(site, topology, loads, thermal, held, present_only)


def by_node(site: SiteModel, caps_w: FloatArray) -> dict[str, float]:
    """Caps as a mapping."""
    return {name: float(w) for name, w in zip(site.nodes, caps_w, strict=True)}


def _vector(site: SiteModel, caps: Mapping[str, float]) -> FloatArray:
    return np.array([caps[name] for name in site.nodes], dtype=np.float64)


def choose(
    site: SiteModel,
    question: Question,
    key: str,
    force: CapForce,
    finished: FinishedPlan | None,
    thermal_w: FloatArray,
    *,
    hold_because: str,
) -> Wanted:
    """Decide where every cap should be.

    Args:
        site: the site.
        question: of this moment.
        key: what a finished plan must have been made for.
        force: caps in force.
        finished: newest plan.
        thermal_w: as in `pose`.
        hold_because: nothing but protection moves (a real loss before resecuring); else "".
    """
    in_force = force.in_force_w
    limit = np.where(np.isnan(thermal_w), in_force, thermal_w)
    limit = np.maximum(np.minimum(limit, site.max_cap_w), site.min_cap_w)
    thermal_hit = in_force > limit + 0.5
    now_fits = feasible(question.check, by_node(site, in_force)) is None
    shortfall: Mapping[str, Any] | None = None
    because: Mapping[str, str] = {}
    used: Used = "hold"
    desired = np.minimum(in_force, limit)
    plan: Plan | None = None
    if finished is not None and finished.key == key and not hold_because:
        plan = finished.plan
    if plan is not None and plan.feasible:
        planned = np.minimum(_vector(site, plan.caps_w), limit)
        if feasible(question.check, by_node(site, planned)) is None:
            desired, because, used = planned, plan.because, "plan"
    if used == "hold" and not now_fits:
        filled = water_fill(question.whole)
        safe = np.minimum(np.minimum(_vector(site, filled.caps_w), limit), in_force)
        desired, because, used = safe, filled.because, "water_fill"
        if filled.missing is not None:
            shortfall = asdict(filled.missing)
            # Floors bind the limits after further losses only, not those of the plant as it is.
            desired = _vector(site, relieve(question.check, by_node(site, safe)))
            below = dict.fromkeys(_lower(site, desired, safe), "overload now: below its floor")
            because = {**because, **below}
    protect = thermal_hit | ((desired < in_force) & (not now_fits))
    reasons = tuple(
        _reason(name, i, used, because, thermal_hit, limit, hold_because)
        for i, name in enumerate(site.nodes)
    )
    return Wanted(desired, protect, limit, reasons, used, question, key, shortfall)


def _lower(site: SiteModel, caps_w: FloatArray, than_w: FloatArray) -> list[str]:
    return [site.nodes[int(i)] for i in np.flatnonzero(caps_w < than_w - 1e-6)]


def _reason(
    name: str,
    i: int,
    used: Used,
    because: Mapping[str, str],
    thermal_hit: BoolArray,
    limit: FloatArray,
    hold_because: str,
) -> str:
    if thermal_hit[i]:
        return f"cooling allows {limit[i]:.0f} W"
    if used == "hold":
        return hold_because or "the caps in force are safe; no newer plan"
    source = "plan" if used == "plan" else "water-filling"
    return f"{source}: {because.get(name, 'its own optimum')}"
