"""How the counters of a device behave, from its profile."""

from __future__ import annotations

from dataclasses import dataclass

from drivers.profile.places import quantity_of
from drivers.profile.schema import Profile
from facility.kinds import KINDS


@dataclass(frozen=True, slots=True)
class Counting:
    """One counter, in its kind's canonical unit.

    Attributes:
        resolution: its least step.
        wraps_at: the value at which its register starts again from 0; None: it never does.
    """

    resolution: float
    wraps_at: float | None


def counting(profile: Profile, part: str, kind: str) -> Counting | None:
    """How a point of a profile counts; None where the profile has no such point.

    A sum of points steps by the step of one of them; it never wraps as a whole.
    """
    for entry in profile.points:
        rows = entry.part.removesuffix("*")
        here = part == entry.part or (entry.table is not None and part.startswith(rows))
        if here and entry.kind == kind:
            wraps = entry.wraps_at
            at = None if wraps is None else quantity_of(wraps, KINDS[kind])
            return Counting(entry.resolution, at)
    for total in profile.sums:
        if (total.part, total.kind) == (part, kind):
            of = counting(profile, f"{total.of}.1", kind)
            return None if of is None else Counting(of.resolution, None)
    return None
