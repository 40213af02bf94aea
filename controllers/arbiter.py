"""Folds what controllers want of a point into one value inside one room.

Law: from the highest rank down bounds intersect; an empty intersection keeps the senior's room
and marks a conflict. Within a rank an empty intersection goes to the kind's conflict side (supply
temperature: the lower bound wins, a condensing plate is worse than a warm one; cap: the lowest).
Then the most junior stated preference is taken, clamped into the room.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Final

from facility.commands import UNBOUNDED, Bounds, Proposal, Setpoint, Side
from facility.points import PointId

#: Where a point goes when bounds of one rank contradict each other.
CONFLICT_SIDE: Final[Mapping[str, Side]] = {
    "power_cap": Side.LOW,
    "supply_setpoint": Side.HIGH,
}


def conflict_side(point: PointId) -> Side:
    """The safe end for a kind of point; LOW for kinds without an entry."""
    return CONFLICT_SIDE.get(point.kind, Side.LOW)


def _order(proposal: Proposal) -> tuple[object, ...]:
    prefer = math.inf if proposal.prefer is None else proposal.prefer
    bounds = proposal.bounds
    return (int(proposal.rank), proposal.source, bounds.low, bounds.high, prefer, proposal.reason)


def _meet(proposals: Sequence[Proposal], side: Side) -> tuple[Bounds, bool]:
    room = UNBOUNDED
    for proposal in proposals:
        room = room.meet(proposal.bounds)
    if not room.empty:
        return room, False
    end = room.low if side is Side.HIGH else room.high
    return Bounds(end, end), True


def _safest(values: Iterable[float], side: Side) -> float:
    return max(values) if side is Side.HIGH else min(values)


def _tight(room: Bounds, value: float, ordered: Sequence[Proposal]) -> Proposal | None:
    """The most senior proposal whose bound is the end of the room that `value` sits on."""
    for proposal in ordered:
        if value in (proposal.bounds.low, proposal.bounds.high) and value in (room.low, room.high):
            return proposal
    return None


def arbitrate(
    point: PointId, proposals: Iterable[Proposal], present: float | None
) -> Setpoint | None:
    """One point's set-point; None when nothing says where it should be.

    Args:
        point: all proposals name it.
        proposals: in any order; the result does not depend on it.
        present: the value in force, None when unknown.
    """
    ordered = sorted(proposals, key=_order)
    side = conflict_side(point)
    room, conflict = UNBOUNDED, False
    for _, group in groupby(ordered, key=lambda p: p.rank):
        own, clash = _meet(list(group), side)
        joint = room.meet(own)
        conflict = conflict or clash or joint.empty
        if not joint.empty:
            room = joint
    stated = [p for p in ordered if p.prefer is not None]
    if stated:
        junior = max(p.rank for p in stated)
        voters = [p for p in stated if p.rank is junior]
        wanted = _safest([p.prefer for p in voters if p.prefer is not None], side)
        author = next(p for p in voters if p.prefer == wanted)
    elif present is not None:
        wanted, author = present, None
    else:
        wanted, author = (room.high if side is Side.HIGH else room.low), None
    value = room.clamp(wanted)
    if not math.isfinite(value):
        return None
    bound = _tight(room, value, ordered) if value != wanted or author is None else None
    setter = bound or author
    if setter is None:
        because = f"held at {value:g}: no controller asks for anything else"
        return Setpoint(point, value, room, because, conflict)
    because = f"{setter.source}: {setter.reason}"
    if bound is not None and author is not None and value != wanted:
        because += f" ({author.source} wanted {wanted:g})"
    if conflict:
        because += "; a junior bound could not be met"
    return Setpoint(point, value, room, because, conflict, setter.rank)


def arbitrate_all(
    proposals: Iterable[Proposal], present: Mapping[PointId, float]
) -> tuple[Setpoint, ...]:
    """Set-points of every point that is proposed for, ordered by point."""
    by_point: dict[PointId, list[Proposal]] = {}
    for proposal in proposals:
        by_point.setdefault(proposal.point, []).append(proposal)
    found = (arbitrate(p, by_point[p], present.get(p)) for p in sorted(by_point))
    return tuple(setpoint for setpoint in found if setpoint is not None)
