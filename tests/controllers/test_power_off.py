"""Nodes go off in declared order, only where the file says so, and only as many as it takes."""

from __future__ import annotations

import pytest

from facility.checking import _power_off
from facility.commands import Command, Mode
from facility.config import Facility
from facility.loading import load_text
from tests.controllers.rig import Hall
from tests.controllers.toy import Toy, site_of, small_hall

POINTS = "overload: [[110 %, 600 s], [125 %, 60 s], [150 %, 8 s]]"
OPTED = '  allow:\n    - {points: "*:total:power_off", by: test}\n'


def text(order: str = "[r02-n2, r02-n1, r01-n1]", *, allowed: bool = True) -> str:
    out = small_hall().replace("autonomy: 300 s}", f"autonomy: 300 s, {POINTS}}}")
    out = out.replace("  mode: auto\n", f"  mode: auto\n  power_off: {order}\n", 1)
    return out.replace("  allow:\n", OPTED, 1) if allowed else out


def hall(source: str) -> Hall:
    made = Hall(Toy(site_of(source), cap_w=400.0))
    made.run(15)
    return made


def overload(made: Hall, watts: float) -> None:
    """UPS-A1 (30 kW) is metered at `watts`, whatever its loads are capped to."""
    made.toy.changes["ups-a1:total:active_power"] = watts


def offs(made: Hall) -> list[Command]:
    return [c for d in made.decisions for c in d.commands if c.point.kind == "power_off"]


def test_nodes_go_off_in_declared_order_until_the_overload_is_gone() -> None:
    made = hall(text())
    # 30 kW · 1.3 would trip in 8 s, sooner than twice the 5 s that shedding takes at least.
    overload(made, 38_500.0)
    decision = made.step()
    sent = [c.point.device for c in decision.commands if c.point.kind == "power_off"]
    # Each node is 0.9 kW and 8 · 400 W · 0.9, half of it on side A: about 1.9 kW; 9.3 kW lack.
    assert sent == sorted(["r01-n1", "r02-n1", "r02-n2"])
    because = decision.commands[-1].because
    assert "ups-a1 trips in 7 s, sooner than caps take load off (5 s)" in because
    assert not made.step().commands or len(offs(made)) == 3
    told = made.raised()["powered_off:hall"]
    assert told.page
    assert "powered off" in told.text
    assert decision.facts["powered_off"] == ["r01-n1", "r02-n1", "r02-n2"]


def test_no_more_nodes_go_off_than_it_takes() -> None:
    # 1.6 kW lack with the accuracy of the meter: one node is enough.
    fine = hall(text().replace("[110 %, 600 s], [125 %, 60 s], [150 %, 8 s]", "[110 %, 8 s]"))
    overload(fine, 31_000.0)
    fine.step()
    assert [c.point.device for c in offs(fine)] == ["r02-n2"]
    # Its caps come down too while it goes off; that is no reason for another one.
    fine.run(10)
    assert [c.point.device for c in offs(fine)] == ["r02-n2"]


@pytest.mark.parametrize("why", ["no order", "not allowed", "observe", "slow", "unmeasured"])
def test_nothing_goes_off_unless_all_is_given(why: str) -> None:
    source = {"no order": text("[]"), "not allowed": text(allowed=False)}.get(why, text())
    made = hall(source)
    if why == "observe":
        made.modes = {"hall": Mode.OBSERVE}
    # At 119 % the band lasts 60 s: caps come in time.
    overload(made, 35_000.0 if why == "slow" else 38_500.0)
    if why == "unmeasured":
        made.step()
        made.decisions.clear()
        made.memory = Hall(Toy(made.site, cap_w=400.0)).memory
        made.toy.changes["ups-a1:total:active_power"] = None
    made.run(3)
    assert offs(made) == []


def test_an_order_that_names_no_node_is_a_fault() -> None:
    wrong: Facility = load_text(text("[r02-n2, r09-n1, r02-n2]")).facility
    faults = [(at, problem) for at, problem, _ in _power_off(wrong)]
    assert faults == [
        (("control", "power_off", 1), "no node 'r09-n1'"),
        (("control", "power_off", 2), "'r02-n2' stands here twice"),
    ]
