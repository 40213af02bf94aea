"""Of cases that leave equally little the normal one is named, whichever phase it is of."""

from __future__ import annotations

import pytest

from controllers.headroom import study
from facility.topology import Topology
from tests.facility.topology import oracle


def test_two_phases_equally_full_in_two_cases_name_the_normal_one() -> None:
    """L2 is as full now as L1 becomes after the loss of s2: nothing new binds."""
    one, two = {"L1": 1.0}, {"L2": 1.0}
    plant = {
        "elements": {
            "s1": {
                "kind": "source",
                "rating": {"current": "10 A", "voltage_ln": "230 V"},
                "power_factor": 1.0,
            },
            "s2": {"kind": "source"},
        },
        "racks": {
            "r1": {"feeds": {"a": "s1"}, "rating": "600 W", "phases": {"a": two}},
            "r2": {
                "feeds": {"a": "s1", "b": "s2"},
                "rating": "600 W",
                "phases": {"a": one, "b": one},
            },
        },
        "loads": {},
    }
    topology = Topology.of(oracle.power(plant))
    found = study(topology, topology.nameplate_w)
    # 3 x (2300 - 600): the fullest phase carries 600 W in both cases.
    assert found.headroom_w[0] == pytest.approx(5100.0)
    assert topology.case_names[int(found.worst_case[0])] == "normal"
    assert found.worst_w[0] == pytest.approx(900.0)


def test_a_phase_that_ties_with_the_whole_names_the_earlier_case() -> None:
    """Three phases equally full leave what the whole leaves; `normal` is first for both."""
    plant = {
        "elements": {
            "s1": {
                "kind": "source",
                "rating": {"current": "10 A", "voltage_ln": "230 V"},
                "power_factor": 1.0,
            },
        },
        "racks": {"r1": {"feeds": {"a": "s1"}, "rating": "600 W", "phases": {"a": {"L1": 1.0}}}},
        "loads": {},
    }
    topology = Topology.of(oracle.power(plant))
    found = study(topology, topology.nameplate_w)
    assert found.headroom_w[0] == pytest.approx(5100.0)
    assert found.worst_w[0] == pytest.approx(600.0)
