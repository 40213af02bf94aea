"""What would be left if something failed now: the last cycle's loads on a plant without it."""

from __future__ import annotations

from collections.abc import Sequence

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
    declared = site.topology.without(sorted(set(inputs.maintenance)))
    losses, _ = believe(site, declared, inputs.snapshot, memory.losses)
    present = declared.without(losses.lost)
    force, _ = caps_in_force(
        site, inputs.snapshot, memory.caps, inputs.acks, memory.meter_bounds_of(site)
    )
    loads = rack_loads(site, inputs.snapshot, force.in_force_w, memory.loads, present.dead_feeds)
    return study(present.without(fail), loads.load_w, loads.split)
