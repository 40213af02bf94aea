"""Whose caps hold the power plant: what nobody controls any more is told as one story."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from controllers.base import Condition
from controllers.headroom import Headroom
from controllers.wording import lacking
from facility.commands import Mode, Severity
from facility.site import SiteModel

HALL: Final = "hall"


@dataclass(frozen=True, slots=True)
class Hands:
    """Which elements carry nodes whose caps Wattkeeper moves.

    Attributes:
        any: whether it moves any cap at all.
        moving: elements below which it moves at least one cap.
        released: elements that nodes hang on, of which it moves none; all if it moves no cap.
        who: "Hall released", "Hall in observe", "Racks r01 and r02 released".
    """

    any: bool
    moving: Collection[str]
    released: Collection[str]
    who: str


def hands_of(site: SiteModel, modes: Mapping[str, Mode], used: npt.NDArray[np.bool_]) -> Hands:
    """Read it from the modes.

    Args:
        site: the site.
        modes: scope -> mode.
        used: bool[R, E], elements that a rack loads in some case.
    """
    activity = site.cap_activity(modes)
    acts = activity == Mode.AUTO.activity
    with_nodes = np.zeros(len(site.racks), dtype=np.bool_)
    with_nodes[site.node_rack] = True
    acting = np.zeros(len(site.racks), dtype=np.bool_)
    acting[site.node_rack[acts]] = True
    names = np.array(site.topology.elements)
    moving = used[acting].any(axis=0)
    if not acts.any():
        observed = bool((activity == Mode.OBSERVE.activity).any())
        who = "Hall in observe" if observed else "Hall released"
        return Hands(False, (), frozenset(names.tolist()), who)
    loose = with_nodes & ~acting
    left = used[loose].any(axis=0) & ~moving
    racks = [site.racks[int(i)] for i in np.flatnonzero(loose)]
    who = f"Rack{'s' if len(racks) > 1 else ''} {', '.join(racks)} released"
    return Hands(True, frozenset(names[moving].tolist()), frozenset(names[left].tolist()), who)


def released_conditions(
    hands: Hands, headroom: Headroom, over: Sequence[tuple[str, float]]
) -> list[Condition]:
    """`hall_released`: N+1 is gone, or a limit broken, where nobody's hands are on the caps.

    It pages only if something is over its limit now; the elements' own alarms hang on it.

    Args:
        hands: whose caps are moved.
        headroom: of the plant as it is.
        over: element and W over its limit by its own meter.
    """
    short = [n for n in headroom.negative() if n[0] in hands.released]
    names = headroom.topology.elements
    with np.errstate(invalid="ignore"):
        rows = np.flatnonzero(headroom.normal_w > headroom.limit_w)
    counted = [(names[e], float(headroom.normal_w[e] - headroom.limit_w[e])) for e in rows]
    now = [(element, over_w) for element, over_w in (*counted, *over) if element in hands.released]
    if not short and not now:
        return []
    text = f"{hands.who}; N+1 is not held by Wattkeeper. "
    if now:
        element, lacks_w = max(now, key=lambda n: n[1])
        text += f"{element} is {lacking(lacks_w)} over its limit now. "
    else:
        element, case, lacks_w = short[0]
        text += f"{element} lacks {lacking(lacks_w)} to stay within its limit after {case}. "
    more = len({e for e, *_ in short} | {e for e, _ in now}) - 1
    if more:
        text += f"{more} more element{'s' if more > 1 else ''} would be over. "
    text += "Take load away, or set the mode to auto."
    severity = Severity.CRITICAL if now else Severity.WARNING
    return [
        Condition(
            "hall_released",
            HALL,
            severity,
            text,
            page=bool(now),
            numbers={"missing_w": lacks_w},
        )
    ]
