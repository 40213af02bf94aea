"""The last resort of control law 2: nodes are powered off where caps come too late for a breaker.

Only where the file lists nodes (`control: {power_off: [...]}`), in that order, and only for an
element whose overload is measured and whose clock leaves less than twice the time that shedding
takes. As many nodes as bring the element back to its rating, no more; what was switched off
counts as gone until the meters show it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from controllers.base import Condition
from controllers.gpu_caps import CapForce
from controllers.guard import Draft, StandingOrders, WriteLimits
from controllers.trips import Trips
from controllers.wording import listed
from facility.commands import Bounds, Command, Mode, Severity
from facility.drills import LEAST_SHED_S, Shedding
from facility.points import FloatArray, PointId
from facility.site import SiteModel
from facility.snapshot import Snapshot
from facility.topology import Shares

#: A node that was told to go off is not told again, and its load counts as gone, for so long.
GOES_OFF_S: Final = 15.0
#: So long the alarm tells of it.
TOLD_S: Final = 600.0


@dataclass(frozen=True)
class OffMemory:
    """Nodes that were told to go off of late.

    Attributes:
        since_s: node -> when that was sent (monotonic s).
        node_w: node -> what it drew then, W.
        why: node -> in words.
    """

    since_s: Mapping[str, float] = field(default_factory=dict)
    node_w: Mapping[str, float] = field(default_factory=dict)
    why: Mapping[str, str] = field(default_factory=dict)

    @property
    def nodes(self) -> tuple[str, ...]:
        """Nodes that were told to go off of late, in the order in which they were."""
        return tuple(sorted(self.since_s, key=lambda node: (self.since_s[node], node)))

    def sent(self, offs: PowerOffs, commands: Sequence[Command], now_s: float) -> OffMemory:
        """After commands have passed the guard."""
        fresh = {c.point.device: c for c in commands if c.point.kind == "power_off"}
        since = {n: s for n, s in self.since_s.items() if now_s - s < TOLD_S}
        why = {n: self.why[n] for n in since}
        drew_w = {n: self.node_w[n] for n in since}
        since |= dict.fromkeys(fresh, now_s)
        why |= {n: c.because for n, c in fresh.items()}
        drew_w |= {n: offs.node_w[n] for n in fresh}
        return OffMemory(since, drew_w, why)


@dataclass(frozen=True, slots=True)
class PowerOffs:
    """Attributes: drafts: what to send, in declared order; node_w: what each of them draws, W."""

    drafts: tuple[Draft, ...] = ()
    node_w: Mapping[str, float] = field(default_factory=dict)

    def orders(self, standing: StandingOrders) -> StandingOrders:
        """Standing orders that know the points of these writes."""
        if not self.drafts:
            return standing
        room = WriteLimits(Bounds(1.0, 1.0))
        return replace(standing, limits={**standing.limits, **{d.point: room for d in self.drafts}})


def power_offs(
    site: SiteModel,
    snapshot: Snapshot,
    modes: Mapping[str, Mode],
    shedding: Shedding | None,
    trips: Trips,
    shares: Shares,
    force: CapForce,
    memory: OffMemory,
) -> PowerOffs:
    """Which nodes must go off now.

    Args:
        site: the site.
        snapshot: the present.
        modes: scope -> mode; only nodes in auto are switched.
        shedding: what drills have proved of the time that shedding takes; None: the least.
        trips: the clocks of this cycle.
        shares: weights of the plant as it is.
        force: which nodes answer.
        memory: who was told before.
    """
    order = site.facility.control.power_off
    shed_s = LEAST_SHED_S if shedding is None else shedding.shed_s
    urgent = np.flatnonzero(trips.known & (trips.to_trip_s < 2.0 * shed_s))
    if not order or not len(urgent):
        return PowerOffs()
    node_w = _node_w(site, snapshot)
    now_s = snapshot.now_s
    drafts: dict[str, Draft] = {}
    for c in urgent[np.argsort(trips.to_trip_s[urgent], kind="stable")].tolist():
        weight = _weights(shares, int(trips.bands.rows[c]))
        over_w = float(trips.load_w[c] - trips.bands.rating_w[c])
        # What goes off counts at what it drew then: its caps come down meanwhile.
        going = {n: w for n, w in memory.node_w.items() if now_s - memory.since_s[n] < GOES_OFF_S}
        going |= {n: float(node_w[site.node_index[n]]) for n in drafts}
        over_w -= sum(weight[site.node_rack[site.node_index[n]]] * w for n, w in going.items())
        for name in order:
            if over_w <= 0.0:
                break
            node = site.node_index[name]
            saved_w = float(weight[site.node_rack[node]] * node_w[node])
            told = name in memory.since_s or name in drafts
            acts = site.mode_of(site.cap_points[node], modes) is Mode.AUTO
            if told or not acts or saved_w <= 0.0 or not force.answering[node]:
                continue
            over_w -= saved_w
            because = (
                f"{trips.bands.elements[c]} trips in {int(trips.to_trip_s[c])} s, sooner than "
                f"caps take load off ({shed_s:.0f} s)"
            )
            point = PointId(name, "total", "power_off")
            drafts[name] = Draft(point, 1.0, None, False, because)
    drawn = {name: float(node_w[site.node_index[name]]) for name in drafts}
    return PowerOffs(tuple(drafts.values()), drawn)


def _weights(shares: Shares, element: int) -> FloatArray:
    """float64[L]: W on an element per W of each load, as the plant is."""
    s = shares.structure
    at = int(np.searchsorted(s.checks, element))
    if at >= len(s.checks) or s.checks[at] != element:
        return np.zeros(len(shares.topology.loads))
    return shares.row(int(s.first_cell[at]))


def _node_w(site: SiteModel, snapshot: Snapshot) -> FloatArray:
    """float64[N]: what surely goes away with each node: its GPUs as measured, and its overhead."""
    gpus_w = np.nan_to_num(snapshot.good(site.gpu_power)).sum(axis=1)
    return np.where(gpus_w > 0.0, gpus_w + site.overhead_w, 0.0)


def off_conditions(memory: OffMemory) -> list[Condition]:
    """`powered_off`: nodes were switched off to keep a breaker from opening."""
    nodes = memory.nodes
    if not nodes:
        return []
    text = (
        f"{listed(nodes)} {'was' if len(nodes) == 1 else 'were'} powered off: "
        f"{memory.why[nodes[-1]]}. Find the overload before they are started again."
    )
    return [Condition("powered_off", "hall", Severity.CRITICAL, text, page=True, on_delay_s=0.0)]
