"""Control law 1 in plain Python, from its text alone.

Works on the power section as a person writes it (a dict of texts). No arrays, no caches, nothing
of the product: every case is walked from scratch, every watt is followed up to its sources. Slow
and literal on purpose; where the product and this file differ, one of them is wrong.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

Plant = Mapping[str, Any]
PHASES = ("L1", "L2", "L3")
NEC_80 = ("branch", "busway", "pdu", "rack_pdu")
TIE = 1e-9
#: Shares of a dual supply that nobody measured.
UNMEASURED = (0.65, 0.35)


# --- ratings -------------------------------------------------------------------------------------


def quantity(text: str) -> tuple[float, str]:
    """Read "450 kW" as (450000, "W"); "80 %" as (0.8, "")."""
    number, _, unit = text.partition(" ")
    if unit == "%":
        return float(number) / 100.0, ""
    scale = {"k": 1e3, "M": 1e6}.get(unit[0], 1.0) if len(unit) > 1 and unit != "VA" else 1.0
    return float(number) * scale, unit.lstrip("kM") if scale > 1.0 else unit


def watts(rating: Any, power_factor: float) -> float:
    """One rating in W: W as it is, VA by the power factor, amps by voltage and phases."""
    if isinstance(rating, str):
        number, unit = quantity(rating)
        return number * power_factor if unit == "VA" else number
    amps = quantity(rating["current"])[0]
    if rating.get("phases", 3) == 1:
        volts = quantity(rating.get("voltage_ln") or rating["voltage_ll"])[0]
        return amps * volts * power_factor
    if "voltage_ll" in rating:
        return math.sqrt(3.0) * quantity(rating["voltage_ll"])[0] * amps * power_factor
    return 3.0 * quantity(rating["voltage_ln"])[0] * amps * power_factor


def limits(element: Mapping[str, Any]) -> tuple[float, float]:
    """What may flow for hours, W: through the whole element, and through each phase."""
    factor = element.get("power_factor", 0.95)
    stated = element.get("continuous")
    share = 1.0 if stated is None else quantity(stated)[0]
    ratings = element.get("rating", [])
    whole, phase = math.inf, math.inf
    for rating in ratings if isinstance(ratings, list) else [ratings]:
        amps = isinstance(rating, Mapping)
        nec = amps and stated is None and element["kind"] in NEC_80
        usable = watts(rating, factor) * (0.8 if nec else share)
        whole = min(whole, usable)
        if amps and rating.get("phases", 3) == 3:
            # I = S/V_LN: a phase carries its amps times V_LN, a third of the three-phase power.
            phase = min(phase, usable / 3.0)
    if "module_rating" in element:
        needs = element.get("needs", element["modules"])
        whole = min(whole, needs * quantity(element["module_rating"])[0] * share)
    return whole, phase


# --- life ----------------------------------------------------------------------------------------


def parents(plant: Plant, name: str) -> list[str]:
    if name in plant.get("groups", {}):
        return list(plant["groups"][name]["members"])
    element = plant["elements"][name]
    if "transfer" in element:
        return [element["transfer"]["normal"], element["transfer"]["alternate"]]
    return list(element.get("fed_by", []))


def living(plant: Plant, lost: Iterable[str]) -> set[str]:
    """Elements and groups that are alive, by spreading life from the sources until it settles."""
    gone = set(lost)
    groups = plant.get("groups", {})
    alive: set[str] = set()
    spreading = True
    while spreading:
        spreading = False
        for name in [*plant["elements"], *groups]:
            if name in alive or name in gone:
                continue
            above = [p for p in parents(plant, name) if p in alive]
            if name in groups:
                lives = len(above) >= groups[name].get("needs", len(groups[name]["members"]))
            else:
                element = plant["elements"][name]
                rootless = element["kind"] == "source" or (
                    element["kind"] == "ups" and "autonomy" in element
                )
                lives = rootless or bool(above)
            if lives:
                alive.add(name)
                spreading = True
    return alive


def upward(
    plant: Plant, alive: set[str], sources: Mapping[str, str], name: str
) -> dict[str, float]:
    """Which part of a watt drawn from `name` (alive) flows through each element."""
    groups = plant.get("groups", {})
    above = [p for p in parents(plant, name) if p in alive]
    on: dict[str, float] = {} if name in groups else {name: 1.0}
    switch = name not in groups and "transfer" in plant["elements"][name]
    if switch and above:
        transfer = plant["elements"][name]["transfer"]
        position = sources.get(name, "normal")
        if position == "unknown":
            # Not known from which side: each side is assumed to carry it all.
            for parent in above:
                for element, share in upward(plant, alive, sources, parent).items():
                    on[element] = max(on.get(element, 0.0), share)
            return on
        first = transfer[position]
        chosen = first if first in above else above[0]
        above = [chosen]
    for parent in above:
        for element, share in upward(plant, alive, sources, parent).items():
            on[element] = on.get(element, 0.0) + share / len(above)
    return on


# --- loads ---------------------------------------------------------------------------------------


def all_loads(plant: Plant) -> dict[str, Mapping[str, Any]]:
    return {**plant.get("racks", {}), **plant.get("loads", {})}


def splits(
    load: Mapping[str, Any], alive: set[str], unmeasured: bool
) -> list[dict[str, float]] | None:
    """Every way in which the load may be spread over its feeds alive; None: it is down."""
    feeds = load["feeds"]
    up = [feed for feed, parent in feeds.items() if parent in alive]
    if len(up) < load.get("needs", 1):
        return None
    if load.get("psu") == "hot_spare" and len(up) >= 2:
        return [{feed: 1.0} for feed in up]
    if unmeasured and len(feeds) == 2 and len(up) == 2:
        big, small = UNMEASURED
        return [{up[0]: big, up[1]: small}, {up[0]: small, up[1]: big}]
    written = load.get("split")
    wanted = {f: 1.0 if written is None else written.get(f, 0.0) for f in up}
    total = sum(wanted.values())
    if total <= 0.0:
        return [{f: 1.0 / len(up) for f in up}]
    return [{f: share / total for f, share in wanted.items()}]


def phase_shares(load: Mapping[str, Any], feed: str) -> dict[str, float]:
    stated = load.get("phases", {}).get(feed)
    if stated is None:
        return dict.fromkeys(PHASES, 1.0 / 3.0)
    return {phase: stated.get(phase, 0.0) for phase in PHASES}


# --- the study -----------------------------------------------------------------------------------

#: An element, or one of its phases.
Check = tuple[str, str]
WHOLE = ""


@dataclass
class CaseFacts:
    """One case: what is dead, which loads are down, what each check carries and from whom."""

    dead: set[str]
    dark: set[str]
    carried_w: dict[Check, float] = field(default_factory=dict)
    share: dict[str, dict[Check, float]] = field(default_factory=dict)


def case_of(
    plant: Plant,
    lost: set[str],
    loads_w: Mapping[str, float],
    sources: Mapping[str, str],
    unmeasured: bool,
) -> CaseFacts:
    alive = living(plant, lost)
    facts = CaseFacts({e for e in plant["elements"] if e not in alive}, set())
    paths = {
        parent: upward(plant, alive, sources, parent)
        for load in all_loads(plant).values()
        for parent in load["feeds"].values()
        if parent in alive
    }
    for name, load in all_loads(plant).items():
        options = splits(load, alive, unmeasured)
        if options is None:
            facts.dark.add(name)
            continue
        worst: dict[Check, float] = {}
        for option in options:
            on: dict[Check, float] = {}
            for feed, part in option.items():
                by_phase = phase_shares(load, feed)
                for element, share in paths[load["feeds"][feed]].items():
                    for key, of_it in ((WHOLE, 1.0), *by_phase.items()):
                        check = (element, key)
                        on[check] = on.get(check, 0.0) + part * share * of_it
            for check, share in on.items():
                worst[check] = max(worst.get(check, 0.0), share)
        facts.share[name] = worst
        for check, share in worst.items():
            facts.carried_w[check] = facts.carried_w.get(check, 0.0) + share * loads_w[name]
    return facts


@dataclass
class Verdict:
    """The answer for one element; None where it is never alive or has no limit."""

    normal_w: float
    worst_w: float | None
    case: str | None
    headroom_w: float | None


@dataclass
class Study:
    """All cases in order, and what follows for each element and each load."""

    cases: dict[str, CaseFacts]
    elements: dict[str, Verdict]
    load_headroom_w: dict[str, float | None]


def study(
    plant: Plant,
    loads_w: Mapping[str, float],
    sources: Mapping[str, str] | None = None,
    *,
    unmeasured: bool = False,
) -> Study:
    """Every case of a plant, and what binds."""
    gone = set(plant.get("maintenance", []))
    names = {"normal": gone}
    for element in plant["elements"]:
        if element not in gone:
            names[f"loss of {element}"] = gone | {element}
    cases = {
        name: case_of(plant, lost, loads_w, sources or {}, unmeasured)
        for name, lost in names.items()
    }
    said = any(load.get("phases") for load in all_loads(plant).values())
    every = {e: limits(element) for e, element in plant["elements"].items()}
    elements = {e: _verdict(e, cases, *every[e], said) for e in plant["elements"]}
    headroom = {load: _headroom(load, cases, every, said) for load in all_loads(plant)}
    return Study(cases, elements, headroom)


def _room(
    element: str, facts: CaseFacts, limit_w: float, phase_w: float, said: bool
) -> tuple[float, float]:
    """W left on an element, and W on it."""
    load_w = facts.carried_w.get((element, WHOLE), 0.0)
    room_w = limit_w - load_w
    if said and phase_w < math.inf:
        fullest_w = max(facts.carried_w.get((element, phase), 0.0) for phase in PHASES)
        room_w = min(room_w, 3.0 * (phase_w - fullest_w))
    return room_w, load_w


def _verdict(
    element: str, cases: Mapping[str, CaseFacts], limit_w: float, phase_w: float, said: bool
) -> Verdict:
    normal_w = cases["normal"].carried_w.get((element, WHOLE), 0.0)
    rooms = {
        name: _room(element, facts, limit_w, phase_w, said)
        for name, facts in cases.items()
        if element not in facts.dead
    }
    if not rooms:
        return Verdict(normal_w, None, None, None)
    if limit_w == math.inf:
        # No limit: there is no headroom; the case of the greatest load is named.
        most = max(load for _, load in rooms.values())
        case = next(n for n, (_, load) in rooms.items() if load >= most * (1.0 - TIE))
        return Verdict(normal_w, rooms[case][1], case, None)
    least = min(room for room, _ in rooms.values())
    case = next(n for n, (room, _) in rooms.items() if room <= least + TIE * limit_w)
    return Verdict(normal_w, rooms[case][1], case, least)


def _headroom(
    load: str,
    cases: Mapping[str, CaseFacts],
    every: Mapping[str, tuple[float, float]],
    said: bool,
) -> float | None:
    """The most that one load alone can add; None when it is dark now."""
    if load in cases["normal"].dark:
        return None
    most = math.inf
    for facts in cases.values():
        for (element, phase), share in facts.share.get(load, {}).items():
            if element in facts.dead or share <= 1e-12 or (phase and not said):
                continue
            limit_w = every[element][1 if phase else 0]
            left_w = limit_w - facts.carried_w[element, phase]
            most = min(most, max(left_w, 0.0) / share)
    return most


# --- cooling -------------------------------------------------------------------------------------


def cooling_left(loop: Mapping[str, Any], dark: Iterable[str]) -> tuple[list[str], float, float]:
    """CDUs of a loop that are dark, and the flow (L/min) and heat (W) that are left.

    Each dark CDU leaves `flow_one_cdu_lost` of both; without any CDU there is none.
    """
    down = set(dark)
    gone = [load for load in loop["cdus"].values() if load in down]
    share = quantity(loop.get("flow_one_cdu_lost", "50 %"))[0] ** len(gone)
    if len(gone) == len(loop["cdus"]):
        share = 0.0
    flow = float(loop["design_flow"].split()[0])
    return gone, flow * share, quantity(loop["heat_capacity"])[0] * share
