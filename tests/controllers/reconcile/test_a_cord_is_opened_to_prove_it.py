"""A cord is opened in the simulated plant; live meters say whether it is the one declared."""

from __future__ import annotations

import pytest

from controllers.reconcile.cords import CordWatch, begin, look, unfit
from drivers.sim.scenarios import Scenario
from tests.controllers.reconcile.rig import ROW_2, TRUE, View

#: Every cord of r05 and r06 has a breaker of its own, so that the plant can open it.
BREAKERS = """
    br-r05-a: {kind: branch, fed_by: [row2-a]}
    br-r05-b: {kind: branch, fed_by: [row2-b]}
    br-r06-a: {kind: branch, fed_by: [row2-a]}
  groups:
"""
RACKS = """
    r05: {feeds: {a: br-r05-a, b: br-r05-b}, rating: 32 kW, overhead: 2 kW}
    r06: {feeds: {a: br-r06-a, b: row2-b}, rating: 32 kW, overhead: 2 kW}
    r[07-08]: {feeds: {a: row2-a, b: row2-b}, rating: 32 kW, overhead: 2 kW}
"""
WIRED = TRUE.replace("  groups:\n", BREAKERS.lstrip("\n"), 1).replace(ROW_2, RACKS.strip("\n"))
#: The file hangs r05/a below row 1.
ELSEWHERE = WIRED.replace(
    "br-r05-a: {kind: branch, fed_by: [row2-a]}", "br-r05-a: {kind: branch, fed_by: [row1-a]}"
)


def opened(element: str, end: float = 1.0) -> Scenario:
    """Somebody opens a breaker 45 s after the start."""
    fault = {"kind": "element_lost", "named": element, "start": 45.0 / 900.0, "end": end}
    return Scenario.model_validate({"name": "cord", "about": "Cord.", "faults": [fault]})


class Drill(View):
    def watch(self, cord: tuple[str, str], seconds: int) -> CordWatch:
        """Watch a cord from 10 s after the start."""
        for _ in range(10):
            snapshot = self.second()
        column = self.site.topology.feed_index[cord]
        assert unfit(self.site, snapshot, column) == ""
        watch = begin(self.site, snapshot, column)
        self.verdicts = [watch.verdict]
        for _ in range(seconds):
            watch = look(self.site, self.second(), watch)
            if watch.verdict != self.verdicts[-1]:
                self.verdicts.append(watch.verdict)
            if watch.verdict in ("failed", "back"):
                break
        return watch


def test_a_cord_that_hangs_as_declared_is_proved_and_comes_back() -> None:
    drill = Drill(WIRED, opened("br-r05-a", 75.0 / 900.0), WIRED)
    watch = drill.watch(("r05", "a"), 90)
    assert drill.verdicts == ["learning", "ready", "open", "back"]
    evidence = watch.evidence
    assert evidence is not None
    # Its rack PDU lives on that cord, so it fell silent; the other cord took all.
    assert evidence["feed"]["now_w"] is None
    assert evidence["feed"]["before_w"] > 4000.0
    assert evidence["other_feeds"]["ok"]
    assert evidence["other_feeds"]["now_w"] == pytest.approx(
        2.0 * evidence["feed"]["before_w"], rel=0.05
    )
    checked = {check["element"]: check for check in evidence["elements"]}
    assert {"row2-a", "row2-b"} <= set(checked)
    assert all(check["ok"] for check in checked.values())
    assert checked["row2-a"]["seen_w"] < 0.0 < checked["row2-b"]["seen_w"]


def test_a_cord_that_hangs_on_another_busway_than_declared_is_not_signed() -> None:
    drill = Drill(ELSEWHERE, opened("br-r05-a"), WIRED)
    watch = drill.watch(("r05", "a"), 60)
    assert watch.verdict == "failed"
    assert "row1-a changed by" in watch.why
    assert "row2-a changed by -" in watch.why
    assert "is not above this cord" in watch.why


def test_the_other_cord_of_the_same_rack_opened_instead_is_named() -> None:
    drill = Drill(WIRED, opened("br-r05-b"), WIRED)
    # A meter with its own supply reads 0 W; one that lives on the cord is merely silent.
    drill.world.plant.device_health = lambda device: "ok"  # type: ignore[method-assign]
    watch = drill.watch(("r05", "a"), 60)
    assert watch.verdict == "failed"
    assert watch.why.startswith("r05/b fell instead")


def test_a_cord_of_another_rack_opened_instead_is_named() -> None:
    drill = Drill(WIRED, opened("br-r06-a"), WIRED)
    drill.world.plant.device_health = lambda device: "ok"  # type: ignore[method-assign]
    watch = drill.watch(("r05", "a"), 60)
    assert watch.verdict == "failed"
    assert watch.why.startswith("r06/a fell instead")


def test_a_cord_that_nobody_opens_stays_ready() -> None:
    drill = Drill(WIRED, "steady", WIRED)
    assert drill.watch(("r05", "a"), 60).verdict == "ready"


def test_a_meter_that_only_falls_silent_proves_nothing() -> None:
    drill = Drill(WIRED, "steady", WIRED)
    drill.watch(("r05", "a"), 20)
    drill.silent.add("pdu-r05-a")
    assert drill.watch(("r06", "a"), 40).verdict == "ready"


def test_a_cord_opened_too_soon_must_be_drilled_again() -> None:
    drill = Drill(WIRED, opened("br-r05-a"), WIRED)
    for _ in range(30):
        drill.second()
    watch = drill.watch(("r05", "a"), 30)
    assert watch.verdict == "failed"
    assert "before the meters had been watched" in watch.why


def test_what_would_darken_its_load_or_prove_nothing_is_refused() -> None:
    drill = Drill(WIRED, opened("br-r05-b"), WIRED)
    topology = drill.site.topology
    for _ in range(10):
        snapshot = drill.second()
    drill.silent.add("pdu-r06-b")
    for _ in range(8):
        snapshot = drill.second()
    column = topology.feed_index["r06", "a"]
    assert unfit(drill.site, snapshot, column) == "the meter of r06/b gives no good reading"
    for _ in range(50):
        snapshot = drill.second()
    # r05/b has been opened by now: r05 hangs on its cord a.
    why = unfit(drill.site, snapshot, topology.feed_index["r05", "a"])
    assert why == "the meter of r05/b gives no good reading"
    single = Drill(WIRED.replace("br-r05-b}, rating: 32 kW", "br-r05-b}, needs: 2, rating: 32 kW"))
    why = unfit(single.site, single.second(), single.site.topology.feed_index["r05", "a"])
    assert why == "r05 needs 2 of its 2 feeds: it would go dark"
