"""The study agrees with a literal reading of the laws, and its laws hold."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controllers.headroom import study
from facility.topology import Topology
from tests.facility.topology import oracle
from tests.facility.topology.plants import Plant, nameplates, plants


@settings(max_examples=150, deadline=None)
@given(plants())
def test_agrees_with_pushing_every_watt_by_hand(plant: Plant) -> None:
    topology = Topology.of(oracle.power(plant))
    loads = nameplates(plant)
    found = study(topology, topology.nameplate_w)
    assert topology.case_names == tuple(name for name, _ in oracle.cases(plant))
    expected = oracle.headrooms(plant, loads)
    for e, name in enumerate(topology.elements):
        want = expected[name]
        if want is None:
            assert found.worst_case[e] == -1
            assert math.isnan(found.headroom_w[e])
            continue
        assert found.headroom_w[e] == pytest.approx(want[0], abs=1e-5)
        assert topology.case_names[found.worst_case[e]] == want[1]
        assert found.worst_w[e] == pytest.approx(want[2], abs=1e-6)
    for i, name in enumerate(topology.loads):
        room = oracle.rack_headroom(plant, loads, name)
        if room is None:
            assert math.isnan(found.rack_headroom_w[i])
        else:
            assert found.rack_headroom_w[i] == pytest.approx(room, abs=1e-4)
    for k, (_, lost) in enumerate(oracle.cases(plant)):
        case = topology.cases[k]
        assert set(case.dead) == {e for e in plant["elements"] if not oracle.alive(plant, lost, e)}
        every = {**plant["racks"], **plant["loads"]}
        assert set(case.dark) == {
            n for n, load in every.items() if not oracle.feed_options(plant, lost, load)
        }


@settings(max_examples=60, deadline=None)
@given(plants(), st.data())
def test_a_higher_load_never_raises_any_headroom(plant: Plant, data: st.DataObject) -> None:
    topology = Topology.of(oracle.power(plant))
    low = topology.nameplate_w
    which = data.draw(st.integers(0, len(low) - 1))
    high = low.copy()
    high[which] += data.draw(st.floats(0.0, 5000.0))
    before, after = study(topology, low), study(topology, high)
    for was, now in (
        (before.headroom_w, after.headroom_w),
        (before.rack_headroom_w, after.rack_headroom_w),
    ):
        known = ~np.isnan(was)
        assert np.array_equal(known, ~np.isnan(now))
        finite = known & np.isfinite(was)
        assert np.all(now[finite] <= was[finite] + 1e-6)


@settings(max_examples=60, deadline=None)
@given(plants())
def test_an_unmeasured_split_never_shows_more_room_than_either_reading(plant: Plant) -> None:
    topology = Topology.of(oracle.power(plant))
    unknown = study(topology, topology.nameplate_w, np.full(len(topology.feeds), np.nan))
    for first in (0.65, 0.35):
        split = np.array([first if feed == "a" else 1.0 - first for _, feed in topology.feeds])
        two = topology.feed_counts == 2
        if not np.all(two | (topology.feed_counts == 1)):
            continue
        known = study(topology, topology.nameplate_w, split)
        rated = np.isfinite(known.headroom_w)
        assert np.all(unknown.headroom_w[rated] <= known.headroom_w[rated] + 1e-6)
