"""Cap set-points as columns: what `arbitrate` says where nobody but allocation asks for a cap.

Only allocation proposes caps (protection's room, and the next step inside it), so the outcome of
18,000 arbitrations is one clamp of a vector. An object per point is made when somebody looks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import overload

import numpy as np

from controllers.arbiter import arbitrate
from controllers.base import must, told, would
from controllers.cycle.state import CycleInput
from controllers.cycle.wanted import Wanted
from controllers.gpu_caps import CapForce
from controllers.gpu_caps.force import BoolArray
from facility.commands import (
    Bounds,
    Mode,
    Override,
    Proposal,
    Rank,
    Setpoint,
    SetpointRow,
    setpoint_row,
)
from facility.points import FloatArray, IntArray, PointId
from facility.site import SiteModel

SOURCE = "allocation"


@dataclass(frozen=True, eq=False)
class CapRooms:
    """Room and value of every cap, W per GPU.

    Attributes:
        shown: bool[N], nodes that have a set-point: those that are not off.
        low_w, high_w: float64[N], protection's room.
        step_w: float64[N], what allocation would have next.
        value_w: float64[N], the outcome.
        own: node -> its outcome where an override has a say too.
    """

    site: SiteModel = field(repr=False)
    wanted: Wanted = field(repr=False)
    shown: BoolArray
    low_w: FloatArray
    high_w: FloatArray
    step_w: FloatArray
    value_w: FloatArray
    own: Mapping[int, Setpoint]

    @classmethod
    def of(
        cls,
        site: SiteModel,
        inputs: CycleInput,
        wanted: Wanted,
        force: CapForce,
        value_w: FloatArray,
        leases: Mapping[str, Override],
    ) -> CapRooms:
        """Fold protection, overrides and the next step.

        Args:
            site: the site.
            inputs: of the cycle.
            wanted: where every cap should be.
            force: caps in force.
            value_w: float64[N], what is written in this cycle; NaN where nothing is.
            leases: node -> override.
        """
        low = site.min_cap_w
        moving = ~np.isnan(value_w)
        step = np.where(moving, value_w, force.in_force_w)
        # A room ends where this cycle's write ends: the rest of a raise waits for the ramp.
        high = np.maximum(np.minimum(wanted.high_w, site.max_cap_w), low)
        bounded = np.maximum(np.minimum(high, wanted.desired_w), low)
        high = np.where(wanted.protect, bounded, high)
        value = np.minimum(np.maximum(step, low), high)
        shown = (site.cap_activity(inputs.modes) != Mode.OFF.activity) & np.isfinite(value)
        rooms = cls(site, wanted, shown, low, high, step, value, {})
        own: dict[int, Setpoint] = {}
        for node, lease in leases.items():
            i = site.node_index[node]
            if shown[i] and moving[i] and abs(float(step[i]) - float(wanted.desired_w[i])) < 1.0:
                point = site.cap_points[i]
                asked = told(point, float(step[i]), f"{lease.by}: {lease.reason}", lease.id)
                found = arbitrate(point, [*rooms.proposals(i), asked], None)
                if found is not None:
                    own[i], value[i] = found, found.value
        return cls(site, wanted, shown, low, high, step, value, own)

    def reason(self, i: int) -> str:
        """Why a node's cap goes where it goes."""
        return f"{self.wanted.reasons[i]} (wanted {self.wanted.desired_w[i]:.0f} W)"

    def proposals(self, i: int) -> list[Proposal]:
        """What allocation proposes for one node."""
        point, reason = self.site.cap_points[i], self.reason(i)
        return [
            must(point, float(self.low_w[i]), float(self.high_w[i]), reason, SOURCE),
            would(point, float(self.step_w[i]), reason, SOURCE),
        ]

    def because(self, nodes: Sequence[int]) -> list[str]:
        """Which bound or preference set the values of some nodes, with the numbers."""
        own, wanted_w = self.own, self.wanted.desired_w.tolist()
        step_w, value_w = self.step_w.tolist(), self.value_w.tolist()
        out = []
        for i, reason in zip(nodes, self.wanted.reasons.of(nodes), strict=True):
            if i in own:
                out.append(own[i].because)
                continue
            text = f"{SOURCE}: {reason} (wanted {wanted_w[i]:.0f} W)"
            if value_w[i] != step_w[i]:
                text += f" ({SOURCE} wanted {step_w[i]:g})"
            out.append(text)
        return out

    def setpoint(self, i: int, because: str) -> Setpoint:
        """One node's outcome."""
        if i in self.own:
            return self.own[i]
        free = self.value_w[i] == self.step_w[i]
        return Setpoint(
            self.site.cap_points[i],
            float(self.value_w[i]),
            Bounds(float(self.low_w[i]), float(self.high_w[i])),
            because,
            False,
            Rank.EFFICIENCY if free else Rank.PROTECTION,
        )


