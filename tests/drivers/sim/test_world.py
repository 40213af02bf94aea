from __future__ import annotations

import json

import numpy as np
import pytest

from drivers.sim import scenarios
from drivers.sim.plant.world import World
from tests.drivers.sim.halls import demo_hall, good_start, small_power, world


def test_every_scenario_is_read_and_says_what_it_is() -> None:
    assert set(scenarios.names()) == {
        "steady", "feed-loss", "ups-loss", "pump-loss", "meter-loss", "hot-day",
        "controller-loss", "broker-loss", "leak",
    }  # fmt: skip
    for name in scenarios.names():
        assert scenarios.load(name).about.endswith(".")
    with pytest.raises(KeyError, match="feed-loss"):
        scenarios.load("no-such")


def test_same_seed_same_bits() -> None:
    def state(seed: int) -> tuple[bytes, bytes, str]:
        here = world("feed-loss", seed, 60.0)
        here.advance(45.0)
        both = (here.plant.truth, here.twin)
        bits = b"".join(p.bank.temperature_c.tobytes() + p.load_w.tobytes() for p in both)
        return bits, here.twin.tokens.tobytes(), json.dumps(here.truth())

    first = state(5)
    assert state(5) == first
    assert state(6)[0] != first[0]


def test_twin_and_plant_share_everything_but_control() -> None:
    here = world("hot-day")
    here.advance(60.0)
    plant, twin = here.plant.truth, here.twin
    assert plant.outside == twin.outside
    assert plant.disturbance == twin.disturbance
    assert np.array_equal(plant.bank.offered_tok_s, twin.bank.offered_tok_s)
    assert plant.hall is twin.hall
    assert (twin.bank.limit_w == plant.hall.boards.most_w).all()


def test_moving_the_plant_does_not_move_the_twin() -> None:
    one, other = world("steady"), world("steady")
    node = one.plant.nodes[0]
    for i in range(8):
        one.plant.set_gpu_limit(node, i, 250.0)
    one.plant.write("cdu-1", "loop.secondary", "supply_setpoint", 36.0)
    for here in (one, other):
        here.advance(20.0)
    assert one.twin.bank.temperature_c.tobytes() == other.twin.bank.temperature_c.tobytes()
    assert one.plant.truth.bank.power_w.sum() < other.plant.truth.bank.power_w.sum()
    assert one.plant.truth.loops[0].supply_c > other.plant.truth.loops[0].supply_c


def test_starts_warm() -> None:
    here = world("steady")
    before = here.plant.truth.loops[0].supply_c, here.plant.truth.bank.temperature_c.copy()
    here.advance(10.0)
    assert here.plant.truth.loops[0].supply_c == pytest.approx(before[0], abs=0.05)
    assert np.abs(here.plant.truth.bank.temperature_c - before[1]).max() < 0.3


def test_feed_loss_trips_the_twin_and_not_a_hall_that_holds_n_plus_1() -> None:
    here = world("feed-loss")
    here.advance(39.0)
    assert not here.plant.truth.lost
    here.advance(1.5)
    assert here.plant.truth.lost == {"pdu-b"}
    here.advance(79.5)
    truth = here.truth()
    assert truth["power"]["tripped"] == []
    assert truth["power"]["overload_s"] == 0.0
    assert truth["uncontrolled"]["tripped"][0] == "row1-a"
    assert not here.plant.truth.lost
    assert here.twin.lost


@pytest.mark.parametrize("scenario", ["pump-loss", "hot-day"])
def test_the_twin_throttles_and_a_well_run_hall_does_not(scenario: str) -> None:
    here = world(scenario)
    here.advance(120.0)
    truth = here.truth()
    assert truth["cooling"] == {
        "below_dew_point_s": 0.0,
        "thermal_throttle_s": 0.0,
        "setpoint_c": {"loop-1": 33.0},
    }
    assert truth["uncontrolled"]["thermal_throttle_s"] > 5.0
    assert truth["power"]["tripped"] == []


def test_steady_is_uneventful_for_both() -> None:
    here = world("steady")
    here.advance(120.0)
    truth = here.truth()
    assert truth["power"]["redundancy_lost_s"] == 0.0
    assert truth["power"]["worst_headroom_w"] > 0.0
    assert truth["uncontrolled"]["tripped"] == []
    assert truth["uncontrolled"]["thermal_throttle_s"] == 0.0
    assert truth["tokens"]["per_joule_rack"] > 1.1 * truth["uncontrolled"]["tokens_per_joule_rack"]
    assert 0.97 < truth["tokens"]["of_clairvoyant"] < 1.01


