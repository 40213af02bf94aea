from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from api.web.diagram.chart import MOST_ELEMENTS, Chart, Item, chart_of
from api.web.diagram.layout import GAP, centres, ordered
from facility.loading import load, load_text
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


def test_a_hall_too_big_for_a_screen_shows_its_upper_part_and_what_is_hidden() -> None:
    power = load_text(big_hall(MOST_ELEMENTS + 1)).facility.power
    chart = chart_of(power)
    assert set(chart.items) == {"u", *(f"pdu-{i}" for i in range(1, 5))}
    assert chart.hidden["u"] == (MOST_ELEMENTS + 1, MOST_ELEMENTS + 1)
    part = chart_of(power, "row7")
    shown = {key for key, item in part.items.items() if item.sort == "element"}
    assert shown == {"u", "pdu-4", "row7"}


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
