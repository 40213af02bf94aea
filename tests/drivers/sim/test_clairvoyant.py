from __future__ import annotations

import numpy as np
import pytest

from drivers.sim import scenarios
from drivers.sim.clairvoyant import Clairvoyant, Moment
from drivers.sim.plant.disturbance import Outside
from drivers.sim.plant.plant import Plant
from drivers.sim.plant.world import Start, World
from facility.config import Facility
from tests.drivers.sim.halls import demo_hall, world


def rested(here: World, caps_w: np.ndarray, supply_c: float) -> Plant:
    """The world's plant at rest with other caps and another supply temperature."""
    plant = Plant(here.twin.hall, caps_w[here.twin.hall.boards.node], supply_c)
    plant.bank.offer(
        here.twin.bank.offered_tok_s / here.twin.bank._full_tok_s,
        np.zeros(len(here.twin.hall.boards.node)),
    )
    for _ in range(500):
        plant.step(1.0, here.twin.outside)
    return plant


def per_joule(plant: Plant) -> float:
    return float(plant.node_tokens_per_s.sum() / (plant.rack_w.sum() + plant.cooling_w))


def holds_n_plus_1(plant: Plant) -> bool:
    weights, limits = plant.hall.network.contingencies(frozenset(), frozenset())
    return bool((weights @ plant.load_w <= limits).all())


def best_of(here: World, moment: Moment) -> float:
    seer = Clairvoyant(here.twin.hall)
    seer.look(moment)
    assert seer.tokens_per_joule is not None
    return seer.tokens_per_joule


def test_nothing_that_keeps_the_limits_beats_the_clairvoyant_by_more_than_its_grid() -> None:
    here = world("steady")
    here.advance(1.0)
    best = best_of(here, Moment.of(here.plant.truth))
    row1 = here.twin.hall.node_rack < 4
    reached = []
    for low, high in ((340, 380), (375, 415), (375, 520)):
        for supply in (26.0, 33.0, 37.0):
            plant = rested(here, np.where(row1, float(low), float(high)), supply)
            assert holds_n_plus_1(plant)
            reached.append(per_joule(plant))
    assert max(reached) <= best * 1.003
    assert max(reached) >= best * 0.99
    assert min(reached) < best * 0.98


def test_n_plus_1_costs_the_clairvoyant_something() -> None:
    here = world("steady")
    moment = Moment.of(here.plant.truth)
    elements = {
        name: element.model_copy(update={"rating": "1 MW", "continuous": None})
        for name, element in here.facility.power.elements.items()
    }
    power = here.facility.power.model_copy(update={"elements": elements})
    wide = here.facility.model_copy(update={"power": power})
    free = World.of(wide, 1, scenarios.load("steady"), 60.0)
    assert best_of(free, moment) > best_of(here, moment)


def throughput(facility: Facility) -> Facility:
    allocation = facility.controllers.allocation.model_copy(update={"policy": "throughput"})
    controllers = facility.controllers.model_copy(update={"allocation": allocation})
    return facility.model_copy(update={"controllers": controllers})


def test_throughput_makes_more_tokens_at_fewer_per_joule() -> None:
    here = world("steady")
    here.advance(1.0)
    moment = Moment.of(here.plant.truth)
    fast = World.of(throughput(demo_hall()), 1, scenarios.load("steady"), 60.0)
    assert best_of(fast, moment) < best_of(here, moment)


def test_hot_weather_makes_the_best_worse() -> None:
    here = world("steady")
    plant = here.plant.truth
    mild = best_of(here, Moment.of(plant))
    plant.outside = Outside(38.0, 15.0)
    assert best_of(here, Moment.of(plant)) < mild * 0.99


def test_no_moments_no_answer() -> None:
    here = world("steady")
    assert Clairvoyant(here.twin.hall).tokens_per_joule is None


def test_of_clairvoyant_punishes_waste() -> None:
    facility = demo_hall()
    wasteful = Start(dict.fromkeys(facility.nodes, 650.0), 22.0)
    here = World.of(facility, 1, scenarios.load("steady"), 60.0, wasteful)
    here.advance(60.0)
    share = here.of_clairvoyant()
    assert share is not None
    assert share < 0.9
    good = world("steady", duration_s=60.0)
    good.advance(60.0)
    assert good.of_clairvoyant() == pytest.approx(1.0, abs=0.02)