def test_ups_loss_meter_loss_and_leak_reach_the_plant() -> None:
    here = world("ups-loss")
    here.advance(60.0)
    assert here.plant.truth.lost == {"ups-a1"}
    names = here.plant.truth.hall.network.elements
    assert here.plant.truth.element_w[names.index("ups-a1")] == 0.0

    here = world("meter-loss")
    here.advance(60.0)
    dead = {d for d in here.facility.devices if here.plant.device_health(d) == "dead"}
    assert dead == {"pdu-r01-a", "pdu-r01-b", "pdu-r02-a", "pdu-r02-b"}
    here.advance(30.0)
    assert all(here.plant.device_health(d) == "ok" for d in here.facility.devices)

    here = world("leak")
    level = here.plant.value("cdu-1", "total", "level")
    here.advance(60.0)
    wet = [
        d
        for d, config in here.facility.devices.items()
        if config.measures.rack and here.plant.value(d, "leak", "leak") == 1.0
    ]
    assert len(wet) == 2
    assert all("r01" in d for d in wet)
    after = here.plant.value("cdu-1", "total", "level")
    assert level is not None
    assert after is not None
    assert after < level - 0.02


def test_faults_of_programs_become_events_once() -> None:
    here = world("controller-loss", duration_s=40.0)
    seen = []
    for _ in range(40):
        here.advance(1.0)
        seen += [(round(here.seconds), e.kind, e.active) for e in here.take_events()]
    assert seen == [(11, "controller_killed", True), (31, "controller_killed", False)]


def test_without_a_duration_faults_come_back_every_three_minutes() -> None:
    here = world("broker-loss", duration_s=None)
    seen = []
    for _ in range(245):
        here.advance(1.0)
        seen += [(round(here.seconds), e.active) for e in here.take_events()]
    assert seen == [(61, True), (121, False), (241, True)]


def test_waiting_lets_the_plant_live_but_counts_nothing() -> None:
    here = world("feed-loss", duration_s=30.0)
    here.waiting = True
    here.advance(50.0)
    assert here.seconds == 0.0
    assert here.plant.tokens(here.plant.nodes[0])[1] > 0.0
    here.begin()
    here.advance(40.0)
    truth = here.truth()
    assert truth["seconds"] == pytest.approx(30.0)
    assert truth["tokens"]["per_s"] == pytest.approx(truth["tokens"]["total"] / 30.0)


def test_overload_is_counted_until_caps_end_it() -> None:
    facility = demo_hall()
    here = World.of(
        facility, 1, scenarios.load("feed-loss"), 60.0,
        good_start(facility),
    )  # fmt: skip
    for node in here.plant.nodes[:16]:
        for i in range(8):
            here.plant.set_gpu_limit(node, i, 420.0)
    here.advance(22.0)
    # One that has not ended counts as well.
    assert here.truth()["overload_to_caps_s"]["max"] == pytest.approx(2.0, abs=0.2)
    for node in here.plant.nodes[:16]:
        for i in range(8):
            here.plant.set_gpu_limit(node, i, 375.0)
    here.advance(10.0)
    truth = here.truth()
    assert truth["power"]["overload_s"] == pytest.approx(2.0, abs=0.2)
    assert truth["overload_to_caps_s"]["max"] == pytest.approx(2.0, abs=0.2)
    assert truth["power"]["worst_headroom_w"] < 0.0


def test_dark_racks_make_no_tokens_and_restart() -> None:
    here = world("feed-loss")
    here.advance(50.0)
    twin = here.twin
    assert "row1-a" in twin.tripped
    in_row1 = twin.hall.node_rack < 4
    assert not twin.node_tokens_per_s[in_row1].any()
    assert (twin.node_tokens_per_s[~in_row1] > 0.0).all()
    assert not twin.rack_w[:4].any()
    here.advance(65.0)
    assert twin.node_tokens_per_s[in_row1].any()


def test_a_facility_without_nodes_or_cooling_runs_too() -> None:
    here = World.of(small_power(), 1, scenarios.load("feed-loss"), 30.0)
    here.advance(30.0)
    truth = json.loads(json.dumps(here.truth(), allow_nan=False))
    assert truth["power"]["tripped"] == []
    assert truth["tokens"]["total"] == 0.0
    assert truth["tokens"]["of_clairvoyant"] is None
    assert truth["cooling"]["setpoint_c"] == {}
