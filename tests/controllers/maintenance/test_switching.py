"""May it be opened then: the steps, the worlds behind them and the consequences, by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controllers.headroom import study
from controllers.maintenance.answer import switching, text_of
from controllers.maintenance.consequences import CODES, consequences
from controllers.maintenance.forecast import forecast, worst_case_w
from controllers.maintenance.now import Now, now
from controllers.maintenance.switching import programme
from facility.maintenance import Maintenance
from facility.points import FloatArray
from facility.topology import Topology
from tests.controllers.maintenance.test_in_the_cycle import three_ups
from tests.controllers.rig import Hall
from tests.controllers.toy import Toy, site_of, small_hall
from tests.facility.topology import oracle
from tests.facility.topology.plants import Plant, plants

STS = """
    sts-1: {kind: switch, transfer: {normal: row-a, alternate: row-b}, rating: 20 kW}
"""


def here(text: str, cap_w: float = 300.0) -> Now:
    h = Hall(Toy(site_of(text), cap_w=cap_w))
    h.run(20)
    return now(h.site, h.memory, h.inputs())


def nameplate(place: Now) -> FloatArray:
    return np.array(place.site.topology.nameplate_w)


def test_one_of_three_ups_costs_nothing_but_lower_caps() -> None:
    place = here(three_ups())
    found = switching(place, (), "ups-a2", nameplate(place), acting=True)
    assert found["answer"] == "yes"
    assert found["consequences"] == []
    assert found["caps"]["fits"]
    assert found["caps"]["nodes_lowered"] > 0
    by_code = {step["step"]: step for step in found["steps"]}
    assert [s["n"] for s in found["steps"]] == list(range(1, len(programme("ups")) + 1))
    assert "ups-a1, ups-a3 carry for bus-a" in by_code["transfer"]["do"]
    # Opened: two carry side A, and after the loss of side B one of them may fail no more.
    assert by_code["open_output"]["dark_racks"] == []
    assert by_code["open_output"]["single_fed"] == []
    assert by_code["secure"]["world"] == "whole"
    assert all(step["safe"] for step in found["steps"])
    json.dumps(found, allow_nan=False)


def test_what_is_lost_is_not_said_to_carry_the_load() -> None:
    place = here(three_ups())
    left = replace(place, lost=("ups-a1",))
    found = switching(left, (), "ups-a2", nameplate(place), acting=True)
    transfer = next(s for s in found["steps"] if s["step"] == "transfer")
    assert transfer["do"].endswith("(ups-a3 carries for bus-a.)")
    left = replace(place, lost=("ups-a1", "ups-a3"))
    found = switching(left, (), "ups-a2", nameplate(place), acting=True)
    transfer = next(s for s in found["steps"] if s["step"] == "transfer")
    assert transfer["do"].endswith("(bus-a is dead then.)")


def test_without_hands_on_the_caps_the_same_opening_breaks_n_plus_1() -> None:
    place = here(three_ups(), cap_w=650.0)
    load_w = nameplate(place)
    load_w[:2] = 14_000.0
    found = switching(place, (), "ups-a2", load_w, acting=False)
    assert [one["code"] for one in found["consequences"]] == ["redundancy_lost"]
    assert found["answer"] == "if accepted"
    assert found["accept"] == ["redundancy_lost"]
    opened = next(s for s in found["steps"] if s["step"] == "open_output")
    # 28 kW of racks and 1 kW of CDUs all on side A, one of its two 12 kW UPSs lost: 17 kW over.
    worst = max(opened["further_loss"]["over"], key=lambda row: row["lacks_w"])
    assert worst["element"] in ("ups-a1", "ups-a3")
    assert not opened["safe"]


def test_the_only_ups_of_a_side_leaves_every_rack_on_its_last_feed() -> None:
    place = here(small_hall())
    found = switching(place, (), "ups-a1", nameplate(place), acting=True)
    assert found["answer"] == "if accepted"
    assert [one["code"] for one in found["consequences"]] == ["single_fed"]
    opened = next(s for s in found["steps"] if s["step"] == "open_input")
    assert opened["single_fed"] == ["r01", "r02"]
    darkens = {row["case"]: row["racks"] for row in opened["further_loss"]["darkens"]}
    assert darkens["loss of ups-b1"] == ["r01", "r02"]
    assert darkens["loss of row-b"] == ["r01", "r02"]
    assert "loss of utility-2" not in darkens  # its battery carries on
    whole = found["steps"][0]
    assert whole["single_fed"] == []
    assert whole["further_loss"]["darkens"] == []


def test_the_second_side_while_the_first_is_out_is_no() -> None:
    place = here(small_hall())
    out = Maintenance("m", "element", "ups-a1", "kim", "test", "", 0, 1)
    found = switching(place, (out,), "ups-b1", nameplate(place), acting=True)
    assert found["answer"] == "no"
    assert found["consequences"][0]["code"] == "dark_racks"
    assert found["consequences"][1]["code"] == "dark_loads"
    assert found["verdict"].startswith(
        "No: ups-b1 must not be opened then. 2 racks go dark: r01-r02."
    )


def test_a_transfer_switch_is_named_with_where_it_goes() -> None:
    text = small_hall().replace("  racks:\n    r01: {feeds", f"{STS}  racks:\n    r01: {{feeds", 1)
    text = text.replace("r02: {feeds: {a: row-a, b: row-b}", "r02: {feeds: {a: sts-1, b: row-b}", 1)
    place = here(text)
    found = switching(place, (), "row-a", nameplate(place), acting=True)
    transfer = next(s for s in found["steps"] if s["step"] == "transfer")
    assert "sts-1 goes to row-b" in transfer["do"]
    opened = next(s for s in found["steps"] if s["step"] == "open_output")
    assert opened["single_fed"] == ["r01", "r02"]
    assert opened["dark_racks"] == []


def test_the_moment_of_switching_is_the_worse_of_both_worlds() -> None:
    place = here(small_hall())
    found = switching(place, (), "ups-a1", nameplate(place), acting=False)
    steps = {s["step"]: s for s in found["steps"]}
    assert steps["transfer"]["single_fed"] == ["r01", "r02"]
    cases = {row["case"] for row in steps["transfer"]["further_loss"]["darkens"]}
    assert cases == {row["case"] for row in steps["work"]["further_loss"]["darkens"]}


def test_the_text_is_what_a_shift_lead_pastes() -> None:
    place = here(small_hall())
    found = switching(place, (), "ups-a1", nameplate(place), acting=True)
    text = text_of(
        {
            **found,
            "site": "Toy",
            "id": "s1",
            "window": {"text": "Friday 02:00 to 04:00 UTC"},
            "forecast": forecast(place.site, {}).to_json(place.site, "Friday"),
            "other_work": ["rack:r02"],
            "asked_by": "kim",
            "asked_at": "now",
            "valid_until": "then",
            "void_if": ["it rains"],
            "config_sha256": "0" * 64,
            "data": {"text": "of cycle 7"},
        }
    )
    assert "Switching ups-a1 (ups), Toy\nWindow: Friday 02:00 to 04:00 UTC" in text
    assert "on their last feed: r01, r02" in text
    assert "no history of that hour: nameplate, and all that the boards may draw" in text
    assert "Also out then: rack:r02." in text
    assert text.endswith("Statement s1")


def test_a_forecast_takes_the_high_end_of_what_was_and_the_worst_of_what_is_unknown() -> None:
    site = site_of(small_hall())
    calm = np.full(24, 8_000.0)
    busy = calm.copy()
    busy[3] = 9_500.0
    gone = np.full(24, np.nan)
    thin = np.where(np.arange(24) < 11, 20_000.0, np.nan)
    found = forecast(site, {0: [calm, busy, gone, thin], 1: [gone]})
    assert found.load_w[0] == pytest.approx(9_500.0 * 1.02)
    assert found.from_history == (True, False, False, False)
    assert found.weeks == 2
    # Two nodes of 8 boards at 700 W draw more than the 14 kW of the nameplate.
    boards = 500.0 + 2 * (900.0 + 1.05 / 0.96 * 8 * 700.0)
    assert found.load_w[1] == worst_case_w(site)[1] == pytest.approx(boards)
    assert found.load_w[2] == 500.0


@settings(max_examples=40, deadline=None)
@given(plants(), st.data())
def test_no_consequence_means_that_nothing_is_worse(plant: Plant, data: st.DataObject) -> None:
    before = Topology.of(oracle.power(plant))
    out = data.draw(st.sampled_from(sorted(plant["elements"])))
    after = before.without([out])
    load_w = np.array(before.nameplate_w)
    found = consequences(before, study(after, load_w), {})
    codes = [one.code for one in found]
    assert codes == [code for code in CODES if code in codes]
    _, lost = next(iter(oracle.cases(plant)))

    def up(load: dict[str, Any], gone: frozenset[str]) -> bool:
        living = sum(oracle.alive(plant, gone, f) for f in load["feeds"].values())
        return living >= int(load["needs"])

    dark = [n for n, r in plant["racks"].items() if up(r, lost) and not up(r, lost | {out})]
    assert list(next((one.names for one in found if one.code == "dark_racks"), ())) == dark
    if not codes:
        assert study(after, load_w).ok