class _BySite:
    """Makes a site a cache key by identity."""

    def __init__(self, site: SiteModel) -> None:
        self.site = site

    def __hash__(self) -> int:
        return id(self.site)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _BySite) and other.site is self.site


@lru_cache(maxsize=8)
def _named(key: _BySite) -> tuple[tuple[str, ...], IntArray]:
    """Cap points as text, by node; nodes in the order of their cap points."""
    points = key.site.cap_points
    order = np.array(sorted(range(len(points)), key=points.__getitem__), dtype=np.int64)
    return tuple(str(point) for point in points), order


def by_point(site: SiteModel) -> IntArray:
    """int64[N]: nodes in the order of their cap points."""
    return _named(_BySite(site))[1]


class Setpoints(Sequence[Setpoint]):
    """All set-points of a cycle, ordered by point; those of caps are made when looked at."""

    def __init__(self, rooms: CapRooms, others: Sequence[Setpoint]) -> None:
        self.rooms, self.others = rooms, tuple(others)

    @cached_property
    def _all(self) -> tuple[Setpoint, ...]:
        nodes = np.flatnonzero(self.rooms.shown).tolist()
        because = self.rooms.because(nodes)
        caps = [self.rooms.setpoint(i, why) for i, why in zip(nodes, because, strict=True)]
        return tuple(sorted((*caps, *self.others), key=lambda s: s.point))

    def rows(self) -> list[SetpointRow]:
        """Each as it is journalled, in order; see `facility.commands.InRows`."""
        rooms, site = self.rooms, self.rooms.site
        names, order = _named(_BySite(site))
        nodes = order[rooms.shown[order]].tolist()
        rank = np.where(rooms.value_w == rooms.step_w, Rank.EFFICIENCY, Rank.PROTECTION).tolist()
        value, low, high = (a.tolist() for a in (rooms.value_w, rooms.low_w, rooms.high_w))
        keyed: list[tuple[PointId, SetpointRow]] = [
            (site.cap_points[i], (names[i], value[i], low[i], high[i], why, False, rank[i]))
            for i, why in zip(nodes, rooms.because(nodes), strict=True)
        ]
        place = {site.cap_points[i]: n for n, i in enumerate(nodes)} if rooms.own else {}
        for setpoint in rooms.own.values():
            keyed[place[setpoint.point]] = (setpoint.point, setpoint_row(setpoint))
        keyed += [(setpoint.point, setpoint_row(setpoint)) for setpoint in self.others]
        keyed.sort(key=lambda one: one[0])
        return [row for _, row in keyed]

    def __len__(self) -> int:
        return int(self.rooms.shown.sum()) + len(self.others)

    def __iter__(self) -> Iterator[Setpoint]:
        return iter(self._all)

    @overload
    def __getitem__(self, index: int) -> Setpoint: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Setpoint, ...]: ...
    def __getitem__(self, index: int | slice) -> Setpoint | tuple[Setpoint, ...]:
        return self._all[index]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self._all == tuple(other)

    def __hash__(self) -> int:
        return hash(self._all)

    def __repr__(self) -> str:
        return f"<{len(self)} set-points>"
