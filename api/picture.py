"""The hall as people see it: racks, elements, loops, control and efficiency, from memory alone.

Pure reading of the snapshot, the last decision and the facility file; nothing here asks the
database. Facts that a controller has not stated yet are None, and so is every number that the
plant does not give: never 0.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from api.hall import Hall
from controllers.wording import lacking, room_left
from facility.commands import Decision, Mode
from facility.flaw_words import words_for
from facility.points import Grade, PointId
from facility.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class RackView:
    """One rack now.

    Attributes:
        power_w: measured by its meters, all feeds; None when a meter is silent.
        why_no_power: which meter, and what is wrong; empty when power_w is there.
        load_w: what the N+1 study counts for it.
        headroom_w: what it alone may add until something is at its limit in some case.
        cap_low_w, cap_high_w: least and greatest cap per GPU among its nodes, as read back.
        because: why its caps are what they are.
        tokens_per_joule: now; `sustained` is the 5th percentile of its 5-min values.
        inlet_c: hottest inlet sensor.
    """

    rack: str
    power_w: float | None
    why_no_power: str
    load_w: float | None
    headroom_w: float | None
    rating_w: float
    cap_low_w: float | None
    cap_high_w: float | None
    because: str
    tokens_per_s: float | None
    tokens_per_joule: float | None
    sustained: float | None
    inlet_c: float | None
    down_in: tuple[str, ...]
    shared: tuple[str, ...]
    single_fed: bool | None
    mode: Mode
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LoopView:
    """One liquid loop now; temperatures in degC, margins in K."""

    loop: str
    supply_c: float | None
    setpoint_c: float | None
    target_c: float | None
    lower_c: float | None
    upper_c: float | None
    dew_point_c: float | None
    to_dew_k: float | None
    to_throttle_k: float | None
    bound: str
    text: str
    mode: Mode


@dataclass(frozen=True, slots=True)
class TrustView:
    """How far the data can be trusted."""

    points: int
    good: int
    suspect: int
    bad: int
    devices: int
    devices_bad: tuple[str, ...]
    blind: tuple[str, ...]
    text: str


def number(value: Any) -> float | None:
    """`value` as a finite float, else None (a bool is no number)."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if math.isfinite(value) else None


