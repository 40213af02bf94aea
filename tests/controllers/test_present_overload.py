"""An overload of the plant as it is goes below floors, down to min_cap, lowest class first."""

from __future__ import annotations

import pytest

from tests.controllers.rig import Hall
from tests.controllers.toy import Toy, site_of, small_hall

#: r01 of class low and r02 of class high, and r03 that nobody caps.
TEXT = (
    small_hall()
    .replace("  loads:\n", "    r03: {feeds: {a: row-a, b: row-b}, rating: 9 kW}\n  loads:\n", 1)
    .replace("pdu-r[01-02]-[a,b]", "pdu-r[01-03]-[a,b]")
    .replace("    floor: 250 W,", "    priority: PRIORITY, floor: 250 W,")
)
FACTOR = 1.05 / 0.96


def hall() -> Hall:
    """At the floors, 250 W, with r03 at 9 kW; boards draw little, so that caps count, not peaks."""
    start = TEXT.index("  r[01-02]-n[1-2]: {")
    end = TEXT.index("cooling:\n", start)
    nodes = TEXT[start:end]
    both = "".join(
        nodes.replace("r[01-02]-n", f"{rack}-n")
        .replace('"r{1}"', rack)
        .replace("PRIORITY", priority)
        for rack, priority in (("r01", "low"), ("r02", "high"))
    )
    made = Hall(Toy(site_of(TEXT[:start] + both + TEXT[end:]), cap_w=250.0, share=0.6))
    draws(made, 9000.0)
    made.run(15)
    made.toy.caps = dict.fromkeys(made.site.nodes, 250.0)
    return made


def draws(made: Hall, watts: float) -> None:
    for side in "ab":
        made.toy.changes[f"pdu-r03-{side}:total:active_power"] = watts / 2.0


def rack_w(cap_w: float) -> float:
    return 500.0 + 2 * (900.0 + FACTOR * 8 * cap_w)


@pytest.mark.parametrize(
    ("over_w", "low_w", "high_w"),
    [
        # What is left for r01 and r02 on two rows of 24 kW, less 65 % of 1 kW of CDUs on each.
        (rack_w(250.0) + rack_w(250.0), 250.0, 250.0),
        (rack_w(220.0) + rack_w(250.0), 220.0, 250.0),
        (rack_w(200.0) + rack_w(230.0), 200.0, 230.0),
        (rack_w(200.0) + rack_w(200.0) - 900.0, 200.0, 200.0),
    ],
)
def test_a_present_overload_takes_the_lowest_class_to_its_minimum_first(
    over_w: float, low_w: float, high_w: float
) -> None:
    made = hall()
    draws(made, (2 * (24_000.0 - 650.0) - over_w) / 1.02)
    made.run(12)
    caps = made.toy.caps
    assert [caps["r01-n1"], caps["r01-n2"]] == pytest.approx([low_w] * 2, abs=1.0)
    assert [caps["r02-n1"], caps["r02-n2"]] == pytest.approx([high_w] * 2, abs=1.0)
    # Never above what fits: nothing is rounded up.
    fits = max(over_w, 2 * rack_w(200.0))
    assert rack_w(caps["r01-n1"]) + rack_w(caps["r02-n1"]) <= fits + 1e-6
    assert any(key.startswith("allocation_infeasible") for key in made.raised())


def test_what_only_a_further_loss_would_overload_leaves_the_floors_alone() -> None:
    made = hall()
    # With both rows alive 40 kW fit; with one of them the floors do not.
    draws(made, 25_000.0)
    made.run(12)
    assert set(made.toy.caps.values()) == {250.0}
    assert any(key.startswith("redundancy_lost:") for key in made.raised())
