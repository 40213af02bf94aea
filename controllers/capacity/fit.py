"""Does one more server, or one more rack, fit? Power, cooling, space, weight and liquid ports.

What the file does not state is unknown and said so: it is never free.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from controllers.allocation.heat import heat_rows
from controllers.capacity.room import Phase, Room, like, room_for
from controllers.wording import kilowatts, listed, room_left
from facility import config
from facility.points import FloatArray
from facility.topology import Topology

Verdict = Literal["yes", "no", "unknown"]


@dataclass(frozen=True, slots=True)
class Wish:
    """What somebody would like to add.

    Attributes:
        power_w: most that it will draw.
        phase: of a single-phase server; None for as the rack.
        units, weight_kg, ports: what it takes of the rack; None: not asked.
    """

    power_w: float
    phase: Phase | None = None
    units: int | None = None
    weight_kg: float | None = None
    ports: int | None = None


@dataclass(frozen=True, slots=True)
class Heat:
    """What a loop leaves after its worst loss; `room_w` is of the new load's power."""

    loop: str
    case: str
    room_w: float

    def to_json(self) -> dict[str, Any]:
        """Plain fields."""
        return {"loop": self.loop, "case": self.case, "room_w": self.room_w}


@dataclass(frozen=True, slots=True)
class Thing:
    """Units, weight or ports: how many are asked for, and how many are left (None: unknown)."""

    name: str
    unit: str
    wanted: float
    left: float | None

    def to_json(self) -> dict[str, Any]:
        """Plain fields."""
        return {"what": self.name, "unit": self.unit, "wanted": self.wanted, "left": self.left}


@dataclass(frozen=True, eq=False)
class Fit:
    """The answer.

    Attributes:
        room: with the caps as they are.
        freed: the same with every managed node at its floor; None where no node is managed.
        unknown: what nobody has stated although it was asked.
    """

    what: str
    where: str
    wish: Wish
    room: Room
    freed: Room | None
    heat: tuple[Heat, ...]
    things: tuple[Thing, ...]
    unknown: tuple[str, ...]

    @property
    def room_w(self) -> float:
        """W that fit with the caps as they are, power and cooling together."""
        return min([self.room.room_w, *(max(h.room_w, 0.0) for h in self.heat)])

    @property
    def binding(self) -> tuple[str, str, float] | None:
        """What binds first: (name, case or "", W)."""
        found: list[tuple[str, str, float]] = [
            (b.element + (f" {b.phase}" if b.phase else ""), b.case, b.room_w)
            for b in self.room.bounds[:1]
        ]
        found += [(h.loop, h.case, h.room_w) for h in self.heat]
        return min(found, key=lambda row: row[2]) if found else None

    @property
    def verdict(self) -> Verdict:
        """`unknown`: what is known fits."""
        if self.wish.power_w > self.room_w * (1.0 + 1e-9):
            return "no"
        if any(t.left is not None and t.wanted > t.left for t in self.things):
            return "no"
        return "unknown" if self.unknown or math.isinf(self.room_w) else "yes"

    @property
    def text(self) -> str:
        """A sentence or three."""
        asked = kilowatts(self.wish.power_w)
        lead = {
            "yes": f"{self.where} can take {self.what} of {asked}.",
            "no": f"{self.where} cannot take {self.what} of {asked}.",
            "unknown": f"{self.where} can take {self.what} of {asked} as far as is known.",
        }[self.verdict]
        parts = [lead]
        if self.binding is not None:
            name, case, room_w = self.binding
            when = "now" if case == "normal" else f"after {case}"
            parts.append(f"{name} leaves {room_left(max(room_w, 0.0))} {when}.")
        elif math.isinf(self.room_w):
            parts.append("Nothing on its paths has a rating.")
        for thing in self.things:
            if thing.left is not None and thing.wanted > thing.left:
                parts.append(f"It needs {thing.wanted:g} {thing.unit}, {thing.left:g} are left.")
        if self.wish.power_w > self.room.room_w and self.freed is not None:
            freed_w = self.freed.room_w
            if freed_w > self.room.room_w:
                left = "any amount" if math.isinf(freed_w) else room_left(freed_w)
                parts.append(f"With all caps at their floors it would be {left}.")
        if self.room.shared:
            parts.append(f"It would go dark with {listed(self.room.shared)}.")
        if self.unknown:
            parts.append(f"Not stated: {', '.join(self.unknown)}.")
        return " ".join(parts)

    def to_json(self) -> dict[str, Any]:
        """Plain fields; what is without bound is null."""
        binding = self.binding
        return {
            "verdict": self.verdict,
            "what": self.what,
            "where": self.where,
            "wanted_w": self.wish.power_w,
            "room_w": _finite(self.room_w),
            "room_at_floors_w": None if self.freed is None else _finite(self.freed.room_w),
            "binding": None
            if binding is None
            else {"what": binding[0], "case": binding[1], "room_w": binding[2]},
            "limits": [bound.to_json() for bound in self.room.bounds],
            "cooling": [heat.to_json() for heat in self.heat],
            "things": [thing.to_json() for thing in self.things],
            "unknown": list(self.unknown),
            "down_in": list(self.room.down_in),
            "shared": list(self.room.shared),
            "text": self.text,
        }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def server_fits(
    topology: Topology,
    loops: Mapping[str, config.Loop],
    rack: str,
    wish: Wish,
    load_w: FloatArray,
    *,
    split: FloatArray | None = None,
    floors_w: FloatArray | None = None,
) -> Fit:
    """Can this rack take one more server?

    Args:
        topology: the plant.
        loops: of the site.
        rack: where.
        wish: what.
        load_w: float64[L], loads with the caps as they are, W.
        split: as `study` takes it.
        floors_w: float64[L], loads with every managed node at its floor; None: none is managed.
    """
    entry = topology.power.racks[rack]
    things, unknown = _things(entry.space, wish)
    shares = {name: loop.racks[rack] for name, loop in loops.items() if rack in loop.racks}
    heat = _heat(topology, loops, shares, load_w)
    return Fit(
        "one more server",
        rack,
        wish,
        room_for(topology, like(entry, wish.phase), load_w, split),
        None if floors_w is None else room_for(topology, like(entry, wish.phase), floors_w, split),
        heat,
        things,
        (*unknown, *_cooling(heat)),
    )


