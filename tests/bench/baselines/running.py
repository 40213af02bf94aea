"""Run a scheme on the simulated plant: the same seed, boards, weather, load and faults as ours."""

from __future__ import annotations

from typing import Any

import numpy as np

from drivers.sim import scenarios
from drivers.sim.plant.world import Start, World
from facility.config import Facility
from tests.bench.baselines.schemes import Scheme

LOOK_S = 1.0


def run(
    facility: Facility, scheme: Scheme, scenario: str, seed: int, seconds: float
) -> dict[str, Any]:
    """What the plant's truth says after it; loads are read true, at once and without fault."""
    start = scheme.start()
    world = World.of(facility, seed, scenarios.load(scenario), seconds, Start(start))
    plant = world.plant
    hall = plant.truth.hall
    for name, cap_w in start.items():
        _set(plant, facility, name, cap_w)
    for second in range(round(seconds / LOOK_S)):
        world.advance(LOOK_S)
        truth = plant.truth
        per_node = np.add.reduceat(truth.bank.power_w, hall.first_board[:-1])
        per_gpu = per_node / np.diff(hall.first_board)
        for name, cap_w in scheme.step(second * LOOK_S, truth.load_w, per_gpu).items():
            _set(plant, facility, name, cap_w)
    return world.truth()


def _set(plant: Any, facility: Facility, node: str, cap_w: float) -> None:
    for board in range(facility.nodes[node].gpus):
        plant.set_gpu_limit(node, board, cap_w)


def with_racks(facility: Facility, racks: set[str]) -> Facility:
    """The same hall with these racks only."""
    power = facility.power.model_copy(
        update={"racks": {n: r for n, r in facility.power.racks.items() if n in racks}}
    )
    loops = {
        name: loop.model_copy(
            update={
                "racks": {n: s for n, s in loop.racks.items() if n in racks},
                "sensors": tuple(
                    s for s in loop.sensors if facility.devices[s].measures.rack in racks
                ),
            }
        )
        for name, loop in facility.cooling.loops.items()
    }
    return facility.model_copy(
        update={
            "power": power,
            "nodes": {n: node for n, node in facility.nodes.items() if node.rack in racks},
            "cooling": facility.cooling.model_copy(update={"loops": loops}),
            "devices": {
                n: d
                for n, d in facility.devices.items()
                if d.measures.rack is None or d.measures.rack in racks
            },
        }
    )
