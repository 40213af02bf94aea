from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drivers.sim.plant.disturbance import NOTHING, Disturbance, Outside
from drivers.sim.plant.gpus import tokens_of, useful_w_for
from drivers.sim.plant.parameters import PlantData
from drivers.sim.plant.plant import Hall, Plant
from drivers.sim.plant.psychrometrics import dew_point_c, humidity_at
from drivers.sim.plant.rejection import chiller_cop, counter_flow, cross_flow
from tests.drivers.sim.halls import demo_hall

HALL = Hall(demo_hall(), PlantData(), seed=3)


def balance(plant: Plant, seconds: float, outside: Outside) -> tuple[float, float]:
    """Electricity into racks and pumps, and what of it is neither stored nor rejected, J."""
    stored = plant.stored_j
    rejected = sum(loop.rejected_j for loop in plant.loops) + plant.room.rejected_j
    put_in = 0.0
    for _ in range(round(seconds / 0.1)):
        plant.step(0.1, outside)
        cdus = sum(cdu.power_w for loop in plant.loops for cdu in loop.cdus)
        put_in += 0.1 * (float(plant.rack_w.sum()) + cdus)
    out = sum(loop.rejected_j for loop in plant.loops) + plant.room.rejected_j - rejected
    return put_in, put_in - out - (plant.stored_j - stored)


@settings(max_examples=12, deadline=None)
@given(
    cap=st.floats(200.0, 700.0),
    setpoint=st.floats(20.0, 45.0),
    ambient=st.floats(-10.0, 42.0),
    fault=st.sampled_from(
        [
            NOTHING,
            Disturbance(pumps=frozenset({("cdu-1", 1), ("cdu-1", 2)})),
            Disturbance(cdus=frozenset({"cdu-1", "cdu-2"})),
            Disturbance(stuck=frozenset({"cdu-2"})),
            Disturbance(elements=frozenset({"pdu-a"})),
            Disturbance(elements=frozenset({"pdu-a", "pdu-b"})),
        ]
    ),
)
def test_energy_in_is_energy_out_plus_stored(
    cap: float, setpoint: float, ambient: float, fault: Disturbance
) -> None:
    plant = Plant(HALL, np.full(len(HALL.boards.node), cap), setpoint)
    outside = Outside(ambient, 8.0)
    plant.step(0.1, outside)
    plant.disturb(fault)
    put_in, error = balance(plant, 60.0, outside)
    assert abs(error) <= 1e-3 * max(put_in, 1e6)
    assert np.isfinite(plant.bank.temperature_c).all()


def test_the_supply_settles_at_its_setpoint_without_swinging() -> None:
    plant = Plant(HALL, np.full(len(HALL.boards.node), 400.0), 33.0)
    outside = Outside(20.0, 10.0)
    for _ in range(6000):
        plant.step(0.1, outside)
    loop = plant.loops[0]
    assert loop.supply_c == pytest.approx(33.0, abs=0.1)
    for cdu in loop.cdus:
        cdu.setpoint_c = 36.0
    reached = []
    for _ in range(6000):
        plant.step(0.1, outside)
        reached.append(loop.supply_c)
    assert loop.supply_c == pytest.approx(36.0, abs=0.1)
    assert max(reached) < 36.0 + 1.5


def test_without_flow_boards_slow_down_within_seconds_and_cool_when_it_returns() -> None:
    plant = Plant(HALL, HALL.boards.most_w, 30.0)
    outside = Outside(20.0, 10.0)
    for _ in range(3000):
        plant.step(0.1, outside)
    assert not plant.bank.throttled.any()
    plant.disturb(Disturbance(cdus=frozenset({"cdu-1", "cdu-2"})))
    seconds = 0.0
    while not plant.bank.throttled.any():
        plant.step(0.1, outside)
        seconds += 0.1
        assert seconds < 40.0
    assert seconds > 2.0
    full = plant.bank.power_w.sum()
    for _ in range(50):
        plant.step(0.1, outside)
    assert plant.bank.power_w.sum() < full


def test_a_capped_board_draws_its_cap_within_the_boards_accuracy() -> None:
    plant = Plant(HALL, np.full(len(HALL.boards.node), 400.0), 30.0)
    plant.step(0.1, Outside(20.0, 10.0))
    assert np.abs(plant.bank.power_w / 400.0 - 1.0).max() <= 0.05
    assert np.ptp(plant.bank.power_w) > 1.0


def test_leakage_costs_tokens_when_the_water_is_warm() -> None:
    def served(supply_c: float) -> float:
        plant = Plant(HALL, np.full(len(HALL.boards.node), 400.0), supply_c)
        for _ in range(1200):
            plant.step(0.1, Outside(20.0, 10.0))
        return float(plant.bank.tokens_per_s.sum())

    cold, warm = served(25.0), served(43.0)
    assert 0.005 < (cold - warm) / cold < 0.08


def test_token_curve_and_its_inverse() -> None:
    boards = HALL.boards
    watts = np.linspace(boards.c0_w + 1.0, boards.most_w, 7)
    for row in watts:
        assert useful_w_for(boards, tokens_of(boards, row)) == pytest.approx(row, rel=1e-6)
    assert not tokens_of(boards, boards.c0_w - 5.0).any()


@given(st.floats(-20.0, 45.0), st.floats(0.05, 1.0))
def test_dew_point_and_humidity_undo_each_other(air_c: float, humidity: float) -> None:
    dew = dew_point_c(air_c, humidity)
    assert dew <= air_c + 1e-9
    assert humidity_at(air_c, dew) == pytest.approx(humidity, rel=1e-6)


def test_dew_points_of_the_tables() -> None:
    assert dew_point_c(24.0, 0.5) == pytest.approx(12.9, abs=0.05)
    assert dew_point_c(30.0, 0.6) == pytest.approx(21.4, abs=0.05)


def test_exchangers_keep_the_laws() -> None:
    # Balanced, NTU 2.5: effectiveness 0.714 (research note 5.2).
    assert counter_flow(250e3, 100e3, 100e3) == pytest.approx(71.4e3, rel=1e-3)
    assert counter_flow(1e9, 50e3, 100e3) == pytest.approx(50e3)
    assert counter_flow(1e3, 0.0, 100e3) == 0.0
    assert cross_flow(120e3, 100e3, 100e3) < counter_flow(120e3, 100e3, 100e3)
    assert cross_flow(0.0, 100e3, 100e3) == 0.0
    # Condensing at 40 degC with half of Carnot: COP 7.3 at 20 degC.
    assert chiller_cop(20.0, 28.0, 12.0, 0.5) == pytest.approx(7.3, abs=0.05)
