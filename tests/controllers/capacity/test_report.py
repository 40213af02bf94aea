"""Feeds that meet, levels without a spare, sizing, lots and losses, by hand."""

from __future__ import annotations

import json

import numpy as np
import pytest

from controllers.capacity import (
    conversion,
    levels,
    lots,
    report,
    report_text,
    rows_of,
    supply_audit,
    wrongly_fed,
)
from facility.loading import load_text
from facility.topology import Topology
from tests.controllers.capacity.halls import hall, nameplate
from tests.controllers.toy import Toy, site_of, small_hall

CORDS = """
facility: 1
site: {name: Cords, timezone: UTC}
power:
  elements:
    grid-a: {kind: source}
    grid-b: {kind: source}
    ups-a: {kind: ups, fed_by: [grid-a]}
    ups-a2: {kind: ups, fed_by: [grid-a]}
    ups-b: {kind: ups, fed_by: [grid-b]}
    row-a: {kind: busway, fed_by: [ups-a]}
    row-c: {kind: busway, fed_by: [ups-a]}
    row-b: {kind: busway, fed_by: [ups-b]}
    row-a2: {kind: busway, fed_by: [ups-a2]}
  racks:
    right: {feeds: {a: row-a, b: row-b}, rating: 1 kW}
    single: {feeds: {a: row-a}, rating: 1 kW}
    twice: {feeds: {a: row-a, b: row-a}, rating: 1 kW}
    one-ups: {feeds: {a: row-a, b: row-c}, rating: 1 kW}
    one-grid: {feeds: {a: row-a, b: row-a2}, rating: 1 kW}
    both-needed: {feeds: {a: row-a, b: row-b}, needs: 2, rating: 1 kW}
"""


def test_every_wrong_way_to_feed_a_rack_is_told_apart() -> None:
    found = wrongly_fed(Topology.of(load_text(CORDS).facility.power))
    assert [(f.load, f.fault, f.elements) for f in found] == [
        ("single", "single_fed", ("row-a",)),
        ("twice", "same_parent", ("row-a",)),
        ("one-ups", "both_on_one", ("ups-a",)),
        ("one-grid", "one_source", ("grid-a",)),
    ]
    assert found[2].text == "one-ups goes dark with ups-a although it has a spare feed."


def test_levels_say_which_may_fail() -> None:
    topology, load_w = nameplate(hall())
    rows = {row["kind"]: row for row in levels(topology, load_w)}
    assert list(rows) == ["source", "ups", "busway", "rack_pdu"]
    assert all(row["n_plus_1"] for row in rows.values())
    load_w[0] = 55_000.0
    rows = {row["kind"]: row for row in levels(topology, load_w)}
    assert not rows["ups"]["n_plus_1"]
    assert rows["ups"]["over"] == {
        "element": "pdu-r01-b",
        "case": "loss of ups-a",
        "lacks_w": pytest.approx(5_000.0),
    }
    assert rows["ups"]["dark"] == []


def test_a_level_that_darkens_racks_with_a_spare_feed_is_not_n_plus_1() -> None:
    topology = Topology.of(load_text(CORDS).facility.power)
    rows = {row["kind"]: row for row in levels(topology, np.array(topology.nameplate_w))}
    assert rows["ups"]["dark"] == ["one-ups", "twice"]
    assert rows["source"]["dark"] == ["one-grid", "one-ups", "twice"]


def test_supply_is_held_against_the_peak_of_the_chips() -> None:
    """The 50 kW of side B against 8 x 700 W: far more than 1.5 times."""
    facility = hall()
    topology = Topology.of(facility.power)
    row = supply_audit(topology, facility.nodes)[0]
    assert (row["supply_w"], row["supply_of"]) == (50_000.0, ["pdu-r01-a", "pdu-r01-b"])
    assert row["ratio"] == pytest.approx(50_000.0 / 5_600.0)
    assert row["state"] == "ample"
    for gpus, max_cap, state in (("16", "2.2 kW", "right"), ("16", "3 kW", "short")):
        more = hall(**{"gpus: 8": f"gpus: {gpus}", "max_cap: 700 W": f"max_cap: {max_cap}"})
        assert supply_audit(Topology.of(more.power), more.nodes)[0]["state"] == state


