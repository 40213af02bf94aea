"""The allocation problem of a cycle: cheap to check caps against, whole when a solver asks."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np

from controllers.allocation import (
    Fitted,
    Problem,
    Violation,
    heat_rows,
    lower_to_fit,
    make_room,
)
from controllers.allocation.rows import Rows
from controllers.loads import RackLoads
from facility.points import FloatArray
from facility.site import SiteModel
from facility.topology import Shares, Topology


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
        shares: the weights of the loads, with the split of `loads`.
        thermal_w: float64[N], cap that cooling allows; inf or NaN where it sets none.
        fixed: node -> cap that this cycle cannot change.
        present_only: hold the limits of the plant as it is, not those of further losses.
    """

    site: SiteModel
    topology: Topology
    loads: RackLoads
    shares: Shares
    thermal_w: FloatArray
    fixed: tuple[tuple[str, float], ...]
    present_only: bool

    @cached_property
    def thermal(self) -> tuple[tuple[str, float], ...]:
        """Node -> whole watts that cooling allows, where that is below the board's maximum."""
        with np.errstate(invalid="ignore"):
            binding = np.flatnonzero(self.thermal_w < self.site.max_cap_w).tolist()
        names = self.site.nodes
        return tuple((names[i], float(np.floor(self.thermal_w[i]))) for i in binding)

    @cached_property
    def check(self) -> Problem:
        """For `refusal` and `relieve`: the present limits, loads and bounds of caps."""
        key = _Same(self.site, self.topology)
        return self._now(_skeleton(key, self.thermal, self.fixed, self.present_only))

    @cached_property
    def _limits(self) -> Rows:
        """Every limit, for any caps: what bounds a cap is no part of it."""
        return Rows(
            self._now(_skeleton(_Same(self.site, self.topology), (), (), self.present_only))
        )

    def broken_by(self, caps_w: FloatArray) -> Violation | None:
        """The limit that caps (float64[N], W per GPU) break most now, or None when all hold."""
        rows = self._limits
        problem = rows.problem
        of_units = np.zeros(len(problem.units.low))
        np.maximum.at(of_units, problem.unit, caps_w)
        return rows.violation(of_units)

    def make_room(
        self, in_force_w: FloatArray, desired_w: FloatArray, least_move_w: FloatArray
    ) -> FloatArray:
        """Caps to go for when small moves are not made; see `allocation.make_room`."""
        return make_room(self._limits, in_force_w, desired_w, least_move_w)

    def lower_to_fit(self, caps_w: FloatArray) -> Fitted | None:
        """Caps lowered from float64[N], W per GPU, until all fits; see `allocation.lower_to_fit`.

        Least are the floors, less where cooling allows less; caps that are fixed stay.
        """
        problem, unit = self._limits.problem, self._limits.problem.unit
        with np.errstate(invalid="ignore"):
            binding = self.thermal_w < self.site.max_cap_w
        top = np.where(binding, np.floor(self.thermal_w), np.inf)
        top = np.maximum(top, self.site.min_cap_w)
        least, caps = problem.table.floors_w.copy(), problem.unit_caps(caps_w)
        np.minimum.at(least, unit, top)
        for name, watts in self.fixed:
            least[unit[self.site.node_index[name]]] = watts
            caps[unit[self.site.node_index[name]]] = watts
        return lower_to_fit(self._limits, caps, least)

    def _now(self, bare: Problem) -> Problem:
        """A problem with the present loads and weights."""
        managed = np.zeros(len(bare.base_w), dtype=np.bool_)
        managed[self.site.node_rack] = True
        peak_w = self.loads.peak_w * (1.0 + self.topology.power.meter_accuracy)
        return replace(
            bare,
            shares=self.shares,
            base_w=np.where(managed, bare.base_w + self.loads.besides_w, self.loads.load_w),
            metered_w=np.where(managed & ~np.isnan(peak_w), peak_w, 0.0),
        )

    @cached_property
    def digest(self) -> str:
        """sha256 over everything that changes from question to question of one site."""
        hashed = hashlib.sha256()
        now = self._limits.problem
        out = (*self.topology.power.maintenance, str(self.present_only))
        hashed.update("\n".join((*out, *(f"{n}={w!r}" for n, w in self.fixed))).encode())
        with np.errstate(invalid="ignore"):
            thermal_w = np.floor(np.minimum(self.thermal_w, self.site.max_cap_w))
        shares = self.shares
        for array in (now.base_w, now.metered_w, shares.base_w, shares.group_w, thermal_w):
            hashed.update(np.ascontiguousarray(array).tobytes())
        if shares.more_w is not None:
            hashed.update(shares.more_w.tobytes())
        return hashed.hexdigest()

    @cached_property
    def whole(self) -> Problem:
        """For `solve` and `water_fill`: with the policy's prices."""
        return self.check.priced(self.site.facility.controllers.allocation.policy)


def pose(
    site: SiteModel,
    topology: Topology,
    loads: RackLoads,
    thermal_w: FloatArray,
    fixed: Mapping[str, float],
    *,
    present_only: bool,
    shares: Shares | None = None,
) -> Question:
    """The question of this moment.

    Args:
        site: the site.
        topology: the plant as it is.
        loads: live.
        thermal_w: float64[N]; inf where cooling sets no cap, NaN where it cannot tell.
        fixed: node -> cap that this cycle cannot change.
        present_only: as in `Question`.
        shares: of the topology with the split of the loads, where they are at hand.
    """
    held = tuple(sorted(fixed.items()))
    weights = Shares.of(topology, loads.split) if shares is None else shares
    return Question(site, topology, loads, weights, thermal_w, held, present_only)