def rack_fits(
    topology: Topology,
    loops: Mapping[str, config.Loop],
    row: str,
    model: str,
    positions_left: int | None,
    wish: Wish,
    load_w: FloatArray,
    *,
    split: FloatArray | None = None,
    floors_w: FloatArray | None = None,
) -> Fit:
    """Can this row take one more rack, fed and cooled as `model` is? See `server_fits`."""
    entry = topology.power.racks[model]
    shares = {name: loop.racks[model] for name, loop in loops.items() if model in loop.racks}
    things = (Thing("positions", "positions", 1.0, positions_left),)
    unknown = ("positions of the row",) if positions_left is None else ()
    heat = _heat(topology, loops, shares, load_w)
    return Fit(
        f"one more rack like {model}",
        row,
        wish,
        room_for(topology, like(entry, wish.phase), load_w, split),
        None if floors_w is None else room_for(topology, like(entry, wish.phase), floors_w, split),
        heat,
        things,
        (*unknown, *_cooling(heat)),
    )


def _cooling(heat: tuple[Heat, ...]) -> tuple[str, ...]:
    """Heat has to go somewhere: what no loop with a stated capacity takes is not known to fit."""
    return () if heat else ("cooling",)


def _heat(
    topology: Topology,
    loops: Mapping[str, config.Loop],
    shares: Mapping[str, float],
    load_w: FloatArray,
) -> tuple[Heat, ...]:
    """Per loop that cools the new load, the case that leaves the least."""
    worst: dict[str, Heat] = {}
    for row in heat_rows(topology, loops):
        share = shares.get(row.loop, 0.0)
        if share <= 0.0:
            continue
        room_w = (row.capacity_w - float(row.share @ load_w)) / share
        if row.loop not in worst or room_w < worst[row.loop].room_w:
            worst[row.loop] = Heat(row.loop, row.case, room_w)
    return tuple(worst.values())


def _things(space: config.Space | None, wish: Wish) -> tuple[tuple[Thing, ...], tuple[str, ...]]:
    """What is asked of the rack besides power, and what of it nobody has stated."""
    stated = space if space is not None else config.Space()
    rows: tuple[tuple[str, str, float | None, float | None, float | None], ...] = (
        ("space", "units", wish.units, stated.units, stated.units_used),
        ("weight", "kg", wish.weight_kg, stated.weight_limit, stated.weight),
        ("liquid ports", "ports", wish.ports, stated.ports, stated.ports_used),
    )
    things, unknown = [], []
    for name, unit, wanted, there, used in rows:
        left = None if there is None or used is None else there - used
        if wanted is None:
            if left is None:
                unknown.append(name)
            continue
        things.append(Thing(name, unit, wanted, left))
        if left is None:
            unknown.append(name)
    return tuple(things), tuple(unknown)
