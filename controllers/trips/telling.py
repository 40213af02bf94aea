"""What people are told of trip clocks: seconds to trip, minutes to a limit."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from controllers.base import Condition
from controllers.trips.clocks import Trips
from controllers.wording import kilowatts
from facility.commands import Severity
from facility.site import SiteModel

#: A limit further off than this is no news yet.
AHEAD_MIN: Final = 60.0
#: A trip nearer than this is told without waiting.
AT_ONCE_S: Final = 60.0


def trip_conditions(site: SiteModel, trips: Trips, *, starting: bool = False) -> list[Condition]:
    """`trip_near` of every clock that runs towards a trip, `limit_ahead` of rising loads.

    Args:
        site: the site.
        trips: the clocks of this cycle.
        starting: not every node has been heard yet; the worst that their caps may be is no news.
    """
    out: list[Condition] = []
    for c in np.flatnonzero(np.isfinite(trips.to_trip_s)):
        if starting and not trips.known[c]:
            continue
        name, left_s = trips.bands.elements[int(c)], float(trips.to_trip_s[c])
        how = "" if trips.known[c] else "; its load is not measured, the worst is counted"
        text = (
            f"{name} trips in {_whole(left_s)} s at {100.0 * float(trips.ratio[c]):.0f} % of its "
            f"rating{how}. Take load off it now."
        )
        numbers: dict[str, float | None] = {
            "seconds_to_trip": left_s,
            "used": float(trips.used[c]),
            "load_w": float(trips.load_w[c]),
        }
        out.append(
            Condition(
                "trip_near",
                name,
                Severity.CRITICAL,
                text,
                page=True,
                on_delay_s=0.0 if left_s <= AT_ONCE_S else None,
                about=(name,),
                numbers=numbers,
            )
        )
    topology = site.topology
    limit_w = np.where(site.element_meter >= 0, topology.metered_limit_w, topology.limit_w)
    with np.errstate(invalid="ignore"):
        near = (trips.to_limit_min > 0.0) & (trips.to_limit_min <= AHEAD_MIN)
    for e in np.flatnonzero(near):
        name, minutes = topology.elements[int(e)], float(trips.to_limit_min[e])
        text = (
            f"{name} reaches its limit of {kilowatts(float(limit_w[e]))} in {_whole(minutes)} min "
            "if its load goes on rising as in the last 15 min."
        )
        out.append(
            Condition(
                "limit_ahead",
                name,
                Severity.WARNING,
                text,
                about=(name,),
                numbers={"minutes_to_limit": minutes},
            )
        )
    return out


def seconds_left(trips: Trips) -> str:
    """The first trip to come, as a sentence; "" none is coming."""
    if not math.isfinite(trips.least_s):
        return ""
    c = int(np.argmin(trips.to_trip_s))
    name = trips.bands.elements[c].upper()
    return f"{name} trips in {_whole(trips.least_s)} s."


def trip_facts(site: SiteModel, trips: Trips) -> dict[str, Any]:
    """Element -> its clock and the minutes to its limit; null where there is none."""
    clock = {name: c for c, name in enumerate(trips.bands.elements)}
    out: dict[str, Any] = {}
    for e, name in enumerate(site.topology.elements):
        c, minutes = clock.get(name), float(trips.to_limit_min[e])
        if c is None and not math.isfinite(minutes):
            continue
        out[name] = {
            "used": None if c is None else float(trips.used[c]),
            "ratio": None if c is None else float(trips.ratio[c]),
            "known": None if c is None else bool(trips.known[c]),
            "hot": None if c is None else bool(trips.hot[c]),
            "seconds_to_trip": None if c is None else _finite(float(trips.to_trip_s[c])),
            "minutes_to_limit": _finite(minutes),
        }
    return out


def _whole(amount: float) -> str:
    """Rounded down: nobody is told of time that is not there."""
    return f"{math.floor(amount + 1e-6)}"


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
