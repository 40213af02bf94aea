"""The power laws once more, in plain Python without arrays, straight from their text.

Deliberately slow and literal: every watt is pushed up from its load, case by case.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

from facility.config import Power

Plant = dict[str, Any]


def power(plant: Plant) -> Power:
    return Power.model_validate_json(json.dumps(plant))


def cases(plant: Plant) -> Iterator[tuple[str, frozenset[str]]]:
    gone = frozenset(plant.get("maintenance", ()))
    yield "normal", gone
    for element in plant["elements"]:
        if element not in gone:
            yield f"loss of {element}", gone | {element}


def alive(plant: Plant, lost: frozenset[str], name: str) -> bool:
    group = plant.get("groups", {}).get(name)
    if group is not None:
        members = [alive(plant, lost, m) for m in group["members"]]
        return sum(members) >= group.get("needs", len(members))
    element = plant["elements"][name]
    if name in lost:
        return False
    if element["kind"] == "source" or (element["kind"] == "ups" and "autonomy" in element):
        return True
    transfer = element.get("transfer")
    parents = [transfer["normal"], transfer["alternate"]] if transfer else element["fed_by"]
    return any(alive(plant, lost, p) for p in parents)


def push(plant: Plant, lost: frozenset[str], name: str, watts: float, on: dict[str, float]) -> None:
    """Draw `watts` from `name`, which is alive; adds what each element carries to `on`."""
    group = plant.get("groups", {}).get(name)
    if group is not None:
        takers = [m for m in group["members"] if alive(plant, lost, m)]
    else:
        on[name] = on.get(name, 0.0) + watts
        element = plant["elements"][name]
        transfer = element.get("transfer")
        if transfer:
            both = [transfer["normal"], transfer["alternate"]]
            takers = [p for p in both if alive(plant, lost, p)][:1]
        else:
            takers = [p for p in element.get("fed_by", ()) if alive(plant, lost, p)]
    for taker in takers:
        push(plant, lost, taker, watts / len(takers), on)


def limit(element: Mapping[str, Any]) -> float:
    """Only W ratings; amps and VA have their own hand-computed tests."""
    rating = element.get("rating")
    return math.inf if rating is None else float(rating.split()[0])


def feed_options(
    plant: Plant, lost: frozenset[str], load: Mapping[str, Any]
) -> list[dict[str, float]]:
    """The splits that a load may have in a case; [] when it is down."""
    living = [f for f, parent in load["feeds"].items() if alive(plant, lost, parent)]
    if len(living) < load.get("needs", 1):
        return []
    if load.get("psu") == "hot_spare" and len(living) >= 2:
        return [{f: float(f == one) for f in living} for one in living]
    split = load.get("split")
    shares = {f: (1.0 if split is None else split.get(f, 0.0)) for f in living}
    total = sum(shares.values())
    if total == 0.0:
        return [{f: 1.0 / len(living) for f in living}]
    return [{f: share / total for f, share in shares.items()}]


def carried(
    plant: Plant, lost: frozenset[str], loads_w: Mapping[str, float]
) -> tuple[dict[str, float], dict[str, dict[str, float]]]:
    """W on each element, and by load; per load the worst of its possible splits counts."""
    total: dict[str, float] = {}
    by_load: dict[str, dict[str, float]] = {}
    for name, load in {**plant["racks"], **plant.get("loads", {})}.items():
        worst: dict[str, float] = {}
        for option in feed_options(plant, lost, load):
            on: dict[str, float] = {}
            for feed, share in option.items():
                push(plant, lost, load["feeds"][feed], share, on)
            for element, share in on.items():
                worst[element] = max(worst.get(element, 0.0), share)
        by_load[name] = worst
        for element, share in worst.items():
            total[element] = total.get(element, 0.0) + share * loads_w[name]
    return total, by_load


def headrooms(
    plant: Plant, loads_w: Mapping[str, float]
) -> dict[str, tuple[float, str, float] | None]:
    """Per element (headroom, case, load); None where never alive."""
    out: dict[str, tuple[float, str, float] | None] = dict.fromkeys(plant["elements"])
    for case, lost in cases(plant):
        total, _ = carried(plant, lost, loads_w)
        for name, element in plant["elements"].items():
            if not alive(plant, lost, name):
                continue
            load, most = total.get(name, 0.0), limit(element)
            room, best = most - load, out[name]
            if best is None:
                out[name] = (room, case, load)
            elif math.isinf(most):
                if load > best[2] * (1 + 1e-9):
                    out[name] = (room, case, load)
            elif room < best[0] - 1e-9 * most:
                out[name] = (room, case, load)
    return out


def rack_headroom(plant: Plant, loads_w: Mapping[str, float], rack: str) -> float | None:
    """The most that one load can add; None when dark in the normal case."""
    room = math.inf
    for case, lost in cases(plant):
        load = {**plant["racks"], **plant.get("loads", {})}[rack]
        if case == "normal" and not feed_options(plant, lost, load):
            return None
        total, by_load = carried(plant, lost, loads_w)
        for element, share in by_load[rack].items():
            if share > 1e-12:
                left = limit(plant["elements"][element]) - total[element]
                room = min(room, max(left, 0.0) / share)
    return room
