"""What stands in the diagram: elements, groups, and blocks of racks and loads with equal feeds.

A layer that is too wide for a screen is the last one drawn, and its elements stand in banks: those
with equal parents side by side and in rows. What hangs on one of them is drawn when asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from facility.config import LoadBase, Power
from facility.topology import parents_of

#: More elements side by side than this no screen shows.
WIDEST = 12


@dataclass(frozen=True)
class Item:
    """One thing to draw.

    Attributes:
        key: unique; an element or group name, or `racks:…` of a block, `bank:…` of a bank.
        members: of a block or bank, what is in it; of anything else empty.
        parents: keys above it, in order.
        origin: of a bend, where its wire comes from; of anything else the key.
    """

    key: str
    sort: Literal["element", "group", "racks", "loads", "bank", "bend"]
    members: tuple[str, ...]
    parents: tuple[str, ...]
    origin: str


@dataclass(frozen=True)
class Chart:
    """Items with their layers, sources in layer 0.

    Attributes:
        layer: key -> how many steps below the sources it hangs, by its longest way.
        hidden: element of which something right below is not drawn -> how many elements and racks
            below it are not.
    """

    items: Mapping[str, Item]
    layer: Mapping[str, int]
    hidden: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def layers(self) -> list[list[str]]:
        """Keys by layer, in the order of the file."""
        rows: list[list[str]] = [[] for _ in range(max(self.layer.values(), default=-1) + 1)]
        for key in self.items:
            rows[self.layer[key]].append(key)
        return rows

    def children(self) -> dict[str, list[str]]:
        """Key -> keys right below it."""
        below: dict[str, list[str]] = {key: [] for key in self.items}
        for item in self.items.values():
            for parent in item.parents:
                below[parent].append(item.key)
        return below


def chart_of(power: Power, focus: str | None = None) -> Chart:
    """The chart of a plant.

    Args:
        power: a power section without faults.
        focus: only what this element hangs on, and what hangs on it; None: everything that fits.
    """
    whole = _whole(power)
    kept = _around(whole, focus) if focus is not None else set(whole.items)
    return _part(whole, _upper(whole, kept))


def _whole(power: Power) -> Chart:
    above = parents_of(power)
    items = {
        name: Item(name, "group" if name in power.groups else "element", (), above[name], name)
        for name in (*power.elements, *power.groups)
    }
    for item in (*_blocks("racks", power.racks), *_blocks("loads", power.loads)):
        items[item.key] = item
    layer: dict[str, int] = {}

    def depth(key: str) -> int:
        if key not in layer:
            layer[key] = 1 + max((depth(parent) for parent in items[key].parents), default=-1)
        return layer[key]

    for key in items:
        depth(key)
    return Chart(items, layer)


def _blocks(sort: Literal["racks", "loads"], loads: Mapping[str, LoadBase]) -> Iterable[Item]:
    by_feeds: dict[tuple[str, ...], list[str]] = {}
    for name, load in loads.items():
        by_feeds.setdefault(tuple(dict.fromkeys(load.feeds.values())), []).append(name)
    for feeds, members in by_feeds.items():
        key = f"{sort}:{members[0]}"
        yield Item(key, sort, tuple(members), feeds, key)


def _around(chart: Chart, focus: str) -> set[str]:
    """The keys above and below one element, itself included."""
    below, kept = chart.children(), {focus}
    stack = [focus]
    while stack:
        for key in below[stack.pop()]:
            if key not in kept:
                kept.add(key)
                stack.append(key)
    return _with_parents(chart, kept)


def _with_parents(chart: Chart, kept: set[str]) -> set[str]:
    stack = list(kept)
    while stack:
        for key in chart.items[stack.pop()].parents:
            if key not in kept:
                kept.add(key)
                stack.append(key)
    return kept


def _upper(chart: Chart, wanted: set[str]) -> set[str]:
    """Of the wanted keys those of as many layers, from the top, as a screen can show."""
    kept: set[str] = set()
    for row in chart.layers:
        mine = wanted.intersection(row)
        kept |= mine
        if sum(chart.items[key].sort == "element" for key in mine) > WIDEST:
            break
    return kept


def _part(whole: Chart, kept: set[str]) -> Chart:
    below = whole.children()
    hidden: dict[str, tuple[int, int]] = {}
    for key in kept:
        if kept.issuperset(below[key]):
            continue
        gone = _below(below, key) - kept
        elements = sum(whole.items[each].sort == "element" for each in gone)
        racks = sum(len(whole.items[each].members) for each in gone)
        hidden[key] = (elements, racks)
    items = {key: item for key, item in whole.items.items() if key in kept}
    chart = Chart(items, {key: whole.layer[key] for key in items}, hidden)
    return _bent(_banked(chart))


def _banked(chart: Chart) -> Chart:
    """The same chart with the elements of its last layer in banks, if they are too many."""
    last = chart.layers[-1] if chart.layers else []
    wide = [key for key in last if chart.items[key].sort == "element"]
    if len(wide) <= WIDEST:
        return chart
    banks: dict[tuple[str, ...], list[str]] = {}
    for key in wide:
        banks.setdefault(chart.items[key].parents, []).append(key)
    items = {key: item for key, item in chart.items.items() if key not in wide}
    for parents, members in banks.items():
        key = f"bank:{members[0]}"
        items[key] = Item(key, "bank", tuple(members), parents, key)
    layer = {
        key: chart.layer[item.members[0] if item.sort == "bank" else key]
        for key, item in items.items()
    }
    return Chart(items, layer, chart.hidden)


def _bent(chart: Chart) -> Chart:
    """The same chart with a bend in every layer that a wire passes, so that it runs past boxes."""
    items, layer = dict(chart.items), dict(chart.layer)
    for item in chart.items.values():
        above = []
        for parent in item.parents:
            last = parent
            for row in range(layer[parent] + 1, layer[item.key]):
                bend = f"bend:{parent}>{item.key}:{row}"
                items[bend] = Item(bend, "bend", (), (last,), parent)
                layer[bend] = row
                last = bend
            above.append(last)
        items[item.key] = replace(item, parents=tuple(above))
    return Chart(items, layer, chart.hidden)


def _below(children: Mapping[str, list[str]], key: str) -> set[str]:
    seen: set[str] = set()
    stack = [key]
    while stack:
        for child in children[stack.pop()]:
            if child not in seen:
                seen.add(child)
                stack.append(child)
    return seen
