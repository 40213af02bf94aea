"""What would be left if something failed now: the last cycle's loads on a plant without it."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from controllers.cycle.state import CycleInput, Memory
from controllers.gpu_caps import caps_in_force
from controllers.headroom import Headroom, study
from controllers.loads import rack_loads
from controllers.losses import believe
from facility.site import SiteModel


def what_if(site: SiteModel, memory: Memory, inputs: CycleInput, fail: Sequence[str]) -> Headroom:
    """Headroom in every case of the plant as it is, less the elements in `fail`.

    Args:
        site: the site.
        memory: what the last cycle left.
        inputs: what it was given.
        fail: elements of the site.
    """
    return _study(site, memory, inputs, fail)


def at_most(
    site: SiteModel, memory: Memory, inputs: CycleInput, nodes: Collection[str]
) -> Headroom:
    """Headroom if the caps of some nodes rose to their boards' maximum, and they drew it.

    Args:
        site: the site.
        memory: what the last cycle left.
        inputs: what it was given.
        nodes: whose caps rise; the others keep theirs.
    """
    return _study(site, memory, inputs, (), nodes)


def _study(
    site: SiteModel,
    memory: Memory,
    inputs: CycleInput,
    fail: Sequence[str],
    rising: Collection[str] = (),
) -> Headroom:
    declared = site.topology.without(inputs.taken_out)
    losses, _ = believe(site, declared, inputs.snapshot, memory.losses)
    present = declared.without(losses.lost)
    force, _ = caps_in_force(
        site, inputs.snapshot, memory.caps, inputs.acks, memory.meter_bounds_of(site)
    )
    rises = np.array([name in rising for name in site.nodes], dtype=np.bool_)
    caps_w = np.where(rises, np.fmax(site.max_cap_w, force.in_force_w), force.in_force_w)
    loads = rack_loads(site, inputs.snapshot, caps_w, memory.loads, present.dead_feeds)
    return study(present.without(fail), loads.load_w, loads.split)
