"""The last and the next action, as an operator reads them at night."""

from __future__ import annotations

import re

import numpy as np
import pytest

from controllers.cycle.deeds import spans
from controllers.cycle.wanted import Reasons
from facility.commands import Mode, Override
from facility.points import PointId
from tests.controllers.rig import Hall
from tests.controllers.toy import Toy, site_of, small_hall

POINT_NAME = re.compile(r"\S+:\S+:\S+")


def hall(**plant: object) -> Hall:
    return Hall(Toy(site_of(small_hall()), **plant))  # type: ignore[arg-type]


def texts(h: Hall, which: str) -> list[str]:
    found: list[str] = []
    for decision in h.decisions:
        text = str(decision.facts[which]["text"])
        if not found or found[-1] != text:
            found.append(text)
    return found


def test_no_raw_point_name_in_the_last_or_next_action() -> None:
    h = hall(cap_w=300.0)
    h.run(90)
    for which in ("last", "next"):
        for text in texts(h, which):
            assert not POINT_NAME.search(text), text
            assert text.endswith("."), text


def test_raised_caps_are_counted_and_placed_with_the_binding_element() -> None:
    h = hall(cap_w=300.0)
    h.run(30)
    raised = [t for t in texts(h, "last") if t.startswith("Raised the GPU caps of")]
    assert raised
    assert any(re.search(r"nodes in r01(-r02)? to \d+(-\d+)? W: ", t) for t in raised), raised


def test_lowered_caps_say_so() -> None:
    h = hall(cap_w=700.0)
    h.solving = False
    text = str(h.step().facts["last"]["text"])
    assert text.startswith("Lowered the GPU caps of "), text
    assert "water-filling" not in text


def test_an_override_is_told_by_name_and_reason() -> None:
    h = hall(cap_w=300.0)
    h.run(30)
    node = h.site.nodes[0]
    now_ms = h.toy.now_ms
    lease = Override(
        "o1", PointId(node, "total", "power_cap"), 350.0, "kim", "hot job", now_ms, now_ms + 600_000
    )
    h.overrides = (lease,)
    h.run(5)
    told = [t for t in texts(h, "last") if "kim: hot job" in t]
    assert told
    assert told[-1] == f"Lowered the GPU caps of {node} to 350 W: kim: hot job."


def test_the_next_move_of_a_supply_temperature_has_its_value_and_its_time() -> None:
    h = hall(cap_w=300.0)
    h.run(90)
    moving = [t for t in texts(h, "next") if t.startswith("Supply temperature of ")]
    assert moving
    shape = re.compile(r"Supply temperature of \S+ (rises|falls) to \d+\.\d °C in \d+ s \(towards ")
    assert all(shape.match(t) for t in moving), moving
    told = [d for d in h.decisions if d.facts["next"]["text"].startswith("Supply temperature")]
    assert all(d.facts["next"]["at_ms"] > d.now_ms for d in told)


def test_the_move_that_was_announced_is_the_move_that_comes() -> None:
    h = hall(cap_w=300.0)
    h.run(700)
    announced: float | None = None
    moves = 0
    for decision in h.decisions:
        written = [
            c.value
            for c in decision.commands
            if c.point.kind == "supply_setpoint" and "forgets" not in c.because
        ]
        if written and announced is not None:
            assert written[0] == pytest.approx(announced, abs=0.11)
            moves += 1
        found = re.search(r"(?:rises|falls) to (\d+\.\d)", decision.facts["next"]["text"])
        announced = float(found.group(1)) if found else None
    assert moves >= 1


def test_what_observe_withholds_is_told_in_words() -> None:
    h = hall(cap_w=300.0)
    h.modes = {"hall": Mode.OBSERVE}
    h.run(10)
    text = str(h.decisions[-1].facts["next"]["text"])
    assert text.startswith("Would raise the GPU caps of "), text
    assert "Withheld: " in text


def test_neighbouring_racks_are_one_span_and_long_lists_are_counted() -> None:
    every = [f"r{i:02d}" for i in range(1, 13)]
    assert spans(["r01", "r02", "r03", "r04", "r07"], every) == "r01-r04, r07"
    assert spans(every, every) == "r01-r12"
    assert spans(every[::2], every) == "r01, r03, r05 and 3 more racks"


def test_a_reason_is_told_without_its_source() -> None:
    hit, limit_w = np.array([False, False, True]), np.array([700.0, 700.0, 420.0])
    because = {"n0": "row1-b after loss of pdu-a"}
    reasons = Reasons(("n0", "n1", "n2"), "plan", because, hit, limit_w, "", {1: "a leak"})
    assert reasons[0] == "plan: row1-b after loss of pdu-a"
    assert reasons.bare(0) == "row1-b after loss of pdu-a"
    assert reasons.bare(1) == reasons[1] == "a leak"
    assert reasons.bare(2) == reasons[2] == "cooling allows 420 W"
