"""What the cooling loops together ask of the caps in one cycle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from controllers.cooling import LoopOutcome, control_loop, forget_leaks
from controllers.cycle.state import CycleInput, Memory
from controllers.gpu_caps import CapForce
from controllers.gpu_caps.force import BoolArray
from controllers.loads import RackLoads
from facility.commands import Mode, Override
from facility.points import FloatArray
from facility.site import SiteModel


@dataclass(frozen=True, eq=False)
class Cooling:
    """What all loops together ask of caps; see `LoopOutcome`."""

    thermal_w: FloatArray
    to_min: BoolArray
    to_floor: BoolArray
    no_raise: BoolArray


def cool(
    site: SiteModel,
    memory: Memory,
    inputs: CycleInput,
    force: CapForce,
    loads: RackLoads,
    leases: tuple[Override, ...],
) -> tuple[tuple[LoopOutcome, ...], tuple[Any, ...]]:
    racks_w = loads.load_w[: len(site.racks)]
    theirs = np.zeros(len(site.racks), dtype=np.bool_)
    theirs[site.node_rack[site.cap_activity(inputs.modes) != Mode.AUTO.activity]] = True
    found = []
    for i, loop in enumerate(site.loops):
        mode = inputs.modes.get(f"loop:{loop.name}", inputs.modes.get("hall", Mode.OBSERVE))
        before = forget_leaks(memory.loops[i], theirs, mode is not Mode.AUTO)
        found.append(
            control_loop(site, i, inputs.snapshot, force.in_force_w, racks_w, leases, before)
        )
    return tuple(o for o, _ in found), tuple(m for _, m in found)


def merge(site: SiteModel, outcomes: Sequence[LoopOutcome]) -> Cooling:
    n = len(site.nodes)
    thermal = np.full(n, np.inf)
    flags = [np.zeros(n, dtype=np.bool_) for _ in range(3)]
    for outcome in outcomes:
        thermal = np.minimum(thermal, outcome.thermal_cap_w)
        for flag, more in zip(
            flags, (outcome.to_min, outcome.to_floor, outcome.no_raise), strict=True
        ):
            flag |= more
    return Cooling(thermal, flags[0], flags[1], flags[2])
