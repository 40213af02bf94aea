"""What a drill lowers: the caps that the loss of an element would demand, and who is concerned.

A preventive site's caps already fit every single loss, so the loss itself demands nothing; what it
demands is N+1 on what would remain, and at least a step that the meters can show.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from controllers.allocation import water_fill
from controllers.cycle.plant import present_plant
from controllers.cycle.question import pose
from controllers.cycle.state import CycleInput, Memory
from controllers.gpu_caps import CapForce, caps_in_force
from controllers.gpu_caps.force import BoolArray
from controllers.loads import RackLoads, caps_term_w, rack_loads
from facility.commands import Mode
from facility.points import FloatArray
from facility.site import SiteModel
from facility.topology import Topology

#: Every cap concerned falls by at least this share, so that there is something to measure.
LEAST_FALL = 0.1
GRAIN_W = 1.0


@dataclass(frozen=True, eq=False)
class Shedable:
    """What a drill of one element would do now.

    Attributes:
        caps_w: float64[N], W per GPU; NaN for nodes that are not concerned.
        before_w: float64[N], caps in force.
        allowed_w: float64[R], the most that each rack may draw once the caps hold, meters' and
            boards' accuracy included; NaN for racks that are not concerned.
        cleared_w: W that come off at least, by the caps.
        because: why it cannot be drilled now; empty if it can.
    """

    caps_w: FloatArray
    before_w: FloatArray
    allowed_w: FloatArray
    cleared_w: float
    because: str

    def caps(self, site: SiteModel) -> Mapping[str, tuple[float, float]]:
        """Node -> (cap in force, cap under the drill), W per GPU, for those concerned."""
        return {
            site.nodes[i]: (float(self.before_w[i]), float(self.caps_w[i]))
            for i in np.flatnonzero(~np.isnan(self.caps_w)).tolist()
        }


def shedable(site: SiteModel, memory: Memory, inputs: CycleInput, element: str) -> Shedable:
    """What a drill would lower, from the last cycle's view of the plant.

    Args:
        site: the site.
        memory: what the last cycle left.
        inputs: what it was given.
        element: the declared loss; an element of the site.
    """
    plant = present_plant(site, memory, inputs)
    force, _ = caps_in_force(
        site, inputs.snapshot, memory.caps, inputs.acks, memory.meter_bounds_of(site)
    )
    loads = rack_loads(
        site, inputs.snapshot, force.in_force_w, memory.loads, plant.topology.dead_feeds
    )
    lost = plant.topology.without([element])
    concerned = _touched(plant.topology, element)[site.node_rack]
    question = pose(
        site, lost, loads, np.full(len(site.nodes), np.inf), {}, present_only=False
    ).whole
    filled = water_fill(question)
    demanded = np.array([filled.caps_w[name] for name in site.nodes], dtype=np.float64)
    step = np.floor(force.in_force_w * (1.0 - LEAST_FALL) / GRAIN_W) * GRAIN_W
    target = np.maximum(np.minimum(demanded, step), site.floor_w)
    falls = concerned & (target <= force.in_force_w - GRAIN_W)
    caps = np.where(falls, np.floor(target / GRAIN_W) * GRAIN_W, np.nan)
    after = np.where(falls, caps, force.in_force_w)
    racks = len(site.racks)
    most_w = (caps_term_w(site, after) + loads.besides_w)[:racks]
    full = most_w * (1.0 + site.facility.power.meter_accuracy)
    moved = np.zeros(racks, dtype=np.bool_)
    moved[site.node_rack[falls]] = True
    cleared = caps_term_w(site, force.in_force_w) - caps_term_w(site, after)
    return Shedable(
        caps_w=caps,
        before_w=force.in_force_w,
        allowed_w=np.where(moved, full, np.nan),
        cleared_w=float(cleared.sum()),
        because=_out_of_order(plant.losses.lost, plant.losses.suspected)
        or _refusal(site, inputs, plant.topology, force, loads, concerned, falls),
    )


def _touched(topology: Topology, element: str) -> BoolArray:
    """bool[R]: racks whose supply a loss of the element changes."""
    compiled = topology.compiled
    row = topology.element_index[element]
    cases = np.flatnonzero(compiled.lost == row)
    racks = len(topology.racks)
    if not len(cases):
        return np.zeros(racks, dtype=np.bool_)
    touched: BoolArray = compiled.affected[int(cases[0])][:racks]
    return touched


def _refusal(
    site: SiteModel,
    inputs: CycleInput,
    topology: Topology,
    force: CapForce,
    loads: RackLoads,
    concerned: BoolArray,
    falls: BoolArray,
) -> str:
    if loads.blind:
        return f"blind: {', '.join(loads.blind[:3])} cannot be metered"
    if inputs.epoch is None or not inputs.journal_ok:
        return "no lease or no journal: lowering only"
    if topology.compiled.dead[0].any():
        dead = topology.elements[int(np.flatnonzero(topology.compiled.dead[0])[0])]
        return f"{dead} is out of service"
    deaf = concerned & (~force.answering | ~force.leased | force.silent)
    if deaf.any():
        return f"{_named(site, deaf)} does not answer under a lease"
    if (concerned & force.foreign).any():
        return f"{_named(site, concerned & force.foreign)} has a cap that somebody else set"
    idle = np.array(
        [site.mode_of(point, inputs.modes) is not Mode.AUTO for point in site.cap_points],
        dtype=np.bool_,
    )
    if (concerned & idle).any():
        return f"{_named(site, concerned & idle)} is not in auto"
    if not falls.any():
        return "no cap can fall: all that it concerns are at their floors"
    return ""


def _out_of_order(lost: tuple[str, ...], suspected: tuple[str, ...]) -> str:
    if lost:
        return f"{', '.join(lost)} is lost"
    return f"{', '.join(suspected)} may be lost" if suspected else ""


def _named(site: SiteModel, which: BoolArray) -> str:
    names = [site.nodes[int(i)] for i in np.flatnonzero(which)]
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return f"{names[0]}{more}"
