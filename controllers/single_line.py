"""The single-line diagram as data: what every element carries now, or would if some failed.

With nothing failed it is the plant as the last cycle saw it. With elements failed it says what
follows at once (dark racks, CDUs and pumps, loads that move, seconds to trip), what is left
(headroom in every further loss), and which caps the allocation would ask for on that plant.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from controllers.allocation import heat_rows
from controllers.cycle.state import CycleInput, Memory
from controllers.headroom import Headroom, study
from controllers.maintenance.caps import caps_that_follow
from controllers.maintenance.now import Now, now
from controllers.trips import Trips, trip_clocks
from facility import config
from facility.points import FloatArray
from facility.site import SiteModel
from facility.topology import Topology


def single_line(
    site: SiteModel, memory: Memory, inputs: CycleInput, fail: Sequence[str]
) -> dict[str, Any]:
    """The plant as it is, less the elements in `fail`; plain JSON, unknown is None.

    Args:
        site: the site.
        memory: what the last cycle left.
        inputs: what it was given.
        fail: elements of the site; what changes is told against the plant with them.
    """
    present = now(site, memory, inputs)
    loads, split = present.loads.load_w, present.loads.split
    before = study(present.topology, loads, split)
    after = study(present.topology.without(fail), loads, split) if fail else before
    trips, _ = trip_clocks(
        site, present.topology, inputs.snapshot, before, memory.trips, doubt=False
    )
    return compose(
        before,
        after,
        fail=fail,
        lost=present.lost,
        left_s=_seconds_to_trip(after, trips) if fail else _now_s(after.topology, trips),
        loops=site.facility.cooling.loops,
        caps=_caps(present, after) if fail else None,
    )


def compose(
    before: Headroom,
    after: Headroom,
    *,
    fail: Sequence[str],
    lost: Sequence[str],
    left_s: FloatArray,
    loops: Mapping[str, config.Loop],
    caps: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """The answer, from studies of the plant with and without the elements in `fail`.

    Args:
        before: with them.
        after: without them.
        fail: what fails in thought.
        lost: what is believed lost in earnest.
        left_s: float64[E], s to trip at the loads of `after`; inf: never.
        loops: of the site.
        caps: what the allocation would ask for on that plant.
    """
    return {
        "fail": list(fail),
        "elements": _elements(before, after, fail, lost, left_s),
        "racks": _racks(before.topology, after),
        "loads": _loads(before.topology, after),
        "cooling": _cooling(loops, after),
        "caps": caps,
        "headroom": after.to_json(),
    }


def _elements(
    before: Headroom,
    after: Headroom,
    fail: Sequence[str],
    lost: Sequence[str],
    left_s: FloatArray,
) -> list[dict[str, Any]]:
    topology = after.topology
    dead, was_dead = topology.compiled.dead[0], before.topology.compiled.dead[0]
    rows = []
    for e, name in enumerate(topology.elements):
        case = int(after.worst_case[e])
        if name in fail:
            state = "failed"
        elif name in lost:
            state = "lost"
        elif name in topology.power.maintenance:
            state = "maintenance"
        else:
            state = "dead" if dead[e] else "up"
        rows.append(
            {
                "element": name,
                "kind": topology.kinds[e],
                "state": state,
                "limit_w": _known(after.limit_w[e]),
                "load_w": None if dead[e] else float(after.normal_w[e]),
                "moved_w": None
                if dead[e] or was_dead[e]
                else float(after.normal_w[e] - before.normal_w[e]),
                "worst_w": _known(after.worst_w[e]),
                "worst_case": topology.case_names[case] if case >= 0 else None,
                "headroom_w": _known(after.headroom_w[e]),
                "seconds_to_trip": _known(left_s[e]),
            }
        )
    return rows


def _seconds_to_trip(after: Headroom, trips: Trips) -> FloatArray:
    """float64[E]: s until a clock runs out at the load that is there then; inf: never."""
    bands = trips.bands
    ratio = after.normal_w[bands.rows] / after.topology.rating_w[bands.rows]
    allowed = bands.allowed_s(ratio, trips.hot)
    growing = (ratio >= 1.0) & np.isfinite(allowed)
    left_s = np.full(len(after.topology.elements), np.inf)
    left_s[bands.rows] = np.where(
        growing, (1.0 - trips.used) * np.where(growing, allowed, 0.0), np.inf
    )
    return left_s


def _now_s(topology: Topology, trips: Trips) -> FloatArray:
    """float64[E]: s until a clock runs out as its load is measured now."""
    left_s = np.full(len(topology.elements), np.inf)
    left_s[trips.bands.rows] = trips.to_trip_s
    return left_s


def _alive(topology: Topology) -> FloatArray:
    """float64[L]: feeds of each load that are alive in the normal case."""
    alive = (~topology.dead_feeds).astype(np.float64)
    counted = np.bincount(topology.feed_load, alive, len(topology.loads))
    return np.asarray(counted, dtype=np.float64)


def _racks(before: Topology, after: Headroom) -> list[dict[str, Any]]:
    topology = after.topology
    up, was_up, alive = topology.compiled.up[0], before.compiled.up[0], _alive(topology)
    needs = [rack.needs for rack in topology.power.racks.values()]
    rows = []
    for i, name in enumerate(topology.racks):
        spare = int(alive[i]) - needs[i]
        rows.append(
            {
                "rack": name,
                "feeds": dict(topology.power.racks[name].feeds),
                "state": "dark" if not up[i] else "up" if spare > 0 else "last feed",
                "goes_dark": bool(was_up[i] and not up[i]),
                "feeds_alive": int(alive[i]),
                "load_w": float(after.load_w[i]) if up[i] else 0.0,
                "headroom_w": _known(after.rack_headroom_w[i]),
            }
        )
    return rows


def _loads(before: Topology, after: Headroom) -> list[dict[str, Any]]:
    """CDUs, pumps, chillers, fans."""
    topology = after.topology
    up, was_up = topology.compiled.up[0], before.compiled.up[0]
    first = len(topology.racks)
    return [
        {
            "load": name,
            "feeds": dict(topology.power.loads[name].feeds),
            "state": "up" if up[i] else "dark",
            "goes_dark": bool(was_up[i] and not up[i]),
            "load_w": float(after.load_w[i]) if up[i] else 0.0,
        }
        for i, name in enumerate(topology.loads[first:], start=first)
    ]


def _cooling(loops: Mapping[str, config.Loop], after: Headroom) -> dict[str, Any]:
    """Loop -> heat that its racks may make and heat that it can still take away, W."""
    rows = heat_rows(after.topology, loops)
    return {
        row.loop: {
            "heat_w": float(row.share @ after.load_w),
            "capacity_w": row.capacity_w,
        }
        for row in rows
        if row.case == "normal"
    }


def _caps(present: Now, after: Headroom) -> dict[str, Any]:
    found = caps_that_follow(
        present.site,
        after.topology,
        after.load_w,
        present.loads.split,
        present.in_force_w,
        present.loads.overheads_w(present.site),
    )
    held = dict(zip(present.site.nodes, present.in_force_w, strict=True))
    return {
        **found.to_json(),
        "nodes": [
            {"node": node, "from_w": float(held[node]), "to_w": float(held[node] - down_w)}
            for node, down_w in found.lowered.items()
        ],
    }


def _known(value: float) -> float | None:
    number = float(value)
    return number if math.isfinite(number) else None
