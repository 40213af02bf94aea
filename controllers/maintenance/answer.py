"""The answer to "may I open this then?": worlds studied, consequences, verdict."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from controllers.headroom import Headroom, study
from controllers.maintenance.caps import CapsThatFollow, caps_that_follow
from controllers.maintenance.consequences import Consequence, consequences, spareless
from controllers.maintenance.now import Now
from controllers.maintenance.switching import View, steps_json
from controllers.wording import lacking, listed
from facility.maintenance import Maintenance, out_of
from facility.points import FloatArray
from facility.topology import Topology

#: What nobody may accept for a planned switching: it breaks something at once.
NO: Final = frozenset({"dark_racks", "dark_loads", "overload"})


@dataclass(frozen=True, eq=False)
class Price:
    """What one more thing out of service costs.

    Attributes:
        before, after: the plant then, without and with it.
        headroom: of `after`, at the caps that follow where somebody moves caps, else as it is.
        caps: None where nobody would move any.
    """

    before: Topology
    after: Topology
    headroom: Headroom
    caps: CapsThatFollow | None
    consequences: tuple[Consequence, ...]


def plants(
    now: Now, others: Iterable[Maintenance], out: Sequence[str]
) -> tuple[Topology, Topology]:
    """The plant with the other work of that time going on, and without `out` as well.

    What is asked about stands in the first, even if it is lost now: else its loss would cost
    nothing.
    """
    lost = [name for name in now.lost if name not in out]
    before = now.site.topology.without(out_of(others)).without(lost)
    return before, before.without(out)


def price(
    now: Now,
    others: Sequence[Maintenance],
    out: Sequence[str],
    load_w: FloatArray,
    *,
    acting: bool,
) -> Price:
    """What it costs to take something out.

    Args:
        now: the last cycle's.
        others: maintenance that counts at that time.
        out: as `Topology.without` takes it; nothing costs nothing.
        load_w: float64[L], loads of that time, W.
        acting: whether caps would be moved.
    """
    before, after = plants(now, others, out)
    if not out:
        return Price(before, after, study(after, load_w, now.loads.split), None, ())
    caps = _caps(now, after, load_w) if acting else None
    answer = study(after, load_w, now.loads.split) if caps is None else caps.headroom
    known = {
        element
        for element, _, _ in study(before, load_w, now.loads.split).negative()
        if caps is None
    }
    found = consequences(before, answer, now.site.facility.cooling.loops, known)
    return Price(before, after, answer, caps, found)


def _at_caps(now: Now, load_w: FloatArray) -> FloatArray:
    """Loads of that time, managed racks held by the caps as they are now."""
    managed = np.zeros(len(load_w), dtype=np.bool_)
    managed[now.site.node_rack] = True
    return np.asarray(np.where(managed, np.minimum(load_w, now.loads.load_w), load_w))


def _caps(now: Now, topology: Topology, load_w: FloatArray) -> CapsThatFollow | None:
    if not now.site.nodes:
        return None
    return caps_that_follow(
        now.site,
        topology,
        load_w,
        now.loads.split,
        now.in_force_w,
        now.loads.overheads_w(now.site),
    )


def switching(
    now: Now,
    others: Sequence[Maintenance],
    element: str,
    load_w: FloatArray,
    *,
    acting: bool,
) -> dict[str, Any]:
    """Answer, verdict, consequences and steps of one switching, as plain fields.

    Args:
        now: the last cycle's.
        others: maintenance that counts in the window.
        element: to be switched.
        load_w: float64[L], forecast of the window, W.
        acting: whether caps would be moved.
    """
    cost = price(now, others, (element,), load_w, acting=acting)
    site, split = now.site, now.loads.split
    held_w = _at_caps(now, load_w) if acting else load_w
    whole = View(
        study(cost.before, held_w, split),
        _caps(now, cost.before, load_w) if acting else None,
        cost.before,
    )
    without = View(study(cost.after, held_w, split), cost.caps, cost.before)
    kind = site.facility.power.elements[element].kind
    views = {"whole": whole, "without": without}
    steps = steps_json(element, kind, cost.after.power, views)  # type: ignore[arg-type]
    codes = [one.code for one in cost.consequences]
    hopeless = cost.caps is not None and not cost.caps.fits and not codes
    refused = hopeless or bool(NO.intersection(codes))
    answer = "no" if refused else ("if accepted" if codes else "yes")
    return {
        "element": element,
        "kind": kind,
        "answer": answer,
        "verdict": _verdict(element, answer, cost),
        "consequences": [one.to_json() for one in cost.consequences],
        "accept": [code for code in codes if code not in NO],
        "caps": None if cost.caps is None else cost.caps.to_json(),
        "steps": steps,
    }


def _verdict(element: str, answer: str, cost: Price) -> str:
    told = " ".join(one.text for one in cost.consequences)
    caps = "" if cost.caps is None else cost.caps.text
    if answer == "yes":
        return f"Yes: {element} may be opened{_further(cost)} {caps}".strip()
    if answer == "no":
        return f"No: {element} must not be opened then. {told} {caps}".strip()
    return f"Only if somebody accepts this: {told} {caps}".strip()


def _further(cost: Price) -> str:
    """What further losses do when it costs nothing; some plants are short before it is opened."""
    racks = cost.after.racks
    alone = [racks[i] for i in np.flatnonzero(spareless(cost.after)[: len(racks)])]
    if cost.headroom.ok and not alone:
        return ", and any further single loss is survivable."
    parts = ["; it makes nothing worse, but not every further loss is survivable."]
    if alone:
        have = "has" if len(alone) == 1 else "have"
        parts.append(f"{listed(alone)} {have} no spare feed with or without it.")
    short = cost.headroom.negative()
    if short:
        name, case, lacks_w = short[0]
        parts.append(f"{name} lacks {lacking(lacks_w)} in {case} with or without it.")
    return " ".join(parts)


def text_of(statement: dict[str, Any]) -> str:
    """The statement as a shift lead pastes it into a ticket; plain text, no tables."""
    lines = [
        f"Switching {statement['element']} ({statement['kind']}), {statement['site']}",
        f"Window: {statement['window']['text']}",
        f"Answer: {statement['answer'].upper()}",
        statement["verdict"],
        (
            f"Load: {statement['forecast']['total_w'] / 1e3:.0f} kW in all; "
            f"{statement['forecast']['basis']}."
        ),
        "",
    ]
    told: dict[tuple[str, ...], int] = {}
    for step in statement["steps"]:
        mark = "ok" if step["safe"] else "NOT SAFE"
        lines.append(f"{step['n']}. [{mark}] {step['do']}")
        notes = tuple(_notes(step))
        if notes in told:
            lines.append(f"   - as in step {told[notes]}")
        elif notes:
            told[notes] = step["n"]
            lines.extend(f"   - {note}" for note in notes)
    if statement["other_work"]:
        lines += ["", f"Also out then: {', '.join(statement['other_work'])}."]
    lines += [
        "",
        (
            f"Asked by {statement['asked_by']} at {statement['asked_at']}; "
            f"valid until {statement['valid_until']}."
        ),
        f"Void if: {'; '.join(statement['void_if'])}.",
        f"Config {statement['config_sha256'][:16]}, data {statement['data']['text']}.",
        f"Statement {statement['id']}",
    ]
    return "\n".join(lines)


def _notes(step: dict[str, Any]) -> list[str]:
    if step["world"] == "whole":
        return []
    notes = []
    if step["dark_racks"]:
        notes.append(f"dark: {_some(step['dark_racks'])}")
    if step["dark_loads"]:
        notes.append(f"without supply: {_some(step['dark_loads'])}")
    if step["single_fed"]:
        notes.append(f"on their last feed: {_some(step['single_fed'])}")
    for row in step["over_now"][:3]:
        notes.append(f"{row['element']} {row['over_w'] / 1e3:.1f} kW over its limit, caps as now")
    for row in step["further_loss"]["over"][:3]:
        notes.append(
            f"{row['element']} lacks {row['lacks_w'] / 1e3:.1f} kW after {row['case']}, caps as now"
        )
    if step["further_loss"]["darkens"]:
        count = len(step["further_loss"]["darkens"])
        notes.append(f"{count} further losses would darken racks")
    if step["caps"] is not None:
        notes.append(f"caps: {step['caps']['text']}")
    return notes


def _some(names: Sequence[str]) -> str:
    more = len(names) - 8
    return ", ".join(names[:8]) + (f" and {more} more" if more > 0 else "")
