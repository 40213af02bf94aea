"""One more server, one more rack: what binds, by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controllers.capacity import Fit, Wish, rack_fits, room_for, server_fits
from controllers.capacity.room import like
from controllers.headroom import study
from facility.topology import Topology
from tests.controllers.capacity.halls import hall, nameplate
from tests.facility.topology import oracle
from tests.facility.topology.plants import Plant, plants


def fit(wish: Wish, **more: str) -> Fit:
    facility = hall(**more)
    topology, load_w = nameplate(facility)
    return server_fits(topology, facility.cooling.loops, "r01", wish, load_w)


def test_the_rack_pdu_binds_after_the_loss_of_the_other_side() -> None:
    """40 kW on r01: after the loss of side A all of it stands on the 50 kW of side B."""
    answer = fit(Wish(10_000.0, units=2, weight_kg=90.0, ports=0))
    assert answer.verdict == "yes"
    assert answer.room_w == pytest.approx(10_000.0)
    assert answer.binding == ("pdu-r01-b", "loss of grid-a", 10_000.0)
    sides = {(b.side, b.case == "normal"): b for b in answer.room.bounds}
    assert sides["b", False].room_w == pytest.approx(10_000.0)
    assert sides["a", False].room_w == pytest.approx(20_000.0)
    # Normally half of each watt flows on each side: 60 kW and 50 kW, 20 kW there already.
    assert sides["a", True].room_w == pytest.approx(80_000.0)
    assert sides["b", True].room_w == pytest.approx(60_000.0)
    assert "pdu-r01-b leaves 10 kW after loss of grid-a" in answer.text


def test_one_watt_more_does_not_fit() -> None:
    answer = fit(Wish(10_001.0))
    assert answer.verdict == "no"
    assert answer.text.startswith("r01 cannot take one more server of 10 kW.")


@pytest.mark.parametrize(
    ("wish", "says"),
    [
        (Wish(1_000.0, units=9), "9 units, 8 are left"),
        (Wish(1_000.0, weight_kg=300.0), "300 kg, 290 are left"),
        (Wish(1_000.0, ports=1), "1 ports, 0 are left"),
    ],
)
def test_space_weight_and_ports_bind_where_they_are_stated(wish: Wish, says: str) -> None:
    answer = fit(wish)
    assert answer.verdict == "no"
    assert says in answer.text


def test_what_nobody_stated_is_unknown_and_never_free() -> None:
    answer = fit(Wish(1_000.0, units=2), space="")
    assert answer.verdict == "unknown"
    assert answer.unknown == ("space", "weight", "liquid ports")
    assert answer.to_json()["things"] == [
        {"what": "space", "unit": "units", "wanted": 2, "left": None}
    ]
    assert "as far as is known" in answer.text
    assert fit(Wish(20_000.0), space="").verdict == "no"


@pytest.mark.filterwarnings("error")
def test_heat_that_no_stated_loop_takes_is_unknown_and_never_free() -> None:
    """A rack on no loop was said to fit, with not a word of where its heat goes."""
    wish = Wish(1_000.0, units=2, weight_kg=90.0, ports=0)
    assert fit(wish).verdict == "yes"
    answer = fit(wish, **{"r01: 80 %, ": ""})
    assert (answer.verdict, answer.unknown) == ("unknown", ("cooling",))
    assert "Not stated: cooling." in answer.text


def test_cooling_binds_with_its_worst_loss() -> None:
    """No single loss takes a CDU, so all of the 100 kW is there: 96 kW of it are used."""
    facility = hall(heat="100 kW")
    topology, load_w = nameplate(facility)
    answer = server_fits(topology, facility.cooling.loops, "r01", Wish(6_000.0), load_w)
    assert answer.heat[0].room_w == pytest.approx((100_000.0 - 0.8 * 120_000.0) / 0.8)
    assert answer.verdict == "no"
    assert answer.binding is not None
    assert answer.binding[:2] == ("loop-1", "normal")


def test_a_cdu_that_hangs_on_one_feed_takes_half_the_heat_with_it() -> None:
    one = "cdu-2: {feeds: {a: row-a}, rating: 5 kW}"
    text = {"cdu-2: {feeds: {a: row-a, b: row-b}, rating: 5 kW}": one}
    facility = hall(heat="220 kW", **text)
    topology, load_w = nameplate(facility)
    answer = server_fits(topology, facility.cooling.loops, "r01", Wish(1.0), load_w)
    assert answer.heat[0].case == "loss of grid-a"
    assert answer.heat[0].room_w == pytest.approx((110_000.0 - 96_000.0) / 0.8)


def test_a_single_phase_server_is_held_against_its_phase() -> None:
    amps = "rating: {current: 100 A, voltage_ln: 230 V}, continuous: 100 %, power_factor: 1.0"
    old = "rack_pdu, fed_by: [row-b], rating: 50 kW"
    facility = hall(**{old: f"rack_pdu, fed_by: [row-b], {amps}"})
    topology, load_w = nameplate(facility)
    loops = facility.cooling.loops
    # 100 A x 230 V = 23 kW a phase; 40 kW / 3 on each after the loss of side A.
    single = server_fits(topology, loops, "r01", Wish(9_000.0, phase="L2"), load_w)
    assert single.room_w == pytest.approx(23_000.0 - 40_000.0 / 3.0)
    assert single.binding is not None
    assert single.binding[:2] == ("pdu-r01-b L2", "loss of grid-a")
    three = server_fits(topology, loops, "r01", Wish(9_000.0), load_w)
    assert three.room_w == pytest.approx(20_000.0, abs=1.0)


def test_caps_at_their_floors_would_leave_more() -> None:
    facility = hall()
    topology, load_w = nameplate(facility)
    floors = load_w.copy()
    floors[0] = 25_000.0
    answer = server_fits(
        topology, facility.cooling.loops, "r01", Wish(20_000.0), load_w, floors_w=floors
    )
    assert answer.verdict == "no"
    assert answer.to_json()["room_at_floors_w"] == pytest.approx(25_000.0)
    assert "With all caps at their floors it would be 25 kW." in answer.text


def test_one_more_rack_is_bound_by_the_row_after_failover() -> None:
    """130 kW hang on side B after the loss of A: 150 kW of busway leave 20 kW."""
    facility = hall()
    topology, load_w = nameplate(facility)
    loops = facility.cooling.loops
    answer = rack_fits(topology, loops, "row-1", "r02", 2, Wish(20_000.0), load_w)
    assert answer.verdict == "yes"
    assert answer.binding is not None
    assert answer.binding[0] in ("row-a", "row-b")
    assert answer.binding[2] == pytest.approx(20_000.0)
    assert rack_fits(topology, loops, "row-1", "r02", 0, Wish(1.0), load_w).verdict == "no"
    unknown = rack_fits(topology, loops, "row-1", "r02", None, Wish(1.0), load_w)
    assert unknown.verdict == "unknown"


@settings(max_examples=40, deadline=None)
@given(plants(), st.integers(0, 10_000))
def test_the_room_of_a_new_load_is_just_what_fits(plant: Plant, seed: int) -> None:
    """Drawing all of the room breaks no limit that was not broken; a little more breaks one."""
    topology = Topology.of(oracle.power(plant))
    load_w = np.random.default_rng(seed).uniform(0.0, 1.0, len(topology.loads))
    load_w *= topology.nameplate_w
    rack = next(iter(topology.power.racks.values()))
    new = like(rack)
    found = room_for(topology, new, load_w)
    if not found.bounds or found.bounds[0].room_w <= 0.0:
        return
    more = {"loads": {**topology.power.loads, "x": new}}
    wider = Topology.of(topology.power.model_copy(update=more))
    before = {e for e, _, _ in study(topology, load_w).negative()}

    def broken(extra_w: float) -> set[str]:
        answer = study(wider, np.append(load_w, extra_w))
        return {e for e, _, lacks in answer.negative() if lacks > 1e-6} - before

    room = found.room_w
    assert not broken(room * (1.0 - 1e-9))
    assert broken(room * 1.001 + 1.0)
