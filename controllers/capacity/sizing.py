"""Is it sized right: supply against chip peak, N+1 per level, and racks still to come in lots.

Supply of a rack is what its own elements (rack PDUs, shelves, branches) carry with one feed lost;
the reference designs give it 1.2 to 1.5 times the peak of its chips. A level is N+1 when no loss of
one of its elements darkens a rack that has a spare feed, or breaks a limit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from controllers.capacity.room import like, room_for
from controllers.wording import kilowatts
from facility import config
from facility.points import FloatArray
from facility.topology import Shares, Topology

#: Supply of a rack over the peak of its chips.
LEAST, MOST = 1.2, 1.5
#: Kinds that belong to one rack alone.
OWN: Final = frozenset({"rack_pdu", "shelf", "branch"})
#: Levels in the order in which power flows.
LEVELS: Final = (
    "source",
    "transformer",
    "ups",
    "switchboard",
    "switch",
    "pdu",
    "busway",
    "branch",
    "rack_pdu",
    "shelf",
)


def supply_audit(topology: Topology, nodes: Mapping[str, config.Node]) -> list[dict[str, Any]]:
    """Per rack with nodes: supply, chip peak and their ratio; null where nothing is rated."""
    peak: dict[str, float] = {}
    for node in nodes.values():
        peak[node.rack] = peak.get(node.rack, 0.0) + node.gpus * node.max_cap
    rows = []
    for rack, peak_w in peak.items():
        supply_w, of = _supply_w(topology, rack)
        ratio = None if supply_w is None or peak_w <= 0.0 else supply_w / peak_w
        state = "unknown"
        if ratio is not None:
            state = "short" if ratio < LEAST else ("ample" if ratio > MOST else "right")
        rows.append(
            {
                "rack": rack,
                "supply_w": supply_w,
                "supply_of": of,
                "chip_peak_w": peak_w,
                "ratio": ratio,
                "state": state,
            }
        )
    return rows


def _supply_w(topology: Topology, rack: str) -> tuple[float | None, list[str]]:
    """W with the largest feed lost, and the rack's own elements; None where they are unrated.

    Without elements of its own a rack has its nameplate for a supply.
    """
    entry = topology.power.racks[rack]
    limits, names = [], []
    for parent in entry.feeds.values():
        element = topology.power.elements.get(parent)
        if element is None or element.kind not in OWN:
            return (entry.rating or None), ["rating"]
        limits.append(float(topology.limit_w[topology.element_index[parent]]))
        names.append(parent)
    if not all(math.isfinite(limit) for limit in limits):
        return None, names
    spare = len(limits) > entry.needs
    return sum(limits) - (max(limits) if spare else 0.0), names


def levels(
    topology: Topology, load_w: FloatArray, split: FloatArray | None = None
) -> list[dict[str, Any]]:
    """Per kind of element: how many, how much they carry, and whether any one may fail."""
    shares = Shares.of(topology, split)
    s, c = shares.structure, topology.compiled
    slack = shares.slack_w(load_w)
    worst = np.full(len(topology.case_names), np.inf)
    at = np.full(len(topology.case_names), -1, dtype=np.int64)
    for cell in np.argsort(-slack, kind="stable").tolist():
        case = int(s.cell_case[cell])
        worst[case], at[case] = slack[cell], cell
    racks = len(topology.racks)
    spare = (topology.feed_counts > topology.load_needs)[:racks] & c.up[0, :racks]
    rows = []
    for kind in LEVELS:
        mine = [e for e, k in enumerate(topology.kinds) if k == kind]
        if not mine:
            continue
        cases = [k for k in range(1, len(topology.case_names)) if int(c.lost[k]) in mine]
        dark = sorted(
            {topology.racks[i] for k in cases for i in np.flatnonzero(spare & ~c.up[k, :racks])}
        )
        over = [k for k in cases if worst[k] < 0.0]
        binding = min(over, key=lambda k: float(worst[k]), default=None)
        limit_w = float(topology.limit_w[mine].sum())
        rows.append(
            {
                "kind": kind,
                "elements": len(mine),
                "limit_w": limit_w if math.isfinite(limit_w) else None,
                "n_plus_1": not dark and not over,
                "dark": dark,
                "over": None
                if binding is None
                else {
                    "element": shares.name(int(at[binding]))[0],
                    "case": topology.case_names[binding],
                    "lacks_w": -float(worst[binding]),
                },
            }
        )
    return rows


def lots(
    topology: Topology,
    rows: Mapping[str, tuple[str, int | None]],
    load_w: FloatArray,
    *,
    rack_w: float,
    lot: int,
    margin: float,
    split: FloatArray | None = None,
) -> list[dict[str, Any]]:
    """How many lots of racks each row can still take, with a part of every limit kept free.

    Args:
        topology: the plant.
        rows: row -> a rack to take the feeds of, and positions left (None: not stated).
        load_w: float64[L], W.
        rack_w: of one rack.
        lot: racks that come together.
        margin: part of every limit that stays free.
        split: as `study` takes it.
    """
    found = []
    for row, (model, positions) in rows.items():
        new = like(topology.power.racks[model])
        room = room_for(topology, new, load_w, split, margin)
        room_w = room.room_w
        racks = math.floor(room_w / rack_w + 1e-9) if math.isfinite(room_w) else None
        if positions is not None:
            racks = positions if racks is None else min(racks, positions)
        count = None if racks is None else racks // lot
        bound = room.bounds[0] if room.bounds else None
        if count is None:
            text = f"{row}: nothing on its paths has a rating, and its positions are not stated."
        else:
            text = f"{row}: {count} lots of {lot} racks of {kilowatts(rack_w)} fit"
            text += "." if bound is None else f"; {bound.element} binds, {bound.case}."
        found.append(
            {
                "row": row,
                "like": model,
                "lots": count,
                "racks": None if count is None else count * lot,
                "room_w": room_w if math.isfinite(room_w) else None,
                "positions_left": positions,
                "binding": None if bound is None else bound.to_json(),
                "text": text,
            }
        )
    return found


def rows_of(power: config.Power) -> dict[str, tuple[str, int | None]]:
    """Row -> its last rack, and positions left; without rows in the file, each busway is one."""
    if power.rows:
        return {
            name: (
                row.racks[-1],
                None if row.positions is None else row.positions - len(row.racks),
            )
            for name, row in power.rows.items()
        }
    found: dict[str, tuple[str, int | None]] = {}
    for rack, entry in power.racks.items():
        first = next(iter(entry.feeds.values()))
        found[first] = (rack, None)
    return found
