"""Everything that is so in this cycle and may be worth an alarm."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from controllers import alarms
from controllers.alarms.watch import things_dead, write_conditions
from controllers.base import Condition
from controllers.cooling import LoopOutcome
from controllers.cycle.overrides import in_force
from controllers.cycle.plant import Plant, in_service, paths
from controllers.cycle.state import CycleInput, Memory
from controllers.cycle.wanted import Wanted
from controllers.gpu_caps import CapForce
from controllers.headroom import Headroom
from controllers.loads import RackLoads
from controllers.maintenance import hangs_below, work_conditions
from controllers.trips import Trips, seconds_left, trip_conditions
from controllers.wording import capital, lacking
from facility.commands import Severity
from facility.site import SiteModel

#: How long a controller that starts waits for the first word of every node and device.
GATHER_S: Final = 10.0


def hangs_below_now(site: SiteModel, inputs: CycleInput) -> dict[str, str]:
    """Thing -> key of the maintenance that explains its alarms."""
    if not inputs.maintenance:
        return {}
    return hangs_below(site, inputs.maintenance, inputs.now_ms, in_service(site, inputs))


def conditions(
    site: SiteModel,
    memory: Memory,
    inputs: CycleInput,
    plant: Plant,
    loads: RackLoads,
    headroom: Headroom,
    force: CapForce,
    outcomes: Sequence[LoopOutcome],
    wanted: Wanted,
    trips: Trips,
) -> list[Condition]:
    started_s = inputs.now_s if memory.started_s is None else memory.started_s
    running_s = inputs.now_s - started_s
    out: list[Condition] = work_conditions(inputs.maintenance, inputs.now_ms)
    if running_s >= GATHER_S:
        dead = {**hangs_below_now(site, inputs), **things_dead(site, plant.losses)}
        out += alarms.device_conditions(site, inputs.snapshot, dead, loads.blind)
    out += alarms.absence_conditions(site, inputs.snapshot, inputs.modes, inputs.away_s, running_s)
    hands = alarms.hands_of(site, inputs.modes, paths(site, plant.out))
    out += alarms.power_conditions(
        site,
        inputs.snapshot,
        plant.losses,
        headroom,
        hands,
        meter_w=loads.meter_w,
        caps_term_w=loads.caps_term_w,
        first_trip=seconds_left(trips),
    )
    out += trip_conditions(site, trips, starting=running_s < GATHER_S)
    out += alarms.doubt_conditions(site, inputs.snapshot)
    out += alarms.room_conditions(site, inputs.snapshot, memory.alarms.active)
    foreign = [site.nodes[int(i)] for i in np.flatnonzero(force.foreign)]
    out += write_conditions(inputs.acks, foreign)
    for outcome in outcomes:
        out += outcome.conditions
    ended = set(memory.overrides) - {o.id for o in in_force(inputs.overrides, inputs.now_ms)}
    for override in inputs.overrides:
        if override.id in ended and override.until_ms <= inputs.now_ms:
            text = f"{override.by}'s override of {override.point} has ended."
            out.append(
                Condition("override_expired", override.id, Severity.INFO, text, on_delay_s=0.0)
            )
    missing = wanted.shortfall
    if missing is not None and (hands.any or not site.nodes):
        text = (
            f"No caps fit: {missing.get('element')} lacks {lacking(1e3 * missing.get('kw', 0.0))} "
            f"({missing.get('case')}). {capital(str(missing.get('would_fix') or ''))}"
        )
        out.append(Condition("allocation_infeasible", "hall", Severity.CRITICAL, text, page=True))
    return out