def finite(value: Any) -> Any:
    """`value` (nested dicts, lists, numbers, texts) with None for every NaN and infinity."""
    if isinstance(value, Mapping):
        return {str(k): finite(v) for k, v in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [finite(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return str(value)


def iso(at_ms: int | None) -> str | None:
    """`2026-11-30T13:03:22.000Z`; None when not known."""
    if at_ms is None:
        return None
    return f"{datetime.fromtimestamp(at_ms / 1e3, UTC).isoformat(timespec='milliseconds')[:-6]}Z"


def fact(decision: Decision | None, name: str) -> Mapping[str, Any]:
    """One group of facts of a decision; empty while it is not known."""
    found = decision.facts.get(name) if decision is not None else None
    return found if isinstance(found, Mapping) else {}


def by_name(rows: Any, key: str) -> dict[str, Mapping[str, Any]]:
    """Rows of a facts table by their name."""
    found = rows if isinstance(rows, (list, tuple)) else ()
    return {str(row[key]): row for row in found if isinstance(row, Mapping) and key in row}


def mode_of(hall: Hall, scope: str) -> Mode:
    """The mode that holds in a scope: its own, else the hall's."""
    modes = hall.modes()
    return modes.get(scope) or modes.get("hall") or Mode(hall.facility.control.mode)


def scopes(hall: Hall) -> tuple[str, ...]:
    """Every scope that can have a mode, the widest first."""
    facility = hall.facility
    return (
        "hall",
        *(f"loop:{name}" for name in facility.cooling.loops),
        *(f"rack:{name}" for name in facility.power.racks),
    )


def _known(snapshot: Snapshot | None, points: Iterable[PointId]) -> list[float]:
    """The values that there are now."""
    if snapshot is None:
        return []
    readings = (snapshot.reading(point) for point in points)
    return [r.value for r in readings if r is not None and r.value is not None]


def _power(snapshot: Snapshot | None, meters: Sequence[PointId]) -> tuple[float | None, str]:
    """Sum of a rack's meters, W; None and why as soon as one of them is silent."""
    total = 0.0
    for point in meters:
        reading = snapshot.reading(point) if snapshot is not None else None
        if reading is None or reading.value is None:
            why = words_for(reading.flaw) if reading is not None else "not read yet"
            return None, f"{point.device}: {why}"
        total += reading.value
    return (total, "") if meters else (None, "no meter")


def _measuring(hall: Hall, part: str, kind: str) -> dict[str, list[PointId]]:
    """The points of one kind that measure each rack, in file order."""
    found: dict[str, list[PointId]] = defaultdict(list)
    for device, config in hall.facility.devices.items():
        point = PointId(device, part, kind)
        if config.measures.rack is not None and point in hall.table.index:
            found[config.measures.rack].append(point)
    return found


def _reasons(decision: Decision | None) -> dict[str, str]:
    """Why each node's cap is what it is."""
    planned = fact(decision, "allocation").get("nodes")
    found = {
        node: str(row.get("because") or "")
        for node, row in (planned.items() if isinstance(planned, Mapping) else ())
        if isinstance(row, Mapping)
    }
    for setpoint in decision.setpoints if decision is not None else ():
        if setpoint.point.kind == "power_cap":
            found[setpoint.point.device] = setpoint.because
    return found


def _because(reasons: Mapping[str, str], nodes: Sequence[str]) -> str:
    counted = Counter(reasons[node] for node in nodes if reasons.get(node))
    if not counted:
        return ""
    (text, count), *others = counted.most_common()
    return f"{text} ({count} of {counted.total()} nodes)" if others else text


def racks(hall: Hall) -> list[RackView]:
    """Every rack, in file order."""
    snapshot, decision = hall.snapshot(), hall.decision()
    study = by_name(fact(decision, "headroom").get("racks"), "rack")
    per_rack = fact(decision, "efficiency").get("racks") or {}
    meters = _measuring(hall, "total", "active_power")
    inlets = _measuring(hall, "inlet", "temperature")
    reasons = _reasons(decision)
    nodes_of: dict[str, list[str]] = defaultdict(list)
    for node, config in hall.facility.nodes.items():
        nodes_of[config.rack].append(node)
    views = []
    for name, rack in hall.facility.power.racks.items():
        nodes = tuple(nodes_of[name])
        power_w, why = _power(snapshot, meters[name])
        row, tokens = study.get(name, {}), per_rack.get(name) or {}
        caps = _known(snapshot, [PointId(node, "total", "power_cap") for node in nodes])
        views.append(
            RackView(
                rack=name,
                power_w=power_w,
                why_no_power=why,
                load_w=number(row.get("load_w")),
                headroom_w=number(row.get("headroom_w")),
                rating_w=rack.rating,
                cap_low_w=min(caps, default=None),
                cap_high_w=max(caps, default=None),
                because=_because(reasons, nodes),
                tokens_per_s=number(tokens.get("tokens_per_s")),
                tokens_per_joule=number(tokens.get("tokens_per_joule")),
                sustained=number(tokens.get("sustained_p5")),
                inlet_c=max(_known(snapshot, inlets[name]), default=None),
                down_in=tuple(row.get("down_in") or ()),
                shared=tuple(row.get("shared") or ()),
                single_fed=row.get("single_fed"),
                mode=mode_of(hall, f"rack:{name}"),
                nodes=nodes,
            )
        )
    return views


def _supply_c(hall: Hall, snapshot: Snapshot | None, loop: str, kind: str) -> float | None:
    cdus = hall.facility.cooling.loops[loop].cdus
    return max(_known(snapshot, [PointId(c, "loop.secondary", kind) for c in cdus]), default=None)


def loops(hall: Hall) -> list[LoopView]:
    """Every liquid loop, in file order."""
    snapshot, decision = hall.snapshot(), hall.decision()
    cooling = fact(decision, "cooling")
    views = []
    for name in hall.facility.cooling.loops:
        row = cooling.get(name)
        row = row if isinstance(row, Mapping) else {}
        supply_c = number(row.get("supply_c"))
        setpoint_c = number(row.get("setpoint"))
        views.append(
            LoopView(
                loop=name,
                supply_c=_supply_c(hall, snapshot, name, "supply_temperature")
                if supply_c is None
                else supply_c,
                setpoint_c=_supply_c(hall, snapshot, name, "supply_setpoint")
                if setpoint_c is None
                else setpoint_c,
                target_c=number(row.get("target")),
                lower_c=number(row.get("L")),
                upper_c=number(row.get("U")),
                dew_point_c=number(row.get("dew_point_c")),
                to_dew_k=number(row.get("margin_k_to_dew")),
                to_throttle_k=number(row.get("margin_k_to_throttle")),
                bound=str(row.get("active_bound") or ""),
                text=str(row.get("text") or ""),
                mode=mode_of(hall, f"loop:{name}"),
            )
        )
    return views


def trust(hall: Hall) -> TrustView:
    """How far the data can be trusted, counted on the snapshot that the last cycle saw."""
    snapshot, devices = hall.snapshot(), hall.devices()
    stated = fact(hall.decision(), "trust")
    grades = (snapshot.quality & 0b11).tolist() if snapshot is not None else []
    counts = Counter[int](grades or [Grade.BAD] * len(hall.table))
    silent = tuple(d.id for d in devices if d.state not in ("good", "slow"))
    slow = tuple(d.id for d in devices if d.state == "slow")
    good, points = counts[Grade.GOOD], len(hall.table)
    text = str(stated.get("text") or "")
    if not text:
        text = (
            f"{good} of {points} values are good." if snapshot is not None else "Nothing read yet."
        )
    for lead, those in (("Not answering", silent), ("Slow to answer", slow)):
        if those:
            named = ", ".join(those[:3]) + (f" and {len(those) - 3} more" if those[3:] else "")
            text += f" {lead}: {named}."
    return TrustView(
        points=points,
        good=good,
        suspect=counts[Grade.SUSPECT],
        bad=counts[Grade.BAD],
        devices=len(devices),
        devices_bad=silent,
        blind=tuple(str(b) for b in stated.get("blind") or ()),
        text=text,
    )


def standing(study: Mapping[str, Any]) -> str:
    """How a study stands: "bad", "degraded" or "ok".

    Bad: something is over its limit in some case, or a rack is dark. Degraded: some single loss
    darkens a rack that has more than one feed.
    """
    rows = by_name(study.get("racks"), "rack").values()
    if study.get("ok") is not True or any("normal" in (row.get("down_in") or ()) for row in rows):
        return "bad"
    at_risk = any(row.get("down_in") and row.get("single_fed") is not True for row in rows)
    return "degraded" if at_risk else "ok"


def sentence(hall: Hall) -> tuple[str, str]:
    """The one thing to know, and how it stands: "ok", "degraded", "bad" or "unknown".

    Degraded: something is lost now, some single loss would darken a rack, or cooling has trouble,
    and what is left would still not be overloaded.
    """
    decision = hall.decision()
    study = fact(decision, "headroom")
    if decision is None or not study:
        return "Not known yet: the first cycle has not finished.", "unknown"
    stated = decision.facts.get("sentence")
    state = standing(study)
    if state == "ok" and (fact(decision, "losses").get("lost") or decision.facts.get("trouble")):
        state = "degraded"
    if isinstance(stated, str) and stated:
        return stated, state
    binding = study.get("binding") or {}
    left_w = number(binding.get("headroom_w"))
    where = f"{binding.get('element')} in {binding.get('case')}"
    if left_w is None:
        return "No element has a rating: headroom cannot be known.", "unknown"
    if study.get("ok") is True:
        safe = "Any single loss is survivable. " if state == "ok" else ""
        return f"{safe}Tightest: {where}, {room_left(left_w)} left.", state
    return f"Redundancy is lost: {where} lacks {lacking(-left_w)}.", state


def action(hall: Hall, which: str) -> tuple[str, int | None]:
    """The `last` or `next` intended action and its time (UTC ms); empty text when not known."""
    row = fact(hall.decision(), which)
    at_ms = number(row.get("at_ms"))
    return str(row.get("text") or ""), None if at_ms is None else round(at_ms)


def element_rows(study: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Rows of a headroom study, the tightest first, unrated and never alive ones last."""
    rows = by_name(study.get("elements"), "element").values()

    def tightness(row: Mapping[str, Any]) -> float:
        left_w = number(row.get("headroom_w"))
        return math.inf if left_w is None else left_w

    return iter(sorted(rows, key=tightness))
