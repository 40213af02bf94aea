"""The whole capacity report of a hall as one document, and as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from controllers.capacity.feeding import wrongly_fed
from controllers.capacity.floors import floors_w
from controllers.capacity.sizing import levels, lots, rows_of, supply_audit
from controllers.headroom import study
from controllers.wording import kilowatts
from facility.config import Facility
from facility.points import FloatArray
from facility.topology import Topology

#: Part of every limit that stays free when racks are added in lots.
MARGIN: Final = 0.05
LOT: Final = 1


def report(
    facility: Facility,
    topology: Topology,
    load_w: FloatArray,
    *,
    split: FloatArray | None = None,
    conversion: Mapping[str, Any] | None = None,
    rack_w: float | None = None,
    lot: int = LOT,
    margin: float = MARGIN,
) -> dict[str, Any]:
    """Everything that needs no question.

    Args:
        facility: the file.
        topology: the plant, maintenance included.
        load_w: float64[L], W.
        split: as `study` takes it.
        conversion: measured losses; None: nothing is measured (a file).
        rack_w: of racks still to come; None: as the largest rack draws.
        lot: racks that come together.
        margin: part of every limit that stays free.
    """
    racks = len(topology.racks)
    each_w = rack_w if rack_w is not None else float(np.max(load_w[:racks], initial=0.0))
    answer = study(topology, load_w, split)
    binding = answer.binding
    floors = floors_w(topology, facility.nodes, load_w)
    found = levels(topology, load_w, split)
    at_floors = found if floors is None else levels(topology, floors, split)
    for row, low in zip(found, at_floors, strict=True):
        row["n_plus_1_at_floors"] = low["n_plus_1"]
    return {
        "ok": answer.ok,
        "load_w": float(load_w.sum()),
        "binding": None
        if binding is None
        else {"element": binding[0], "case": binding[1], "headroom_w": binding[2]},
        "feeding": [one.to_json() for one in wrongly_fed(topology)],
        "levels": found,
        "sizing": supply_audit(topology, facility.nodes),
        "lots": lots(
            topology,
            rows_of(topology.power),
            load_w,
            rack_w=each_w,
            lot=lot,
            margin=margin,
            split=split,
        )
        if each_w > 0.0
        else [],
        "lot": {"rack_w": each_w, "racks": lot, "margin": margin},
        "conversion": conversion,
    }


def report_text(document: Mapping[str, Any]) -> str:
    """The report for people."""
    parts = [_lead(document)]
    faults = [row["text"] for row in document["feeding"]]
    parts.append("Feeds: " + (" ".join(faults) if faults else "every load has two ways in."))
    parts.extend(_level(row) for row in document["levels"])
    for state, words in (("short", "below 1.2 x"), ("ample", "above 1.5 x")):
        racks = [row["rack"] for row in document["sizing"] if row["state"] == state]
        if racks:
            named = ", ".join(racks[:8]) + (f" and {len(racks) - 8} more" if racks[8:] else "")
            parts.append(f"Sizing: supply {words} chip peak in {len(racks)} racks: {named}.")
    lot = document["lot"]
    parts.extend(
        f"Lots ({100.0 * lot['margin']:.0f} % kept): {r['text']}" for r in document["lots"]
    )
    if document["conversion"] is not None:
        parts.append(str(document["conversion"]["text"]))
    return "\n".join(parts)


def _lead(document: Mapping[str, Any]) -> str:
    binding = document["binding"]
    total = f"{kilowatts(document['load_w'])} in all."
    if binding is None:
        return f"{total} Nothing has a rating."
    room_w = binding["headroom_w"]
    left = f"{kilowatts(room_w)} left" if room_w >= 0.0 else f"{kilowatts(-room_w)} too little"
    return f"{total} Tightest: {binding['element']}, {binding['case']}, {left}."


def _level(row: Mapping[str, Any]) -> str:
    if row["n_plus_1"]:
        return f"Level {row['kind']} ({row['elements']}): any one may fail."
    over = row["over"]
    why = []
    if row["dark"]:
        why.append(f"{len(row['dark'])} racks with a spare feed go dark")
    if over is not None:
        why.append(f"{over['element']} lacks {kilowatts(over['lacks_w'])} after {over['case']}")
    text = f"Level {row['kind']} ({row['elements']}): not N+1: {'; '.join(why)}."
    if row["n_plus_1_at_floors"]:
        text += " With caps at their floors any one may fail."
    return text
