from __future__ import annotations

import math

import numpy as np
import pytest

from drivers.sim.plant.electrical import Network
from drivers.sim.plant.parameters import ElectricalData
from drivers.sim.plant.trips import TripClocks, band_seconds
from tests.drivers.sim.halls import demo_hall, small_power

NONE: frozenset[str] = frozenset()
LOADS = np.array([20e3, 40e3, 10e3, 5e3])


def carried(network: Network, *lost: str, flat: frozenset[str] = NONE) -> dict[str, float]:
    flow = network.flow(frozenset(lost), flat)
    up = np.where(flow.dark, 0.0, LOADS)
    return dict(zip(network.elements, (flow.weights @ up).round(6).tolist(), strict=True))


def test_ratings_become_watts() -> None:
    network = Network(small_power().power)
    rating = dict(zip(network.elements, network.rating_w.tolist(), strict=True))
    limit = dict(zip(network.elements, network.limit_w.tolist(), strict=True))
    assert rating["ups-1"] == pytest.approx(50e3 * 0.95)
    assert rating["pdu-a"] == pytest.approx(math.sqrt(3.0) * 400.0 * 100.0 * 0.95)
    assert limit["pdu-a"] == pytest.approx(0.8 * rating["pdu-a"])
    assert limit["pdu-b"] == rating["pdu-b"] == 100e3
    assert rating["shelf"] == 25e3


def test_power_flows_by_split_group_and_switch() -> None:
    load = carried(Network(small_power().power))
    assert load["pdu-a"] == pytest.approx(0.5 * 20e3 + 0.75 * 40e3 + 10e3)
    assert load["pdu-b"] == pytest.approx(0.5 * 20e3 + 0.25 * 40e3 + 5e3)
    assert load["ups-1"] == load["ups-2"] == pytest.approx(load["pdu-a"] / 2.0)
    assert load["utility"] == pytest.approx(75e3)


def test_a_loss_moves_the_load() -> None:
    load = carried(Network(small_power().power), "pdu-a")
    assert load["pdu-b"] == pytest.approx(75e3)
    assert load["sts"] == pytest.approx(10e3)
    assert load["ups-1"] == load["ups-2"] == 0.0


def test_a_group_below_its_need_darkens_what_hangs_on_it() -> None:
    network = Network(small_power().power)
    flow = network.flow(frozenset({"ups-1", "ups-2", "pdu-b"}), NONE)
    assert flow.dark.all()
    assert not flow.weights.any()


def test_a_battery_carries_its_ups_until_it_is_flat() -> None:
    network = Network(small_power().power)
    on_battery = network.flow(frozenset({"utility"}), NONE)
    names = network.elements
    assert on_battery.unfed[names.index("ups-1")]
    assert on_battery.dead[names.index("ups-2")]
    assert not on_battery.dark[0]
    flat = network.flow(frozenset({"utility"}), frozenset({"ups-1"}))
    assert flat.dark.all()


def test_contingencies_of_the_demo_hall_bind_its_first_row() -> None:
    facility = demo_hall()
    network = Network(facility.power)
    weights, limits = network.contingencies(NONE, NONE)
    even = np.array([19e3] * 8 + [2e3] * 2)
    excess = weights @ even - limits
    assert excess.max() == pytest.approx(4 * 19e3 - 0.8 * math.sqrt(3) * 415 * 135 * 0.95)
    assert (weights @ (even * 0.9) <= limits).all()


@pytest.mark.parametrize(
    ("ratio", "inverse", "seconds"),
    [
        (1.05, False, 600.0),
        (1.10, False, 600.0),
        (1.11, False, 60.0),
        (1.50, False, 10.0),
        (1.51, False, 0.0),
        (1.10 * (1.25 / 1.10) ** 0.5, True, math.sqrt(600.0 * 60.0)),
    ],
)
def test_band_seconds(ratio: float, inverse: bool, seconds: float) -> None:
    bands = ((1.10, 600.0), (1.25, 60.0), (1.50, 10.0))
    assert band_seconds(bands, ratio, inverse=inverse) == pytest.approx(seconds)


def clocks_of(load_b_w: float) -> tuple[TripClocks, np.ndarray, int]:
    facility = small_power()
    network = Network(facility.power)
    load = np.zeros(len(network.elements))
    i = network.elements.index("pdu-b")
    load[i] = load_b_w
    return TripClocks(facility.power, network, ElectricalData()), load, i


def test_trips_ten_percent_sooner_than_stated() -> None:
    clocks, load, i = clocks_of(120e3)
    seconds = 0.0
    while not clocks.step(0.1, load, 25.0):
        seconds += 0.1
        assert seconds < 20.0
    assert seconds == pytest.approx(9.0, abs=0.2)
    assert clocks.used[i] == 1.0


def test_beyond_the_last_band_it_trips_at_once() -> None:
    clocks, load, i = clocks_of(151e3)
    assert clocks.step(0.1, load, 25.0) == [i]


def test_at_its_rating_it_never_trips() -> None:
    clocks, load, _ = clocks_of(100e3)
    for _ in range(5000):
        assert clocks.step(1.0, load, 25.0) == []
    assert not clocks.used.any()


def test_rest_forgives_an_overload() -> None:
    clocks, load, i = clocks_of(120e3)
    for _ in range(80):
        clocks.step(0.1, load, 25.0)
    used = clocks.used[i]
    load[i] = 50e3
    for _ in range(900):
        clocks.step(0.1, load, 25.0)
    assert 0.0 < clocks.used[i] < 0.4 * used


def test_unrated_and_undeclared_kinds_never_trip() -> None:
    clocks, _, _ = clocks_of(0.0)
    facility = small_power()
    assert clocks.bands[list(facility.power.elements).index("utility")] == ()
    assert clocks.bands[list(facility.power.elements).index("shelf")] == ()
    assert clocks.bands[list(facility.power.elements).index("pdu-a")] != ()
