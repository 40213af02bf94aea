"""The simulated plant is wired one way, the file says another: the residuals name both places."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import pytest

from controllers.reconcile import (
    ReconcileMemory,
    Residuals,
    balance_of,
    reconcile,
    wiring_conditions,
    wiring_facts,
)
from drivers.sim import scenarios
from drivers.sim.plant.world import World
from facility.config import Facility
from facility.loading import load_text
from facility.points import Flaw, Layout, PointId, PointSpec, PointTable, Scan
from facility.site import SiteModel
from facility.snapshot import LiveImage
from tests.conftest import ROOT
from tests.drivers.sim.halls import good_start

DEMO = (ROOT / "facility" / "demo.yaml").read_text(encoding="utf-8")
METERS = """
  meter-row[1-2]-[a,b]:
    {profile: pdu/raritan-px, address: "snmp://m-{1}{2}:161", auth: snmp,
     measures: {element: "row{1}-{2}"}}
  meter-cdu-[1-2]-[a,b]:
    {profile: pdu/raritan-px, address: "snmp://c-{1}{2}:161", auth: snmp,
     measures: {load: "cdu-{1}", feed: "{2}"}}
"""
#: As the plant is wired; each busway and each CDU cord has a meter of its own.
TRUE = DEMO.replace("\ndevices:\n", f"\ndevices:{METERS}", 1)
#: As somebody wrote it down: cord a of r05 hangs on row 2, not on row 1.
WRONG = TRUE.replace(
    "    r[05-08]: {feeds: {a: row2-a, b: row2-b}, rating: 32 kW, overhead: 2 kW}",
    "    r05: {feeds: {a: row1-a, b: row2-b}, rating: 32 kW, overhead: 2 kW}\n"
    "    r[06-08]: {feeds: {a: row2-a, b: row2-b}, rating: 32 kW, overhead: 2 kW}",
)


@lru_cache(maxsize=2)
def facility(text: str) -> Facility:
    return load_text(text).facility


class Watch:
    """A controller's view, with the file `declared`, of the plant as it is wired."""

    def __init__(self, declared: str, scenario: str = "steady") -> None:
        true = facility(TRUE)
        self.world = World.of(true, 1, scenarios.load(scenario), 900.0, good_start(true))
        meters = [
            name
            for name, device in true.devices.items()
            if device.measures.element or device.measures.feed
        ]
        spec = PointSpec
        layouts = [
            Layout(m, "fast", (spec(PointId(m, "total", "active_power"), -1e3, 1e7, 5.0),))
            for m in meters
        ]
        self.site = SiteModel.of(facility(declared), PointTable.of(layouts))
        self.image = LiveImage(self.site.table)
        self.memory = ReconcileMemory()
        self.silent: set[str] = set()
        self.now_s = 100.0

    def run(self, seconds: int) -> Residuals:
        for _ in range(seconds):
            self.world.advance(1.0)
            self.now_s += 1.0
            for layout in self.site.table.layouts:
                now = (layout, 1_790_000_000_000, self.now_s)
                value = self.world.plant.value(layout.device, "total", "active_power")
                if layout.device in self.silent or value is None:
                    scan = Scan.missing(layout, Flaw.TIMEOUT, now[1], now[2])
                else:
                    one = np.array([value])
                    good = np.zeros(1, dtype=np.uint8)
                    scan = Scan(layout, one, good, now[1], now[1], now[2])
                self.image.update(scan)
            snapshot = self.image.freeze(1_790_000_000_000, self.now_s)
            found, self.memory = reconcile(self.site, self.site.topology, snapshot, self.memory)
        return found


def test_a_hall_wired_as_its_file_says_leaves_nothing_unexplained() -> None:
    watch = Watch(TRUE)
    found = watch.run(120)
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
    found = watch.run(120)
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
    watch = Watch(TRUE, "feed-loss")
    told: set[str] = set()
    for _ in range(12):
        told |= {c.subject for c in wiring_conditions(watch.run(10))}
    # Busways b are dead and read nothing; a carries all, and its meters say so.
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
