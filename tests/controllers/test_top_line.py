"""The top line: what is lost comes first, with since when and what to do."""

from __future__ import annotations

import re
from zoneinfo import ZoneInfo

import numpy as np

from controllers.cycle.plight import clock_time
from controllers.headroom import Plight, sentence, study
from facility.topology import Topology
from tests.controllers.rig import Hall
from tests.controllers.toy import Toy, site_of, small_hall
from tests.facility.topology.test_topology_by_hand import two_sides


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
    assert "no second feed left" in text
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
    assert text.startswith("Redundancy is lost since 03:12:04 CET: PDU-A lacks 30 kW if ")
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
    assert "No caps fit." in text


def test_a_moment_of_another_day_carries_its_date() -> None:
    zone = ZoneInfo("Europe/Berlin")
    at_ms = 1_795_000_000_000
    assert clock_time(at_ms, at_ms + 1000, zone) == "12:06:40 CET"
    assert clock_time(at_ms, at_ms + 86_400_000, zone) == "2026-11-18 12:06:40 CET"
