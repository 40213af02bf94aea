"""Racks that draw more than their caps allow because a cap rose by itself: whom that concerns.

A driver that resets puts boards back to their maximum. The rack's load counts at what is in force
and at what is metered, as ever; but the caps of everybody else are chosen for the caps that are
wanted, since theirs would come down no sooner than the one that is being taken back.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from controllers.gpu_caps import CapForce, CapMemory
from controllers.gpu_caps.force import BoolArray
from controllers.loads import RackLoads
from facility.site import SiteModel
from facility.topology import Shares

#: Statuses come each second and are looked at each second.
TOLD_S: Final = 2.5


def without_surges(
    site: SiteModel,
    shares: Shares,
    loads: RackLoads,
    force: CapForce,
    memory: CapMemory,
    now_s: float,
) -> tuple[RackLoads, CapMemory]:
    """Loads in which a surge that caps explain, or are about to, is no metered peak.

    A peak is left out of what caps are chosen for while a cap that has risen by itself is taken
    back, and until every node of the rack has been heard since the meter rose, 2.5 s at most. Not
    where something is over its limit as the plant is: then all caps come down at once.

    Args:
        site: the site.
        shares: the weights of this cycle.
        loads: of this cycle.
        force: caps in force.
        memory: of caps, of this cycle.
        now_s: monotonic.
    """
    racks = len(site.racks)
    with np.errstate(invalid="ignore"):
        above: BoolArray = np.asarray(loads.meter_w[:racks] > loads.caps_term_w)[site.node_rack]
    since = np.where(np.isnan(memory.surged_s), now_s, memory.surged_s)
    memory = replace(memory, surged_s=np.where(above, since, np.nan))
    untold = above & (memory.heard_s <= since) & (now_s - since <= TOLD_S)
    if not (untold | force.risen).any():
        return loads, memory
    if bool((shares.slack_w(loads.load_w)[shares.structure.cell_case == 0] < 0.0).any()):
        return loads, memory
    taken_back, out = (_of_racks(site, loads, nodes) for nodes in (force.risen, untold))
    kept = loads.memory
    held = np.where(taken_back, np.nan, kept.held_w)
    return (
        replace(
            loads,
            peak_w=np.where(taken_back | out, np.nan, loads.peak_w),
            memory=replace(kept, peaks=kept.peaks.forget(taken_back), held_w=held),
        ),
        memory,
    )


def _of_racks(site: SiteModel, loads: RackLoads, nodes: BoolArray) -> BoolArray:
    found: BoolArray = np.zeros(len(loads.load_w), dtype=np.bool_)
    found[site.node_rack[nodes]] = True
    return found
