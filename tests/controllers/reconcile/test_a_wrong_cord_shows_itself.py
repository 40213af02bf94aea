"""The simulated plant is wired one way, the file says another: the residuals name both places."""

from __future__ import annotations

import math

import pytest

from controllers.reconcile import (
    ReconcileMemory,
    Residuals,
    balance_of,
    reconcile,
    wiring_conditions,
    wiring_facts,
)
from drivers.sim.scenarios import Scenario
from facility.points import Layout, PointId, PointSpec, PointTable
from facility.site import SiteModel
from tests.controllers.reconcile.rig import DEMO, TRUE, WRONG, View, facility


class Watch(View):
    """A view whose meters are reconciled every second."""

    def run(self, seconds: int) -> Residuals:
        memory = getattr(self, "memory", ReconcileMemory())
        for _ in range(seconds):
            snapshot = self.second()
            found, memory = reconcile(self.site, self.site.topology, snapshot, memory)
        self.memory = memory
        return found


def test_a_hall_wired_as_its_file_says_leaves_nothing_unexplained() -> None:
    watch = Watch(TRUE)
    found = watch.run(60)
    assert not found.suspect.size
    facts = wiring_facts(found)
    for name in ("row1-a", "row1-b", "row2-a", "row2-b", "ups-a1", "ups-b3"):
        allowed = facts[name]["allowed_w"]
        assert allowed[0] <= facts[name]["residual_w"] <= allowed[1], name
        assert facts[name]["meter_w"] > 10_000.0
    # The members of a group share by impedance, not by decree: they are balanced together.
    assert facts["ups-a1"]["together_with"] == ["ups-a2", "ups-a3"]


def test_a_cord_declared_on_the_wrong_busway_names_both_and_the_cord() -> None:
    watch = Watch(WRONG)
    found = watch.run(60)
    told = {c.subject: c for c in wiring_conditions(found)}
    assert set(told) == {"row1-a", "row2-a"}
    reads_w = watch.world.plant.value("pdu-r05-a", "total", "active_power")
    assert reads_w is not None
    assert told["row2-a"].numbers["residual_w"] == pytest.approx(reads_w, rel=0.02)
    assert told["row1-a"].numbers["residual_w"] == pytest.approx(-reads_w, rel=0.02)
    assert "more than the meters below explain" in told["row2-a"].text
    assert "less than the meters below explain" in told["row1-a"].text
    for condition in told.values():
        assert "r05/a" in condition.text
        assert "is declared below row1-a and may hang on row2-a" in condition.text
        assert condition.on_delay_s == 180.0
        assert not condition.page


def test_a_meter_that_is_missing_leaves_no_residual_and_says_which() -> None:
    watch = Watch(WRONG)
    watch.run(60)
    watch.silent.add("pdu-r06-a")
    found = watch.run(10)
    facts = wiring_facts(found)
    assert facts["row2-a"]["residual_w"] is None
    assert facts["row2-a"]["missing"] == "r06/a"
    assert facts["row1-a"]["residual_w"] is not None
    # UPS-A1 to A3 are explained by the busways' own meters: they do not need that of r06.
    assert facts["ups-a1"]["residual_w"] is not None
    assert "row2-a" not in {c.subject for c in wiring_conditions(found)}


def test_a_load_without_any_meter_leaves_its_elements_without_an_equation() -> None:
    """In the demo's own file nobody meters the CDUs' cords: never taken for 0 W."""
    site = SiteModel.of(facility(DEMO), PointTable.of([]))
    balance = balance_of(site)
    assert balance.members == ()
    assert balance.unmetered["row2-a"] == "row2-a"


def test_a_lost_feed_is_no_wrong_cord() -> None:
    lost = {"kind": "element_lost", "named": "pdu-b", "start": 10.0 / 900.0, "end": 1.0}
    watch = Watch(
        TRUE, Scenario.model_validate({"name": "b", "about": "PDU B fails.", "faults": [lost]})
    )
    told: set[str] = set()
    for _ in range(4):
        told |= {c.subject for c in wiring_conditions(watch.run(10))}
    # Busways b read nothing now, and a carries all: its meters say so.
    facts = wiring_facts(watch.run(1))
    assert facts["row2-b"]["meter_w"] == pytest.approx(0.0, abs=1.0)
    assert not told


def test_a_residual_within_what_the_meters_may_err_is_no_suspicion() -> None:
    watch = Watch(TRUE)
    found = watch.run(5)
    row = found.balance.members.index(("row1-a",))
    own = float(found.own_w[row])
    # Five meters at 2 %, each rounded: an own meter and four racks.
    assert found.high_w[row] == pytest.approx(0.02 * 2.0 * own + 5 * 25.0, rel=0.01)
    assert math.isclose(found.low_w[row], -found.high_w[row])


def test_what_a_ups_loses_is_allowed_for_unless_its_input_is_measured() -> None:
    text = TRUE.replace(
        "  meter-row",
        '  meter-utility: {profile: pdu/raritan-px, address: "snmp://u:1", auth: snmp, '
        "measures: {element: utility-1}}\n  meter-row",
        1,
    )
    watch = Watch(text)
    b = balance_of(watch.site)
    # utility-1 has no point in this table: no equation. With it, three UPS may lose 10 % each.
    assert ("utility-1",) not in b.members
    found = watch.run(2)
    assert not found.balance.may_lose.any()
    layouts = [
        *watch.site.table.layouts,
        Layout(
            "meter-utility",
            "fast",
            (PointSpec(PointId("meter-utility", "total", "active_power"), -1e3, 1e7, 5.0),),
        ),
    ]
    with_meter = balance_of(SiteModel.of(facility(text), PointTable.of(layouts)))
    row = with_meter.members.index(("utility-1",))
    lost = with_meter.may_lose[(with_meter.row == row) & (with_meter.sign < 0.0)]
    assert lost.tolist() == [0.1, 0.1, 0.1]
    inputs = Layout(
        "ups-a1",
        "slow",
        tuple(
            PointSpec(PointId("ups-a1", f"input.{n}", "active_power"), -1e3, 1e7, 5.0)
            for n in (1, 2, 3)
        ),
    )
    measured = balance_of(SiteModel.of(facility(text), PointTable.of([*layouts, inputs])))
    assert "ups-a1 (input)" in measured.names
    row = measured.members.index(("utility-1",))
    lost = measured.may_lose[(measured.row == row) & (measured.sign < 0.0)]
    assert sorted(lost.tolist()) == [0.0, 0.1, 0.1]


def test_an_element_that_other_halls_use_too_is_not_suspected_for_their_load() -> None:
    text = WRONG.replace(
        "    row2-[a,b]:\n      kind: busway\n",
        "    row2-[a,b]:\n      kind: busway\n      share: 50 %\n",
    )
    balance = balance_of(Watch(text).site)
    assert ("row2-a",) not in balance.members
    assert ("row1-a",) in balance.members
    assert balance.unmetered["row2-a"] == "row2-a in other halls"
