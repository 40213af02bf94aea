"""Meters that lie, nodes that forget, elements that flap: no reading that worsens makes room."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from facility.commands import Decision
from tests.conftest import ROOT
from tests.controllers.rig import Hall
from tests.controllers.toy import Toy, site_of, small_hall

DEMO = (ROOT / "facility" / "demo.yaml").read_text(encoding="utf-8")
METERS = [f"pdu-r0{rack}-{side}:total:active_power" for rack in (1, 2) for side in "ab"]
UPSES = [f"ups-{side}1:total:active_power" for side in "ab"]


def hall(cap_w: float = 300.0, text: str | None = None) -> Hall:
    made = Hall(Toy(site_of(text or small_hall()), cap_w=cap_w))
    made.run(15)
    made.decisions.clear()
    return made


def in_force(made: Hall, node: str = "r01-n1") -> float:
    return float(made.decisions[-1].facts["allocation"]["nodes"][node]["cap_w"])


def raises(decisions: list[Decision]) -> list[str]:
    """Caps that went up."""
    commands = [c for d in decisions for c in d.commands if c.point.kind == "power_cap"]
    return [str(c.point) for c in commands if c.raises]


def test_a_node_that_fell_silent_and_draws_too_much_is_not_calm_every_other_second() -> None:
    made = hall()
    made.toy.broken.add("r01-n1")
    # It came up again without its cap: the rack draws more than the last known caps allow.
    for side in "ab":
        made.toy.changes[f"pdu-r01-{side}:total:active_power"] = 7000.0
    made.run(62)
    seen = set()
    for _ in range(10):
        made.step()
        seen.add(in_force(made))
    assert seen == {700.0}


def test_a_meter_in_doubt_proves_no_silent_node_calm() -> None:
    made = hall()
    made.toy.broken.add("r01-n1")
    made.run(62)
    known = in_force(made)
    assert known < 700.0
    made.toy.doubted |= {"pdu-r01-a:total:active_power"}
    made.run(3)
    assert in_force(made) == 700.0


def test_meters_that_turned_round_are_no_loss() -> None:
    made = hall(text=DEMO, cap_w=350.0)
    for rack in range(1, 9):
        made.toy.changes[f"pdu-r0{rack}-b:total:active_power"] = -3000.0
    made.run(10)
    assert made.decisions[-1].facts["losses"]["lost"] == []
    assert raises(made.decisions) == []


@pytest.mark.parametrize("period", [4, 12])
def test_an_element_that_flaps_is_never_a_reason_to_run_above_n_plus_1(period: int) -> None:
    made = hall(text=DEMO.replace("resecure: 15 min", "resecure: at once"), cap_w=380.0)
    for second in range(60):
        if second // period % 2 == 0:
            made.toy.changes["ups-a1:total:active_power"] = 0.0
            made.toy.changes["ups-a1:total:state"] = 2.0
        else:
            made.toy.changes.pop("ups-a1:total:active_power", None)
            made.toy.changes.pop("ups-a1:total:state", None)
        decision = made.step()
        if raises([decision]):
            # What rises holds N+1 of the plant as it is believed then.
            assert decision.facts["headroom"]["ok"]
            assert decision.facts["losses"]["suspected"] == []


READINGS = st.sampled_from([None, 0.0, -4000.0, 1e3, 9e3, 4e7, math.nan])


@settings(max_examples=5, deadline=None)
@given(
    st.dictionaries(st.sampled_from(METERS + UPSES), READINGS, min_size=1, max_size=4),
    st.sets(st.sampled_from(METERS + UPSES), max_size=3),
    st.sets(st.sampled_from(["r01-n1", "r01-n2", "r02-n1"]), max_size=2),
    st.integers(2, 12),
)
def test_whatever_the_meters_say_the_caps_in_force_hold_every_limit_of_the_plant(
    lies: dict[str, float | None], doubted: set[str], broken: set[str], seconds: int
) -> None:
    """By the truth of the toy: what caps allow its racks to draw fits each row, also alone."""
    made = hall()
    made.toy.changes |= lies
    made.toy.doubted |= doubted
    made.toy.broken |= broken
    made.run(seconds)
    before = {node: made.toy.caps[node] for node in made.site.nodes}
    made.toy.changes.clear()
    made.toy.doubted.clear()
    made.toy.broken.clear()
    made.run(seconds)
    for caps in (before, made.toy.caps):
        most_w = sum(
            500.0 + sum(900.0 + 8 * caps[f"{rack}-n{i}"] / 0.96 for i in (1, 2))
            for rack in ("r01", "r02")
        )
        assert most_w + 1000.0 <= 24_000.0
