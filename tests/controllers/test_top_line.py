"""The top line: what is lost comes first, with since when and what to do."""

from __future__ import annotations

import re
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from controllers.cycle.plight import clock_time
from controllers.headroom import Plight, sentence, study
from controllers.wording import kilowatts, lacking, listed, room_left
from facility.topology import Topology
from tests.controllers.rig import Hall
from tests.controllers.toy import Toy, site_of, small_hall
from tests.facility.topology.test_topology_by_hand import power, two_sides


def test_without_any_loss_the_line_is_as_before() -> None:
    found = study(Topology.of(two_sides()), np.array([90_000.0]))
    assert sentence(found, Plight()) == (
        "Any single loss is survivable. Tightest: UPS-A1 if PDU-B fails, 20 kW left."
    )


def test_a_lost_element_is_never_called_survivable_in_passing() -> None:
    topology = Topology.of(two_sides()).without(["pdu-b"])
    found = study(topology, np.array([90_000.0]))
    assert found.ok
    text = sentence(found, Plight(("pdu-b",), "03:12:04 CET", "Restore PDU-B."))
    assert text.startswith("PDU-B is lost since 03:12:04 CET, and nothing is overloaded. ")
    assert "1 rack hangs on one feed: losing it darkens it." in text
    assert "Any single loss is survivable" not in text
    assert text.endswith(" kW left. Restore PDU-B.")


def test_a_loss_that_takes_the_redundancy_says_the_loss_first_then_what_lacks() -> None:
    topology = Topology.of(two_sides()).without(["pdu-b"])
    found = study(topology, np.array([150_300.0]))
    assert not found.ok
    text = sentence(found, Plight(("pdu-b",), "03:12:04 CET", "Caps hold. Restore PDU-B."))
    assert text.startswith("PDU-B is lost since 03:12:04 CET. ")
    assert " lacks " in text
    assert text.endswith("Caps hold. Restore PDU-B.")


def test_lost_redundancy_without_a_loss_says_since_when() -> None:
    found = study(Topology.of(two_sides()), np.array([150_300.0]))
    plight = Plight((), "03:12:04 CET", "Caps come down until it is restored.")
    text = sentence(found, plight)
    assert text.startswith("Redundancy is lost since 03:12:04 CET: PDU-A lacks 31 kW if ")
    assert text.endswith("Caps come down until it is restored.")


def test_the_fact_itself_is_right_while_an_element_is_lost() -> None:
    h = Hall(Toy(site_of(small_hall(RESECURE="60 s")), cap_w=300.0))
    before = h.run(20)
    assert before.facts["sentence"].startswith("Any single loss is survivable.")
    h.toy.dead_feeds.add("b")
    during = [h.step() for _ in range(20)]
    lost = [d for d in during if d.facts["losses"]["lost"]]
    assert lost
    for decision in lost:
        text = decision.facts["sentence"]
        name = decision.facts["losses"]["lost"][0].upper()
        assert re.match(rf"{name} is lost since (\d{{4}}-\d\d-\d\d )?\d\d:\d\d:\d\d \S+", text), (
            text
        )
        assert f"Restore {name}." in text
    since = {d.facts["sentence"].split(" since ")[1][:8] for d in lost}
    assert len(since) == 1
    h.toy.dead_feeds.clear()
    after = h.run(40)
    assert after.facts["sentence"].startswith("Any single loss is survivable.")


def test_redundancy_that_caps_must_restore_is_dated_by_its_alarm() -> None:
    h = Hall(Toy(site_of(small_hall(ROW="9 kW")), cap_w=250.0))
    decision = h.run(12)
    text = decision.facts["sentence"]
    assert re.match(r"(Redundancy is lost|Over its limit now) since \S+ \S+: ", text), text
    assert re.search(r"No caps fit\. [A-Z].*\.$", text), text
    assert text.count("No caps fit") == 1


def test_a_moment_of_another_day_carries_its_date() -> None:
    zone = ZoneInfo("Europe/Berlin")
    at_ms = 1_795_000_000_000
    assert clock_time(at_ms, at_ms + 1000, zone) == "12:06:40 CET"
    assert clock_time(at_ms, at_ms + 86_400_000, zone) == "2026-11-18 12:06:40 CET"


def row_of(feeds: dict[str, dict[str, str]]) -> Topology:
    """One utility, UPS and PDU a side; `feeds` of each rack."""
    elements: dict[str, dict[str, object]] = {}
    for side in "ab":
        elements[f"grid-{side}"] = {"kind": "source"}
        elements[f"ups-{side}"] = {
            "kind": "ups", "fed_by": [f"grid-{side}"], "rating": "100 kW", "autonomy": "300 s",
        }  # fmt: skip
        elements[f"pdu-{side}"] = {"kind": "pdu", "fed_by": [f"ups-{side}"], "rating": "90 kW"}
    racks = {name: {"feeds": ends, "rating": "10 kW"} for name, ends in feeds.items()}
    return Topology.of(power(elements=elements, racks=racks))


BOTH = {"a": "pdu-a", "b": "pdu-b"}


def said(topology: Topology) -> str:
    found = study(topology, topology.nameplate_w)
    assert found.ok
    return sentence(found)