def test_racks_come_in_lots_that_keep_a_margin() -> None:
    """20 kW are left on the rows; 10 % of 150 kW kept free leave 5 kW."""
    facility = hall()
    topology, load_w = nameplate(facility)
    rows = rows_of(facility.power)
    assert rows == {"row-1": ("r03", 2)}
    found = lots(topology, rows, load_w, rack_w=5_000.0, lot=1, margin=0.0)[0]
    assert (found["lots"], found["positions_left"]) == (2, 2)
    assert found["room_w"] == pytest.approx(20_000.0)
    pairs = lots(topology, rows, load_w, rack_w=20_000.0, lot=2, margin=0.0)[0]
    assert pairs["lots"] == 0
    kept = lots(topology, rows, load_w, rack_w=5_000.0, lot=1, margin=0.1)[0]
    assert kept["room_w"] == pytest.approx(5_000.0)
    assert kept["lots"] == 1


def test_without_rows_each_first_busway_is_one() -> None:
    power = load_text(CORDS).facility.power
    assert rows_of(power) == {"row-a": ("both-needed", None)}


def test_losses_are_measured_from_level_to_level() -> None:
    toy = Toy(site_of(small_hall()))
    for side in ("a", "b"):
        toy.changes[f"ups-{side}1:total:active_power"] = 10_000.0
    for rack in ("r01", "r02"):
        for side in ("a", "b"):
            toy.changes[f"pdu-{rack}-{side}:total:active_power"] = 4_800.0
    found = conversion(toy.site, toy.snapshot())
    # 19.2 kW of racks are measured, the CDUs' 1 kW is not.
    assert [row["level"] for row in found["levels"]] == ["ups", "rack"]
    whole = found["source_to_rack"]
    assert (whole["out_w"], whole["estimated_w"]) == (20_200.0, 1_000.0)
    assert whole["accuracy"] == pytest.approx(0.04 + 0.05)
    # It was called good although more arrived than flowed in.
    assert whole["state"] == "unknown, within meter accuracy"
    assert found["text"].endswith("More than all: the meters cannot tell the loss.")
    assert "source: not all are metered" in found["unknown"]
    toy.broken.add("pdu-r01-a")
    blind = conversion(toy.site, toy.snapshot())
    assert blind["source_to_rack"] is None
    assert "rack: not every feed is metered" in blind["unknown"]


def test_from_the_ups_to_metered_feeds_there_is_an_efficiency() -> None:
    text = small_hall().replace(
        "control:",
        "  pdu-cdu-[1-2]-[a,b]:\n    {profile: pdu/apc-rpdu2, address: 'snmp://x:1', "
        'measures: {load: "cdu-{1}", feed: "{2}"}}\ncontrol:',
    )
    toy = Toy(site_of(text))
    for side in ("a", "b"):
        toy.changes[f"ups-{side}1:total:active_power"] = 10_000.0
        for name in ("r01", "r02"):
            toy.changes[f"pdu-{name}-{side}:total:active_power"] = 4_500.0
        for name in ("cdu-1", "cdu-2"):
            toy.changes[f"pdu-{name}-{side}:total:active_power"] = 250.0
    found = conversion(toy.site, toy.snapshot())
    assert found["source_to_rack"]["efficiency"] == pytest.approx(0.95)
    assert found["source_to_rack"]["loss_w"] == pytest.approx(1_000.0)
    assert found["source_to_rack"]["state"] == "short, within meter accuracy"
    assert found["text"].startswith("95.0 % of the power at the ups level reaches the rack level")


def test_the_report_is_one_document_and_a_text() -> None:
    facility = hall()
    topology, load_w = nameplate(facility)
    document = report(facility, topology, load_w)
    json.dumps(document, allow_nan=False)
    assert document["binding"]["element"] == "pdu-r01-b"
    assert document["feeding"] == []
    text = report_text(document)
    assert "130 kW in all. Tightest: pdu-r01-b, loss of grid-a, 10 kW left." in text
    assert "Level ups (2): any one may fail." in text
    assert "supply above 1.5 x chip peak in 1 racks" in text
