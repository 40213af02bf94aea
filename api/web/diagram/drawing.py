"""From a chart and the single-line data to shapes that the template writes as SVG."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final
from urllib.parse import urlencode

from api.web.diagram.chart import Chart, Item, chart_of
from api.web.diagram.layout import centres, ordered
from api.web.wording import power as watts
from facility.config import Power

MARGIN: Final = 16.0
#: Between layers; wires of different origin run sideways in lanes of their own there.
SPACE: Final = 54.0
LANES: Final = 7
BOX: Final = (148.0, 78.0)
GROUP: Final = (110.0, 24.0)
CELL: Final = (46.0, 26.0)
CELLS: Final = 8
HEAD: Final = 20.0
#: An element in a bank, and from one to the next.
TILE: Final = (101.0, 54.0)
PITCH: Final = (106.0, 76.0)
TILES: Final = 6

STATES: Final[Mapping[str, str]] = {
    "failed": "fails",
    "lost": "lost",
    "maintenance": "maintenance",
    "dead": "no supply",
    "dark": "dark",
    "last feed": "on its last feed",
}


@dataclass(frozen=True)
class Bar:
    """A load bar; shares of its width, the limit at 1/1.1 of it."""

    now: float
    worst: float


@dataclass(frozen=True)
class Cell:
    """A rack or another load in a block."""

    x: float
    y: float
    name: str
    state: str
    title: str


@dataclass(frozen=True)
class Box:
    """One item; x, y are its top left corner.

    Attributes:
        look: class of the box: `up`, `over`, `thin`, `dead`, `failed`, `maintenance`, `group`.
        lines: what stands in it, below its name.
        link: where a click leads; None where it leads nowhere.
        focus, below: address of the part around it and what is hidden there; None and "" where
            nothing is.
    """

    x: float
    y: float
    width: float
    height: float
    name: str
    kind: str
    look: str
    lines: tuple[str, ...]
    title: str
    link: str | None
    focus: str | None = None
    below: str = ""
    bar: Bar | None = None
    cells: tuple[Cell, ...] = ()


@dataclass(frozen=True)
class Wire:
    """A way of power, from the bottom of a box to the top of another."""

    path: str
    alive: bool


@dataclass(frozen=True)
class Drawing:
    """Everything to write; width and height in SVG units."""

    width: float
    height: float
    boxes: tuple[Box, ...]
    wires: tuple[Wire, ...]


def draw(power: Power, data: Mapping[str, Any], focus: str | None = None) -> Drawing:
    """The diagram of the plant.

    Args:
        power: the declared topology.
        data: what `controllers.single_line` answered.
        focus: an element; only what is above and below it is drawn.
    """
    chart = chart_of(power, focus)
    size = {key: _size(item) for key, item in chart.items.items()}
    rows = ordered(chart)
    middle = centres(chart, rows, {key: width for key, (width, _) in size.items()})
    top: dict[str, float] = {}
    y = MARGIN
    for row in rows:
        top |= dict.fromkeys(row, y)
        y += max(size[key][1] for key in row) + SPACE
    boxes = _Boxes(power, data, focus, chart)
    placed = tuple(
        box
        for key, item in chart.items.items()
        if item.sort != "bend"
        for box in boxes.of(item, MARGIN + middle[key] - size[key][0] / 2.0, top[key], *size[key])
    )
    lane = _lanes(chart, rows)
    wires = tuple(
        Wire(
            _elbow(
                MARGIN + middle[parent],
                top[parent] + size[parent][1],
                MARGIN + middle[key] + _spread(item, i, size[key][0]),
                top[key],
                lane[parent],
            ),
            boxes.carries(chart.items[parent].origin),
        )
        for key, item in chart.items.items()
        for i, parent in enumerate(sorted(item.parents, key=middle.__getitem__))
    )
    right = max((box.x + box.width for box in placed), default=0.0)
    bottom = max((box.y + box.height for box in placed), default=0.0)
    return Drawing(right + MARGIN, bottom + MARGIN, placed, wires)


def _size(item: Item) -> tuple[float, float]:
    if item.sort == "element":
        return BOX
    if item.sort == "group":
        return GROUP
    if item.sort == "bend":
        return (2.0, 0.0)
    count = len(item.members)
    if item.sort == "bank":
        across = min(count, TILES)
        return max(BOX[0], across * PITCH[0] + 8.0), HEAD + -(-count // TILES) * PITCH[1] + 4.0
    across = _across(count)
    down = -(-count // across)
    return max(BOX[0], across * CELL[0] + 12.0), HEAD + down * CELL[1] + 8.0


def _across(count: int) -> int:
    """Cells side by side: about half as many rows, so that blocks stay narrow."""
    return min(count, max(4, min(CELLS, math.ceil(math.sqrt(2.0 * count)))))


def _spread(item: Item, i: int, width: float) -> float:
    """Where the i-th wire from the left arrives, from the middle of the box: side by side."""
    count = len(item.parents)
    return 0.0 if count < 2 else (i / (count - 1) - 0.5) * min(width / 2.0, 24.0 * count)


def _lanes(chart: Chart, rows: Sequence[Sequence[str]]) -> dict[str, float]:
    """Key -> how far above the next layer its wires run sideways, from 0 to 1.

    Wires that crossed in one lane would look joined.
    """
    below = chart.children()
    lane: dict[str, float] = {}
    for row in rows:
        wide = [key for key in row if below[key]]
        count = min(len(wide), LANES)
        lane |= {key: (1 + i % count) / (count + 1) for i, key in enumerate(wide)}
    return lane


def _elbow(x0: float, y0: float, x1: float, y1: float, lane: float) -> str:
    turn = y1 - lane * SPACE
    return f"M{x0:.1f} {y0:.1f}V{turn:.1f}H{x1:.1f}V{y1:.1f}"


class _Boxes:
    """Makes boxes of one answer."""

    def __init__(
        self, power: Power, data: Mapping[str, Any], focus: str | None, chart: Chart
    ) -> None:
        self.power, self.focus, self.chart = power, focus, chart
        self.fail: Sequence[str] = data["fail"]
        self.elements = {row["element"]: row for row in data["elements"]}
        self.racks = {row["rack"]: row for row in data["racks"]}
        self.loads = {row["load"]: row for row in data["loads"]}

    def carries(self, key: str) -> bool:
        """Whether power comes from an element or group."""
        row = self.elements.get(key)
        if row is not None:
            return bool(row["state"] == "up")
        group = self.power.groups[key]
        needs = len(group.members) if group.needs is None else group.needs
        return sum(self.carries(member) for member in group.members) >= needs

    def of(self, item: Item, x: float, y: float, width: float, height: float) -> Iterator[Box]:
        """The boxes of one item; a bank's frame first, then what stands in it."""
        if item.sort == "element":
            yield self._element(item.key, x, y, width, height)
        elif item.sort == "group":
            yield self._group(item.key, x, y, width, height)
        elif item.sort == "bank":
            yield from self._bank(item, x, y, width, height)
        else:
            yield self._block(item, x, y, width, height)

    def _bank(self, item: Item, x: float, y: float, width: float, height: float) -> Iterator[Box]:
        kinds = ", ".join(dict.fromkeys(self.elements[name]["kind"] for name in item.members))
        total = watts(sum(self.elements[name]["load_w"] or 0.0 for name in item.members))
        name = f"{len(item.members)} × {kinds}, {total}"
        yield Box(x, y, width, height, name, item.sort, "block", (), name, None)
        for i, member in enumerate(item.members):
            column, row = i % TILES, i // TILES
            left, top = x + 6.0 + column * PITCH[0], y + HEAD + 4.0 + row * PITCH[1]
            tile = self._element(member, left, top, *TILE)
            below = f"+ {sum(self.chart.hidden[member])} below" if tile.below else ""
            yield replace(tile, lines=tile.lines[-1:], below=below)

    def _element(self, name: str, x: float, y: float, width: float, height: float) -> Box:
        row = self.elements[name]
        state, limit_w, load_w = row["state"], row["limit_w"], row["load_w"]
        lines = [STATES[state]] if state != "up" else [_of(load_w, limit_w)]
        look = state
        if state == "up":
            left_w = row["headroom_w"]
            over = limit_w is not None and load_w > limit_w
            look = "over" if over else "thin" if left_w is not None and left_w < 0.0 else "up"
            if row["seconds_to_trip"] is not None:
                lines.append(f"trips in {int(row['seconds_to_trip'])} s")
            elif left_w is not None:
                word = "room" if left_w >= 0.0 else "lacks"
                lines.append(f"{word} {watts(abs(left_w))}")
        bar = None
        if state == "up" and limit_w:
            bar = Bar(_share(load_w, limit_w), _share(row["worst_w"] or 0.0, limit_w))
        return Box(
            x,
            y,
            width,
            height,
            name,
            row["kind"],
            look,
            tuple(lines),
            self._title(row),
            self._link(name),
            *self._focus(name),
            bar=bar,
        )

    def _title(self, row: Mapping[str, Any]) -> str:
        words = [f"{row['element']}, {row['kind']}: {STATES.get(row['state'], 'carries power')}"]
        if row["state"] == "up":
            words.append(f"load {_of(row['load_w'], row['limit_w'])}")
            if row["worst_case"] is not None:
                words.append(f"worst {watts(row['worst_w'])}, {row['worst_case']}")
            if row["moved_w"]:
                words.append(f"{'+' if row['moved_w'] > 0 else ''}{watts(row['moved_w'])} by this")
        return "; ".join(words)

    def _group(self, name: str, x: float, y: float, width: float, height: float) -> Box:
        group = self.power.groups[name]
        needs = len(group.members) if group.needs is None else group.needs
        alive = sum(self.carries(member) for member in group.members)
        look = "group" if alive >= needs else "dead"
        title = f"{name}: {alive} of {len(group.members)} alive, {needs} needed"
        return Box(x, y, width, height, name, "bus", look, (), title, None)

    def _block(self, item: Item, x: float, y: float, width: float, height: float) -> Box:
        rows = self.racks if item.sort == "racks" else self.loads
        across, cells = _across(len(item.members)), []
        for i, name in enumerate(item.members):
            row = rows[name]
            state = row["state"]
            said = "" if state == "up" else f", {STATES[state]}"
            cells.append(
                Cell(
                    x + 6.0 + (i % across) * CELL[0],
                    y + HEAD + (i // across) * CELL[1],
                    name,
                    state.replace(" ", "-"),
                    f"{name}: {watts(row['load_w'])}{said}",
                )
            )
        total = watts(sum(rows[name]["load_w"] for name in item.members))
        count = len(item.members)
        word = item.sort[:-1] if count == 1 else item.sort
        name = f"{count} {word}, {total}"
        return Box(
            x, y, width, height, name, item.sort, "block", (), name, None, cells=tuple(cells)
        )

    def _link(self, name: str) -> str:
        """Fail one more; a failed one is put back."""
        fail = [each for each in self.fail if each != name]
        if name not in self.fail:
            fail.append(name)
        query = [("fail", each) for each in fail]
        if self.focus is not None:
            query.append(("focus", self.focus))
        return "/single-line" + (f"?{urlencode(query)}" if query else "")

    def _focus(self, name: str) -> tuple[str | None, str]:
        if name not in self.chart.hidden:
            return None, ""
        elements, racks = self.chart.hidden[name]
        query = [("fail", each) for each in self.fail]
        address = f"/single-line?{urlencode([*query, ('focus', name)])}"
        return address, f"+ {elements} elements, {racks} loads"


def _share(value_w: float, limit_w: float) -> float:
    return min(value_w / limit_w, 1.1) / 1.1


def _of(load_w: float | None, limit_w: float | None) -> str:
    return watts(load_w) + ("" if limit_w is None else f" of {watts(limit_w)}")
