"""How many watts one more load can draw: per side, per phase, in the normal case and after a loss.

A load that is not there yet is put into the topology as one more load at 0 W, so that the laws of
sharing, failover and phases say what each of its watts puts on each element in each case. Its room
on a check is slack / weight; the least room binds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np

from facility import config
from facility.points import FloatArray
from facility.topology import Shares, Topology

#: Stands for the load that is asked about; no file can use it.
NEW: Final = "+new"
Phase = Literal["L1", "L2", "L3"]


@dataclass(frozen=True, slots=True)
class Bound:
    """How much one element leaves in its worst case of a kind.

    Attributes:
        side: feed of the new load on whose path it stands; "" when on several.
        phase: L1, L2 or L3, or None for the whole element.
        room_w: W that the new load can draw until this is at its limit; negative: over already.
    """

    element: str
    case: str
    side: str
    phase: str | None
    room_w: float

    def to_json(self) -> dict[str, Any]:
        """Plain fields."""
        return {
            "element": self.element,
            "case": self.case,
            "side": self.side or None,
            "phase": self.phase,
            "room_w": self.room_w,
        }


@dataclass(frozen=True, eq=False)
class Room:
    """What power leaves for one more load.

    Attributes:
        bounds: the tightest of each side and phase, normal case and after failover apart,
            tightest first; unrated elements bound nothing.
        down_in: cases in which the new load is dark.
        shared: elements other than sources that darken it although it has a spare feed.
    """

    bounds: tuple[Bound, ...]
    down_in: tuple[str, ...]
    shared: tuple[str, ...]

    @property
    def room_w(self) -> float:
        """W that it can draw in every case; inf where nothing on its paths is rated."""
        return max(self.bounds[0].room_w, 0.0) if self.bounds else math.inf


def like(load: config.LoadBase, phase: Phase | None = None) -> config.OtherLoad:
    """One more load on the feeds of another one.

    Args:
        load: whose feeds, split and supplies it shares.
        phase: the one phase that it is on; None: the phases of the other one.
    """
    phases = {feed: {phase: 1.0} for feed in load.feeds} if phase is not None else load.phases
    return config.OtherLoad(
        feeds=dict(load.feeds),
        needs=load.needs,
        split=load.split,
        phases=phases,
        psu=load.psu,
        rating="0 W",  # type: ignore[arg-type]
    )


def room_for(
    topology: Topology,
    new: config.OtherLoad,
    load_w: FloatArray,
    split: FloatArray | None = None,
    margin: float = 0.0,
) -> Room:
    """What power leaves for a load.

    Args:
        topology: the plant, maintenance included.
        new: the load that is not there yet.
        load_w: float64[L], what the others draw, W.
        split: float64[F] of the others; None as in the file, NaN where not measured.
        margin: part of every limit that is to stay free.
    """
    loads = {**topology.power.loads, NEW: new}
    power = topology.power.model_copy(update={"loads": loads})
    wider = Topology.of(power, topology.sources)
    feeds = len(wider.feeds) - len(topology.feeds)
    if split is not None:
        split = np.concatenate([split, wider.split[-feeds:]])
    shares = Shares.of(wider, split)
    drawn = np.append(load_w, 0.0)
    alone = np.zeros(len(drawn))
    alone[-1] = 1.0
    weight = shares.loads_w(alone)
    s = shares.structure
    limit = s.limit_w[s.cell_check]
    slack = shares.slack_w(drawn) - margin * np.where(np.isfinite(limit), limit, 0.0)
    touched = np.flatnonzero((weight > 1e-12) & np.isfinite(slack))
    rooms = slack[touched] / weight[touched]
    order = touched[np.argsort(rooms, kind="stable")]
    sides = _sides(wider)
    found: dict[tuple[str, str | None, bool], Bound] = {}
    for cell in order.tolist():
        check, case = int(s.cell_check[cell]), int(s.cell_case[cell])
        element = int(s.check_element[check])
        phase = int(s.check_phase[check])
        bound = Bound(
            wider.elements[element],
            wider.case_names[case],
            sides.get(element, ""),
            None if phase < 0 else f"L{phase + 1}",
            float(slack[cell] / weight[cell]),
        )
        found.setdefault((bound.side, bound.phase, case == 0), bound)
    index = len(wider.loads) - 1
    up = wider.compiled.up[:, index]
    down = tuple(wider.case_names[k] for k in np.flatnonzero(~up))
    lost = [int(e) for e in wider.compiled.lost[np.flatnonzero(~up)] if e >= 0]
    spare = len(new.feeds) > new.needs and bool(up[0])
    shared = tuple(wider.elements[e] for e in lost if wider.kinds[e] != "source") if spare else ()
    return Room(tuple(found.values()), down, shared)


def _sides(topology: Topology) -> Mapping[int, str]:
    """Element -> the one feed of the new load on whose normal path it stands; "" for several."""
    columns = [c for c, (load, _) in enumerate(topology.feeds) if load == NEW]
    found: dict[int, str] = {}
    for column in columns:
        side = topology.feeds[column][1]
        for element in np.flatnonzero(topology.carries[:, column]).tolist():
            found[element] = side if found.get(element, side) == side else ""
    return found