def test_a_dark_hall_is_not_called_well() -> None:
    hall = row_of({f"r{i:02d}": BOTH for i in range(1, 9)})
    assert said(hall.without(["ups-a", "ups-b"])) == "8 racks are dark: r01-r08."
    some = row_of({"r01": BOTH, "r02": {"a": "pdu-a"}})
    text = said(some.without(["ups-a"]))
    assert text.startswith("1 rack is dark: r02. 1 rack hangs on one feed: losing it darkens it.")
    assert "survivable" not in text
    assert "single-fed" not in text


def test_racks_on_their_last_feed_are_not_called_survivable() -> None:
    hall = row_of({"r01": BOTH, "r02": BOTH, "r03": BOTH})
    text = said(hall.without(["ups-a"]))
    assert text.startswith("3 racks hang on one feed: losing it darkens them. Tightest: PDU-B now")
    assert "survivable" not in text


def test_two_cords_on_one_element_are_not_called_survivable() -> None:
    text = said(row_of({"r01": {"a": "pdu-a", "b": "pdu-a"}, "r02": BOTH}))
    assert text.startswith(
        "1 rack hangs on UPS-A, PDU-A with all feeds: losing one of these darkens it. "
    )
    assert "survivable" not in text


def test_a_rack_declared_with_one_feed_is_mentioned_once() -> None:
    text = said(row_of({"r01": BOTH, "r07": {"a": "pdu-a"}}))
    assert text.startswith("Any single loss is survivable. Tightest: ")
    assert text.endswith(" left. r07 is single-fed.")
    assert text.count("r07") == 1
    assert "survivable" not in said(row_of({"r07": {"a": "pdu-a"}}))


def test_dark_racks_come_before_the_loss_that_made_them_so() -> None:
    hall = row_of({"r01": BOTH, "r02": {"a": "pdu-a"}}).without(["ups-a"])
    text = sentence(study(hall, hall.nameplate_w), Plight(("ups-a",), "", "Restore UPS-A."))
    assert text.startswith("1 rack is dark: r02. UPS-A is lost. 1 rack hangs on one feed")
    assert text.endswith("Restore UPS-A.")


@pytest.mark.parametrize(
    ("watts", "left", "short", "nearest"),
    [
        (23_800.0, "23 kW", "24 kW", "24 kW"),
        (84_000.0 - 1e-8, "84 kW", "84 kW", "84 kW"),
        (9_990.0, "9.9 kW", "10.0 kW", "10.0 kW"),
        (390.0, "0.3 kW", "0.4 kW", "0.4 kW"),
        (0.0, "0.0 kW", "0.0 kW", "0.0 kW"),
    ],
)
def test_room_is_never_rounded_up_and_a_lack_never_down(
    watts: float, left: str, short: str, nearest: str
) -> None:
    assert (room_left(watts), lacking(watts), kilowatts(watts)) == (left, short, nearest)


def test_runs_of_names_are_drawn_together() -> None:
    assert listed(["r09", "r10", "r12", "cage", "cage2"]) == "r09-r10, r12, cage, cage2"
    assert listed([f"r{i}" for i in range(0, 14, 2)]) == "r0, r2, r4, r6, r8 and 2 more"


def test_two_names_with_hyphens_do_not_read_as_one() -> None:
    assert listed(["ups-a1", "ups-a2"]) == "ups-a1, ups-a2"
    assert listed(["ups-a1", "ups-a2", "ups-a3", "pdu-b"]) == "ups-a1 to ups-a3, pdu-b"


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (
            {"cdu-1:pump.1:state": 2.0, "cdu-1:pump.2:state": 2.0},
            "CDU-1's pumps stand; cooling has no spare pump.",
        ),
        ({"cdu-1:pump.1:state": 2.0}, "A pump of CDU-1 stands; cooling has no spare pump."),
        ({"air-r01:leak:leak": 1.0, "wet-r01:leak:leak": 1.0}, "A leak at r01 is confirmed."),
    ],
)
def test_pumps_that_stand_and_leaks_are_in_the_top_line(
    wrong: dict[str, float], words: str
) -> None:
    h = Hall(Toy(site_of(small_hall()), cap_w=300.0))
    before = h.run(20)
    assert before.facts["trouble"] == []
    h.toy.changes.update(wrong)
    after = h.run(12)
    assert after.facts["headroom"]["ok"]
    assert after.facts["trouble"]
    assert after.facts["sentence"].startswith(f"{words} Of power, any single loss is survivable. ")
    for decision in h.decisions[-5:]:
        assert "everything is where it should be" not in decision.facts["next"]["text"]
    for point in wrong:
        del h.toy.changes[point]
    if "leak" not in words:  # A leak stands until people have had time to look.
        text = h.run(60).facts["sentence"]
        assert text.startswith("Any single loss is survivable. Tightest: ")


def test_a_flow_that_is_gone_is_in_the_top_line() -> None:
    h = Hall(Toy(site_of(small_hall()), cap_w=300.0))
    h.run(20)
    h.toy.flow_share = 0.03
    assert h.run(10).facts["sentence"].startswith("LOOP-1 has lost its coolant flow. ")
