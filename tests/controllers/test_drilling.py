"""A drill lowers what a loss would demand, is kept out when something is wrong, and ends."""

from __future__ import annotations

import numpy as np
import pytest

from controllers.cycle.state import CycleInput
from controllers.drilling import Shedable, shedable
from facility.commands import Mode
from facility.drills import Shed
from tests.controllers.rig import Hall
from tests.controllers.toy import Toy, site_of, small_hall


def at_work() -> Hall:
    h = Hall(Toy(site_of(small_hall()), cap_w=300.0))
    h.run(40)
    return h


def asked(h: Hall, element: str = "row-b") -> Shedable:
    return shedable(h.site, h.memory, h.inputs(), element)


def shed(h: Hall, found: Shedable, seconds: float = 30.0) -> Shed:
    return Shed("d1", "row-b", found.caps_w, h.toy.now_s + seconds)


def test_every_cap_below_the_element_falls_by_a_tenth_at_least_and_not_below_its_floor() -> None:
    h = at_work()
    found = asked(h)
    assert found.because == ""
    caps = found.caps(h.site)
    assert set(caps) == set(h.site.nodes)
    assert all(250.0 <= after <= 0.9 * before for before, after in caps.values())
    assert found.cleared_w > 4 * 8 * 0.09 * 480.0
    assert not np.isnan(found.allowed_w).any()


def test_a_drill_is_obeyed_in_the_next_cycle_and_afterwards_caps_come_back() -> None:
    h = at_work()
    before = dict(h.toy.caps)
    found = asked(h)
    h.shed = shed(h, found)
    decision = h.step()
    assert len(decision.commands) == len(h.site.nodes)
    assert all(c.because.startswith("drill") or "drill" in c.because for c in decision.commands)
    h.run(4)
    want = {node: after for node, (_, after) in found.caps(h.site).items()}
    assert h.toy.caps == want
    h.run(10)
    assert h.toy.caps == want
    h.shed = None
    h.run(30)
    assert all(h.toy.caps[node] >= 0.99 * watts for node, watts in before.items())


def test_a_drill_that_nobody_ended_ends_by_itself() -> None:
    h = at_work()
    before = dict(h.toy.caps)
    h.shed = shed(h, asked(h), seconds=5.0)
    h.run(40)
    assert all(h.toy.caps[node] >= 0.99 * watts for node, watts in before.items())


def test_protection_goes_below_what_a_drill_wants() -> None:
    h = at_work()
    h.shed = shed(h, asked(h))
    h.run(3)
    h.toy.flow_share = 0.0
    h.run(4)
    assert set(h.toy.caps.values()) == {200.0}


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda h: h.toy.broken.add("r01-n1"), "r01-n1 does not answer"),
        (lambda h: h.toy.broken.update({"pdu-r01-a", "pdu-r01-b"}), "blind"),
        (lambda h: setattr(h, "modes", {"hall": Mode.OBSERVE}), "not in auto"),
        (lambda h: setattr(h, "epoch", None), "no lease"),
        (lambda h: h.toy.dead_feeds.add("b"), "lost"),
    ],
)
def test_it_is_refused_while_something_is_wrong(spoil: object, words: str) -> None:
    h = at_work()
    spoil(h)  # type: ignore[operator]
    for _ in range(3):
        h.step()
    assert words in asked(h).because


def test_nothing_can_be_drilled_when_all_caps_are_at_their_floors() -> None:
    h = Hall(Toy(site_of(small_hall()), cap_w=250.0))
    h.solving = False
    h.run(10)
    assert "floors" in asked(h).because


def test_a_recorded_cycle_keeps_the_drill() -> None:
    h = at_work()
    h.shed = shed(h, asked(h))
    inputs = h.inputs()
    again = CycleInput.from_json(inputs.to_json(), inputs.snapshot)
    assert again.shed is not None
    assert h.shed is not None
    np.testing.assert_array_equal(again.shed.caps_w, h.shed.caps_w)
    assert again.shed.until_s == h.shed.until_s
