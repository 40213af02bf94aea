"""Corrective mode: more than the limits for hours in a case of loss, for as long as shedding takes.

Control law 1, "Corrective". In a case of loss an element with a stated curve may take the largest r
with (1 - x)·T(r) >= 2·T_shed. That is worth nothing without its proofs, so it is off, in the same
cycle, when any of them is missing: then the limits are the preventive ones, and caps come down to
them at once. A loss that is only suspected ends it too, and so does an element over its limit:
shedding does not wait until it is clear what was lost.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from controllers.base import Condition
from controllers.flows import from_feeds_w
from controllers.gpu_caps import CapForce
from controllers.gpu_caps.force import BoolArray
from controllers.loads import RackLoads, caps_term_w
from controllers.losses import Losses
from controllers.trips import TripMemory
from controllers.trips.bands import Bands, bands_of
from facility.commands import Severity
from facility.drills import PROVES_MS, Shedding
from facility.points import FloatArray
from facility.site import SiteModel
from facility.snapshot import Snapshot
from facility.topology import Shares, Topology

#: The proofs must have stood for this long, and for this much longer than a lease of the time
#: before may live: an agent never shortens one.
STANDS_S: Final = 20.0
OUTLIVES_S: Final = 5.0
MOST_USED: Final = 0.1
#: Clocks count in steps, upwards, so that limits do not creep from cycle to cycle.
USED_STEP: Final = 0.02
UPS_ON_BATTERY: Final = 5.0
NAMED: Final = 3


@dataclass(frozen=True, slots=True)
class CorrectiveMemory:
    """Since when every proof has stood, monotonic s; None: some proof is missing."""

    since_s: float | None = None


@dataclass(frozen=True, eq=False)
class Corrective:
    """What is allowed in this cycle beyond the preventive limits.

    Attributes:
        wanted: whether the site asks for it.
        engaged: whether it is in force.
        missing: proofs that are missing, in words.
        shedding: what drills have proved.
        loss_limit_w: float64[E], limits in cases of loss while engaged.
    """

    wanted: bool = False
    engaged: bool = False
    missing: tuple[str, ...] = ()
    shedding: Shedding | None = None
    loss_limit_w: FloatArray | None = None

    def applied(self, shares: Shares) -> Shares:
        """The weights with the limits of this cycle."""
        if self.loss_limit_w is None:
            return shares
        return shares.with_loss_limits(self.loss_limit_w)

    @property
    def key(self) -> str:
        """What a plan that was made under these limits is valid for; "" for preventive ones."""
        if self.loss_limit_w is None:
            return ""
        return f"|corrective {self.loss_limit_w.tobytes().hex()}"

    def conditions(self) -> list[Condition]:
        """`corrective_off`, where a site that asks for the mode does without it for longer."""
        if not self.wanted or self.engaged:
            return []
        text = f"Corrective mode is off: {'; '.join(self.missing)}. Caps are the preventive ones."
        return [
            Condition("corrective_off", "hall", Severity.WARNING, text, on_delay_s=2.0 * STANDS_S)
        ]

    def to_json(self) -> dict[str, Any]:
        """For people and for the leases: `lease_s` is the longest that they may live, s."""
        proof = self.shedding if self.wanted else None
        return {
            "mode": "corrective" if self.wanted else "preventive",
            "engaged": self.engaged,
            "missing": list(self.missing),
            "shed_s": None if proof is None else proof.shed_s,
            "lease_s": None if proof is None else proof.lease_s,
        }


def corrective(
    site: SiteModel,
    topology: Topology,
    snapshot: Snapshot,
    shares: Shares,
    *,
    losses: Losses,
    force: CapForce,
    loads: RackLoads,
    trips: TripMemory,
    shedding: Shedding | None,
    acts: bool,
    now_ms: int,
    memory: CorrectiveMemory,
) -> tuple[Corrective, CorrectiveMemory]:
    """Decide whether the proofs stand, and what they allow.

    Args:
        site: the site.
        topology: the plant as it is.
        snapshot: the present.
        shares: of the topology, preventive.
        losses: believed and suspected.
        force: caps in force.
        loads: live.
        trips: clocks as the cycle before left them.
        shedding: what drills have proved.
        acts: whether this controller may lower every cap: lease, journal, mode.
        now_ms: UTC.
        memory: of the cycle before.
    """
    if site.facility.power.mode != "corrective":
        return Corrective(), CorrectiveMemory()
    bands = bands_of(site)
    if shedding is not None:
        shedding = replace(shedding, shed_s=max(shedding.shed_s, site.facility.power.shed))
    missing = [
        *_about_drills(shedding, now_ms),
        *([] if acts else ["caps cannot all be lowered: no lease, no journal or not in auto"]),
        *_about_nodes(site, force),
        *_about_plant(site, topology, snapshot, losses, loads),
        *_about_clocks(bands, trips),
    ]
    if missing or shedding is None:
        return Corrective(True, False, tuple(missing), shedding), CorrectiveMemory()
    since_s = snapshot.now_s if memory.since_s is None else memory.since_s
    kept = CorrectiveMemory(since_s)
    stands_s = max(STANDS_S, site.facility.agents.lease + OUTLIVES_S)
    left_s = stands_s - (snapshot.now_s - since_s)
    if left_s > 0.0:
        waiting = f"the proofs must stand for {stands_s:.0f} s: {left_s:.0f} s more"
        return Corrective(True, False, (waiting,), shedding), kept
    limit = _loss_limits(site, topology, shares, loads, bands, trips, shedding)
    return Corrective(True, True, (), shedding, limit), kept


def _about_drills(shedding: Shedding | None, now_ms: int) -> Iterator[str]:
    if shedding is None:
        yield "no drill has proved how fast load comes off"
    elif not 0 <= now_ms - shedding.drilled_ms < PROVES_MS:
        yield "the last drill is older than 30 days"


def _about_nodes(site: SiteModel, force: CapForce) -> Iterator[str]:
    weak = ~force.answering | ~force.leased | force.silent | force.foreign
    if weak.any():
        names = [site.nodes[int(i)] for i in np.flatnonzero(weak)]
        yield f"the leases of {_listed(names)} are degraded"


def _about_plant(
    site: SiteModel, topology: Topology, snapshot: Snapshot, losses: Losses, loads: RackLoads
) -> Iterator[str]:
    if losses.lost:
        yield f"{_listed(losses.lost)} lost"
    if losses.suspected:
        yield f"{_listed(losses.suspected)} may be lost"
    if loads.blind:
        yield f"the meters of {_listed(loads.blind)} are silent"
    state = snapshot.good(site.element_state)
    ups = np.array([kind == "ups" for kind in topology.kinds], dtype=np.bool_)
    battery = np.flatnonzero(ups & (state == UPS_ON_BATTERY))
    if len(battery):
        yield f"{_listed([topology.elements[int(i)] for i in battery])} on battery"
    untold = np.flatnonzero(ups & (site.element_state >= 0) & np.isnan(state))
    if len(untold):
        names = [topology.elements[int(i)] for i in untold]
        yield f"{_listed(names)} does not say whether it is on battery"
    own = snapshot.good(site.element_meter)
    feeds = from_feeds_w(topology, snapshot.usable(site.feed_meter))
    seen = np.fmax(own, feeds)
    with np.errstate(invalid="ignore"):
        over = np.flatnonzero(seen > topology.metered_limit_w)
    if len(over):
        names = [topology.elements[int(i)] for i in over]
        yield f"{_listed(names)} over the limit for hours"


def _about_clocks(bands: Bands, trips: TripMemory) -> Iterator[str]:
    if len(trips.used) != len(bands.rows):
        yield "the trip clocks have not run yet"
        return
    high = np.flatnonzero(trips.used > MOST_USED)
    if len(high):
        worst = int(high[np.argmax(trips.used[high])])
        yield f"the trip clock of {bands.elements[worst]} stands at {trips.used[worst]:.2f}"


def _loss_limits(
    site: SiteModel,
    topology: Topology,
    shares: Shares,
    loads: RackLoads,
    bands: Bands,
    trips: TripMemory,
    shedding: Shedding,
) -> FloatArray:
    """float64[E], W: limits in cases of loss.

    Only where a curve is stated, where no other hall draws too, and where all caps at their
    boards' minimum would bring every case under the preventive limit. Air counts as hot.
    """
    used = np.ceil(trips.used / USED_STEP - 1e-9) * USED_STEP
    hot: BoolArray = np.isfinite(bands.hot_c)
    ratio = bands.largest_ratio(used, hot, 2.0 * shedding.shed_s)
    limit = topology.limit_w.copy()
    allowed = topology.limit_w.copy()
    allowed[bands.rows] = ratio * topology.rating_w[bands.rows]
    managed = np.zeros(len(topology.loads), dtype=np.bool_)
    managed[site.node_rack] = True
    shed_w = caps_term_w(site, site.min_cap_w) + loads.besides_w
    least_w = np.where(managed, shed_w, loads.load_w)
    s = shares.structure
    stuck = (shares.slack_w(least_w) < 0.0) & (s.cell_case > 0)
    hopeless = np.zeros(len(limit), dtype=np.bool_)
    hopeless[s.check_element[s.cell_check[stuck]]] = True
    may = ~hopeless & (topology.share >= 1.0)
    return np.where(may, np.maximum(limit, allowed), limit)


def _listed(names: tuple[str, ...] | list[str]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more
