"""What the last cycle knew, ready for questions about a plant that is not there yet."""

from __future__ import annotations

from dataclasses import dataclass

from controllers.cycle.state import CycleInput, Memory
from controllers.gpu_caps import caps_in_force
from controllers.loads import RackLoads, rack_loads
from controllers.losses import believe
from facility.points import FloatArray
from facility.site import SiteModel
from facility.topology import Topology


@dataclass(frozen=True, eq=False)
class Now:
    """The plant, its loads and its caps as the last cycle saw them.

    Attributes:
        topology: without what is in maintenance or believed lost.
        declared: without what is in maintenance only.
        in_force_w: float64[N], caps in force, W per GPU.
    """

    site: SiteModel
    topology: Topology
    declared: Topology
    lost: tuple[str, ...]
    loads: RackLoads
    in_force_w: FloatArray


def now(site: SiteModel, memory: Memory, inputs: CycleInput) -> Now:
    """Read it from the last cycle's input and memory.

    Args:
        site: the site.
        memory: what the last cycle left.
        inputs: what it was given.
    """
    declared = site.topology.without(inputs.taken_out)
    losses, _ = believe(site, declared, inputs.snapshot, memory.losses)
    topology = declared.without(losses.lost)
    force, _ = caps_in_force(
        site, inputs.snapshot, memory.caps, inputs.acks, memory.meter_bounds_of(site)
    )
    loads = rack_loads(site, inputs.snapshot, force.in_force_w, memory.loads, topology.dead_feeds)
    return Now(site, topology, declared, losses.lost, loads, force.in_force_w)
