from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from api.web.diagram import draw
from api.web.diagram.chart import Chart, Item, chart_of
from api.web.diagram.layout import GAP, centres, ordered
from controllers.headroom import study
from controllers.single_line import compose
from facility.config import Power
from facility.loading import load, load_text
from facility.topology import Topology
from tests.bench.hall import FULL, hall_text
from tests.conftest import ROOT

DEMO = load(str(ROOT / "facility" / "demo.yaml")).power

SWITCHED = """facility: 1
site: {name: x, timezone: UTC}
power:
  elements:
    u1: {kind: source}
    u2: {kind: source}
    ups: {kind: ups, fed_by: [u1]}
    pdu: {kind: pdu, fed_by: [ups]}
    sts: {kind: switch, transfer: {normal: pdu, alternate: u2}}
  racks: {r1: {feeds: {a: sts}, rating: 1 kW}}
"""


def big_hall(rows: int) -> str:
    return (
        "facility: 1\nsite: {name: x, timezone: UTC}\npower:\n  elements:\n"
        "    u: {kind: source}\n    pdu-[1-4]: {kind: pdu, fed_by: [u]}\n"
        + "".join(f"    row{i}: {{kind: busway, fed_by: [pdu-{1 + i % 4}]}}\n" for i in range(rows))
        + "  racks:\n"
        + "".join(f"    r{i}: {{feeds: {{a: row{i}}}, rating: 1 kW}}\n" for i in range(rows))
    )


def test_everything_hangs_below_what_feeds_it() -> None:
    chart = chart_of(DEMO)
    for key, item in chart.items.items():
        assert all(chart.layer[parent] == chart.layer[key] - 1 for parent in item.parents)
    racks = [item.members for item in chart.items.values() if item.sort == "racks"]
    assert racks == [("r01", "r02", "r03", "r04"), ("r05", "r06", "r07", "r08")]


def test_a_wire_past_a_layer_bends_there_instead_of_crossing_a_box() -> None:
    chart = chart_of(load_text(SWITCHED).facility.power)
    bends = [item for item in chart.items.values() if item.sort == "bend"]
    assert [(bend.origin, chart.layer[bend.key]) for bend in bends] == [("u2", 1), ("u2", 2)]


def test_a_layer_too_wide_for_a_screen_stands_in_banks_and_is_the_last() -> None:
    power = load_text(big_hall(65)).facility.power
    chart = chart_of(power)
    banks = {item.key: item for item in chart.items.values() if item.sort == "bank"}
    assert set(chart.items) == {"u", *(f"pdu-{i}" for i in range(1, 5)), *banks}
    assert sorted(name for bank in banks.values() for name in bank.members) == sorted(
        f"row{i}" for i in range(65)
    )
    assert {bank.parents for bank in banks.values()} == {(f"pdu-{i}",) for i in range(1, 5)}
    assert chart.hidden == {f"row{i}": (0, 1) for i in range(65)}
    part = chart_of(power, "row7")
    shown = {key for key, item in part.items.items() if item.sort == "element"}
    assert shown == {"u", "pdu-4", "row7"}
    assert part.hidden == {"pdu-4": (15, 15), "u": (67, 64)}


@pytest.fixture(scope="module")
def full() -> tuple[Power, dict[str, Any]]:
    """A thousand racks on 200 busways, 48 PDUs and 8 UPSs, and what there is to say of them."""
    facility = load_text(hall_text(replace(FULL, nodes=1))).facility
    power, topology = facility.power, Topology.of(facility.power)
    answer = study(topology, topology.nameplate_w)
    never = np.full(len(topology.elements), np.inf)
    loops = facility.cooling.loops
    return power, compose(answer, answer, fail=(), lost=(), left_s=never, loops=loops, caps=None)


@pytest.mark.parametrize("focus", [None, "utility-1", "ups-a1", "pdu-a01", "row001-a"])
def test_a_hall_of_200_busways_fits_on_a_screen_and_hides_nothing_for_good(
    full: tuple[Power, dict[str, Any]], focus: str | None
) -> None:
    """It was 8,366 wide, and 44,164 around a UPS: the first screen was empty."""
    drawing = draw(*full, focus)
    assert drawing.width <= 1_900.0
    assert drawing.height <= 1_400.0
    names = {box.name for box in drawing.boxes}
    assert {f"ups-{side}{i}" for side in "ab" for i in range(1, 5)} <= names
    assert focus is None or focus in names
    if focus is None:
        assert sum(name.startswith("pdu-") for name in names) == 48
        assert {box.name for box in drawing.boxes if box.focus} == {
            name for name in names if name.startswith("pdu-")
        }
    for one, other in itertools.combinations((b for b in drawing.boxes if b.link), 2):
        apart_x = abs(one.x - other.x) >= min(one.width, other.width)
        assert apart_x or abs(one.y - other.y) >= min(one.height, other.height)


@st.composite
def charts(draw: st.DrawFn) -> Chart:
    counts = draw(st.lists(st.integers(1, 5), min_size=1, max_size=5))
    rows = [[f"n{i}.{j}" for j in range(count)] for i, count in enumerate(counts)]
    items, layer = {}, {}
    for i, row in enumerate(rows):
        for key in row:
            above = draw(st.sets(st.sampled_from(rows[i - 1]), min_size=1)) if i else set()
            items[key] = Item(key, "element", (), tuple(sorted(above)), key)
            layer[key] = i
    return Chart(items, layer)


@settings(max_examples=60)
@given(charts(), st.data())
def test_boxes_of_a_layer_never_overlap_and_none_is_lost(chart: Chart, data: st.DataObject) -> None:
    width = {key: data.draw(st.floats(1.0, 200.0)) for key in chart.items}
    rows = ordered(chart)
    assert sorted(itertools.chain(*rows)) == sorted(chart.items)
    x = centres(chart, rows, width)
    for row in rows:
        for left, right in itertools.pairwise(row):
            gap = (x[right] - width[right] / 2) - (x[left] + width[left] / 2)
            assert gap >= GAP - 1e-6
    assert min(x[key] - width[key] / 2 for key in x) == pytest.approx(0.0, abs=1e-6)


def test_the_order_has_no_crossing_where_there_need_be_none() -> None:
    rows = {"a": 0, "b": 0, "a1": 1, "b1": 1, "a2": 1}
    above = {"a1": ("a",), "b1": ("b",), "a2": ("a",)}
    items = {key: Item(key, "element", (), above.get(key, ()), key) for key in rows}
    assert ordered(Chart(items, rows)) == [["a", "b"], ["a1", "a2", "b1"]]
