"""What one cycle concludes of clocks, cords and the last resort: limits that time itself sets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from controllers.base import Condition
from controllers.cycle.plant import Plant
from controllers.cycle.poweroff import OffMemory, PowerOffs, off_conditions, power_offs
from controllers.cycle.state import CycleInput, Memory
from controllers.gpu_caps import CapForce
from controllers.headroom import Headroom
from controllers.reconcile import (
    ReconcileMemory,
    Residuals,
    reconcile,
    wiring_conditions,
    wiring_facts,
)
from controllers.trips import TripMemory, Trips, trip_clocks, trip_facts
from facility.site import SiteModel
from facility.topology import Shares


@dataclass(frozen=True, eq=False)
class Electrical:
    """Of one cycle: trip clocks, residuals of the meters, nodes to be powered off."""

    trips: Trips
    trip_memory: TripMemory
    residuals: Residuals
    reconcile_memory: ReconcileMemory
    offs: PowerOffs

    def conditions(self, off: OffMemory) -> list[Condition]:
        """`wiring_suspect` and `powered_off`."""
        return wiring_conditions(self.residuals) + off_conditions(off)

    def facts(self, site: SiteModel, off: OffMemory) -> dict[str, Any]:
        """Clocks and residuals by element, and the nodes that were powered off."""
        return {
            "trips": trip_facts(site, self.trips),
            "wiring": wiring_facts(self.residuals),
            "powered_off": list(off.nodes),
        }


def electrical(
    site: SiteModel,
    memory: Memory,
    inputs: CycleInput,
    plant: Plant,
    headroom: Headroom,
    shares: Shares,
    force: CapForce,
) -> Electrical:
    """Move the clocks on, compare the meters, and see whether caps alone come too late."""
    trips, trip_memory = trip_clocks(
        site,
        plant.topology,
        inputs.snapshot,
        headroom,
        memory.trips,
        doubt=bool(plant.losses.suspected),
        kept=inputs.kept,
    )
    residuals, reconcile_memory = reconcile(site, plant.topology, inputs.snapshot, memory.reconcile)
    offs = power_offs(
        site,
        inputs.snapshot,
        inputs.modes,
        inputs.shedding,
        trips,
        shares,
        force,
        memory.offs,
    )
    return Electrical(trips, trip_memory, residuals, reconcile_memory, offs)
