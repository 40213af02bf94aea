"""Small plants whose numbers can be worked out on paper."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

from controllers.headroom import sentence, study
from facility.config import Power
from facility.topology import Topology, named, suggestion, topology_problems


def power(**sections: Any) -> Power:
    return Power.model_validate_json(json.dumps(sections))


def two_sides(**rack: Any) -> Power:
    """Two utilities, three UPS a side of which two must live, one PDU a side, one rack."""
    elements: dict[str, Any] = {}
    for side in "ab":
        elements[f"u-{side}"] = {"kind": "source"}
        for i in (1, 2, 3):
            elements[f"ups-{side}{i}"] = {
                "kind": "ups",
                "fed_by": [f"u-{side}"],
                "rating": "50 kW",
                "autonomy": "300 s",
            }
        elements[f"pdu-{side}"] = {"kind": "pdu", "fed_by": [f"bus-{side}"], "rating": "120 kW"}
    groups = {
        f"bus-{side}": {"members": [f"ups-{side}{i}" for i in (1, 2, 3)], "needs": 2}
        for side in "ab"
    }
    racks = {"r01": {"feeds": {"a": "pdu-a", "b": "pdu-b"}, "rating": "90 kW", **rack}}
    return power(elements=elements, groups=groups, racks=racks)


def row(topology: Topology, load_w: list[float], element: str, **more: Any) -> dict[str, Any]:
    document = study(topology, np.array(load_w), **more).to_json()
    found: dict[str, Any] = next(e for e in document["elements"] if e["element"] == element)
    return found


def test_a_group_shares_among_its_living_members_and_a_lost_side_moves_over() -> None:
    topology = Topology.of(two_sides())
    ups = row(topology, [90_000.0], "ups-a1")
    # Normal: 45 kW on three. A sibling lost: 22.5. The other side lost: 90 kW on three.
    assert ups["normal_w"] == pytest.approx(15_000.0)
    assert ups["worst_w"] == pytest.approx(30_000.0)
    assert ups["worst_case"] == "loss of pdu-b"
    assert ups["headroom_w"] == pytest.approx(20_000.0)


def test_a_ups_with_autonomy_outlives_its_utility() -> None:
    topology = Topology.of(two_sides())
    case = next(c for c in topology.cases if c.name == "loss of u-a")
    assert case.dead == ("u-a",)
    assert case.dark == ()


def test_a_group_below_its_needs_dies_and_takes_its_side_along() -> None:
    topology = Topology.of(two_sides()).without(["ups-a1"])
    case = next(c for c in topology.cases if c.name == "loss of ups-a2")
    assert case.dead == ("ups-a1", "ups-a2", "pdu-a")
    assert len(topology.cases) == 10
    assert row(topology, [90_000.0], "ups-b3")["worst_w"] == pytest.approx(30_000.0)


def test_an_element_in_maintenance_is_no_contingency_and_has_no_headroom() -> None:
    topology = Topology.of(two_sides()).without(["pdu-a"])
    assert "loss of pdu-a" not in topology.case_names
    dead = row(topology, [90_000.0], "pdu-a")
    assert (dead["worst_case"], dead["headroom_w"], dead["normal_w"]) == (None, None, 0.0)


def test_the_split_moves_in_proportion_to_the_feeds_alive() -> None:
    racks = {
        "r": {
            "feeds": {"a": "x", "b": "y", "c": "z"},
            "split": {"a": 0.5, "b": 0.3, "c": 0.2},
            "rating": "10 kW",
        }
    }
    elements = {name: {"kind": "source", "rating": "9 kW"} for name in "xyz"}
    found = row(Topology.of(power(elements=elements, racks=racks)), [10_000.0], "x")
    # Loss of y: 0.5/0.7 of 10 kW; loss of z: 0.5/0.8.
    assert found["worst_w"] == pytest.approx(10_000 * 5 / 7)
    assert found["worst_case"] == "loss of y"


def test_a_hot_spare_supply_counts_whole_on_every_feed() -> None:
    topology = Topology.of(two_sides(psu="hot_spare"))
    assert row(topology, [90_000.0], "pdu-a")["normal_w"] == pytest.approx(90_000.0)
    assert row(topology, [90_000.0], "pdu-b")["normal_w"] == pytest.approx(90_000.0)


def test_an_unmeasured_split_counts_at_65_to_35_either_way() -> None:
    topology = Topology.of(two_sides())
    unknown = np.full(2, np.nan)
    for side in ("pdu-a", "pdu-b"):
        found = row(topology, [90_000.0], side, split=unknown)
        assert found["normal_w"] == pytest.approx(0.65 * 90_000.0)
        assert found["worst_w"] == pytest.approx(90_000.0)


def switched(**sts: Any) -> Power:
    elements = {
        "a": {"kind": "source", "rating": "10 kW"},
        "b": {"kind": "source", "rating": "10 kW"},
        "sts": {"kind": "switch", "transfer": {"normal": "a", "alternate": "b"}, **sts},
    }
    return power(elements=elements, racks={"r": {"feeds": {"a": "sts"}, "rating": "8 kW"}})


def test_a_switch_takes_all_from_one_side_and_changes_over() -> None:
    topology = Topology.of(switched())
    assert row(topology, [8000.0], "a")["normal_w"] == 8000.0
    spare = row(topology, [8000.0], "b")
    assert (spare["normal_w"], spare["worst_w"], spare["worst_case"]) == (0.0, 8000.0, "loss of a")


def test_a_switch_follows_its_measured_side_and_counts_both_when_unknown() -> None:
    topology = Topology.of(switched())
    moved = topology.with_sources({"sts": "alternate"})
    assert row(moved, [8000.0], "a")["normal_w"] == 0.0
    assert row(moved, [8000.0], "b")["normal_w"] == 8000.0
    unknown = topology.with_sources({"sts": "unknown"})
    assert row(unknown, [8000.0], "a")["normal_w"] == 8000.0
    assert row(unknown, [8000.0], "b")["normal_w"] == 8000.0


def limit(element: dict[str, Any]) -> float:
    elements = {"s": {"kind": "source"}, "e": {"fed_by": ["s"], **element}}
    topology = Topology.of(power(elements=elements, racks={}))
    return float(topology.limit_w[1])


@pytest.mark.parametrize(
    ("element", "watts"),
    [
        ({"kind": "ups", "rating": ["500 kVA", "450 kW"]}, 450e3),
        ({"kind": "ups", "rating": "400 kVA"}, 380e3),
        ({"kind": "ups", "rating": "400 kVA", "power_factor": 0.8}, 320e3),
        ({"kind": "transformer", "rating": "2 MW", "continuous": "90 %"}, 1.8e6),
        (
            {"kind": "pdu", "rating": {"current": "800 A", "voltage_ll": "415 V"}},
            0.8 * 0.95 * math.sqrt(3.0) * 415 * 800,
        ),
        (
            {"kind": "busway", "rating": {"current": "100 A", "voltage_ln": "240 V"}},
            0.8 * 0.95 * 3 * 240 * 100,
        ),
        (
            {
                "kind": "branch",
                "rating": {"current": "30 A", "voltage_ln": "230 V", "phases": 1},
                "continuous": "100 %",
            },
            0.95 * 230 * 30,
        ),
        (
            {"kind": "switch", "rating": {"current": "100 A", "voltage_ln": "240 V"}},
            0.95 * 3 * 240 * 100,
        ),
        ({"kind": "shelf", "modules": 6, "needs": 5, "module_rating": "5.5 kW"}, 27.5e3),
        ({"kind": "shelf", "modules": 6, "module_rating": "3 kW", "rating": "15 kW"}, 15e3),
        ({"kind": "pdu"}, math.inf),
    ],
)
def test_ratings_become_watts_for_hours(element: dict[str, Any], watts: float) -> None:
    assert limit(element) == pytest.approx(watts)


def test_the_fullest_phase_counts_three_times() -> None:
    elements = {
        "s": {"kind": "source"},
        "b": {
            "kind": "branch",
            "fed_by": ["s"],
            "rating": {"current": "100 A", "voltage_ln": "240 V"},
            "power_factor": 1.0,
            "continuous": "100 %",
        },
    }
    racks = {
        "r": {
            "feeds": {"a": "b"},
            "rating": "60 kW",
            "phases": {"a": {"L1": 0.4, "L2": 0.3, "L3": 0.3}},
        }
    }
    topology = Topology.of(power(elements=elements, racks=racks))
    found = study(topology, np.array([54_000.0])).to_json()
    # 72 kW in all, 24 kW a phase; L1 carries 21.6 kW, so 3 × 2.4 kW are left, not 18 kW.
    assert found["elements"][1]["headroom_w"] == pytest.approx(7200.0)
    assert found["elements"][1]["worst_w"] == pytest.approx(54_000.0)
    # The rack itself adds 0.4 of each watt to L1.
    assert found["racks"][0]["headroom_w"] == pytest.approx(6000.0)


def test_both_cords_on_one_ups_are_named() -> None:
    elements = {
        "s": {"kind": "source"},
        "ups": {"kind": "ups", "fed_by": ["s"], "rating": "50 kW", "autonomy": "60 s"},
        "a": {"kind": "pdu", "fed_by": ["ups"]},
        "b": {"kind": "pdu", "fed_by": ["ups"]},
    }
    racks = {
        "r1": {"feeds": {"a": "a", "b": "b"}, "rating": "10 kW"},
        "r2": {"feeds": {"a": "a"}, "rating": "10 kW"},
    }
    document = study(Topology.of(power(elements=elements, racks=racks)), np.full(2, 1e4)).to_json()
    first, second = document["racks"]
    assert (first["shared"], first["single_fed"], first["down_in"]) == (
        ["ups"],
        False,
        ["loss of ups"],
    )
    assert (second["shared"], second["single_fed"]) == ([], True)
    assert second["down_in"] == ["loss of ups", "loss of a"]


def test_a_load_exactly_at_the_limit_is_no_violation() -> None:
    elements = {"s": {"kind": "source", "rating": "0.3 kW"}}
    racks = {f"r{i}": {"feeds": {"a": "s"}, "rating": "100 W"} for i in range(3)}
    found = study(Topology.of(power(elements=elements, racks=racks)), np.full(3, 100.0))
    assert found.ok
    assert found.headroom_w[0] == 0.0


def test_the_top_line_names_what_is_tight_and_what_is_lost() -> None:
    topology = Topology.of(two_sides())
    assert sentence(study(topology, np.array([90_000.0]))) == (
        "Any single loss is survivable. Tightest: UPS-A1 if PDU-B fails, 20 kW left."
    )
    lost = sentence(study(topology, np.array([150_300.0])))
    assert lost.startswith("Redundancy is lost: PDU-A lacks 31 kW if ")


@pytest.mark.parametrize(
    ("element", "path", "problem"),
    [
        ({"kind": "pdu"}, "power.elements.x", "this pdu has no parent"),
        ({"kind": "pdu", "fed_by": ["utilty"]}, "power.elements.x.fed_by.0", "no element or group"),
        ({"kind": "pdu", "fed_by": ["x"]}, "power.elements.x", "fed in a ring: x <- x"),
        ({"kind": "source", "fed_by": ["utility"]}, "power.elements.x", "a source has no parent"),
        (
            {"kind": "pdu", "fed_by": ["utility"], "rating": {"current": "5 A"}},
            "power.elements.x.rating",
            "needs either voltage_ll or voltage_ln",
        ),
        (
            {"kind": "shelf", "fed_by": ["utility"], "modules": 3, "needs": 4,
             "module_rating": "3 kW"},
            "power.elements.x.needs",
            "needs 4 of 3 modules",
        ),
        (
            {"kind": "switch", "transfer": {"normal": "utility", "alternate": "utility"}},
            "power.elements.x.transfer",
            "normal and alternate are the same",
        ),
        ({"kind": "pdu", "fed_by": ["utility"], "autonomy": "5 s"}, "power.elements.x.autonomy",
         "only a ups"),
    ],
)  # fmt: skip
def test_faults_are_named(element: dict[str, Any], path: str, problem: str) -> None:
    plant = power(elements={"utility": {"kind": "source"}, "x": element}, racks={})
    faults = topology_problems(plant)
    assert any(p == path and problem in text for p, text, _ in faults), faults
    with pytest.raises(ValueError, match="x"):
        Topology.of(plant)


def test_every_fault_of_groups_loads_and_maintenance_is_named_at_once() -> None:
    plant = power(
        elements={"u": {"kind": "source"}, "pdu-a": {"kind": "pdu", "fed_by": ["u"]}},
        groups={"g": {"members": ["u", "u"], "needs": 3}},
        maintenance=["g", "pdu-b"],
        racks={
            "r1": {
                "feeds": {"a": "pdu-b"},
                "needs": 2,
                "split": {"z": 1.0},
                "phases": {"a": {"L1": 0.5}},
                "rating": "1 kW",
            }
        },
        loads={"r1": {"feeds": {"a": "u"}, "rating": "1 kW"}},
    )
    faults = {path: (problem, hint) for path, problem, hint in topology_problems(plant)}
    assert set(faults) == {
        "power.groups.g.members.1",
        "power.groups.g.needs",
        "power.maintenance.0",
        "power.maintenance.1",
        "power.racks.r1.feeds.a",
        "power.racks.r1.needs",
        "power.racks.r1.split.z",
        "power.racks.r1.phases.a",
        "power.loads.r1",
    }
    assert faults["power.racks.r1.feeds.a"][1] == "did you mean pdu-a?"


def test_a_name_that_is_no_element_cannot_fail() -> None:
    with pytest.raises(KeyError):
        Topology.of(two_sides()).without(["bus-a"])


@pytest.mark.parametrize(
    ("name", "known", "meant"),
    [
        ("row1-a", ["row1-a", "ROW1-A"], "row1-a"),
        ("ROW1-A", ["row1-a", "row1-b"], "row1-a"),
        ("Row1-A", ["row1-a", "ROW1-A"], None),
        ("row1-c", ["row1-a"], None),
    ],
)
def test_capitals_do_not_hide_a_name_unless_two_differ_by_them(
    name: str, known: list[str], meant: str | None
) -> None:
    assert named(name, known) == meant
    assert suggestion(name, known) is not None
