"""The trip clock of each element with overload points: x runs from 0 (rested) to 1 (tripped).

With r = load/rating: x' = 1/T(r) from the rating up, x' = -x/T(first point) below it (control
law 1, "Trip clock"). Everything unknown counts as the worst that it can be: an unread load as what
its feeds' meters say, else as all that the loads below may draw; an unread temperature as hot. A
load between two looks counts as the greater of the two.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from controllers.flows import drawn_w, from_feeds_w
from controllers.headroom import Headroom
from controllers.kept import Kept
from controllers.trips.bands import Bands, bands_of
from controllers.trips.trend import TrendMemory, minutes_to_limit
from facility.points import FloatArray
from facility.site import SiteModel
from facility.snapshot import Snapshot
from facility.topology import Topology

BoolArray = npt.NDArray[np.bool_]

#: What is left of a clock below this is noise.
RESTED: Final = 1e-6
#: Longer than any overload point lasts.
LONG_S: Final = 1e12


@dataclass(frozen=True, eq=False)
class TripMemory:
    """What is remembered of the clocks.

    Attributes:
        used: float64[C], x of each clock.
        load_w: float64[C], load at the last look, W.
        metered_w: float64[E], last reading of each element's own meter, accuracy not added.
        excess_w: float64[E], what of it the meters of its feeds did not explain, >= 0.
        at_s: monotonic time of the last look.
        trend: of the known loads of all elements.
    """

    used: FloatArray = field(default_factory=lambda: np.zeros(0))
    load_w: FloatArray = field(default_factory=lambda: np.zeros(0))
    metered_w: FloatArray = field(default_factory=lambda: np.zeros(0))
    excess_w: FloatArray = field(default_factory=lambda: np.zeros(0))
    at_s: float | None = None
    trend: TrendMemory = field(default_factory=TrendMemory)


@dataclass(frozen=True, eq=False)
class Trips:
    """The clocks of one cycle.

    Attributes:
        bands: of the C elements that have a clock.
        used: float64[C], x, 0 to 1.
        load_w: float64[C], W counted; ratio: float64[C], over the rating.
        known: bool[C], whether that load is measured (and not only the worst that may be).
        hot: bool[C], whether its times are halved.
        to_trip_s: float64[C], s until x = 1 if the load stays; inf: never.
        to_limit_min: float64[E], minutes until the trend meets the limit; inf never, NaN unknown.
    """

    bands: Bands
    used: FloatArray
    load_w: FloatArray
    ratio: FloatArray
    known: BoolArray
    hot: BoolArray
    to_trip_s: FloatArray
    to_limit_min: FloatArray

    @property
    def least_s(self) -> float:
        """Seconds until the first of all trips; inf: none does."""
        return float(self.to_trip_s.min(initial=np.inf))

    def largest_load_w(self, within_s: float) -> FloatArray:
        """float64[C]: the most W under which the rest of each clock lasts `within_s` or more."""
        return self.bands.largest_ratio(self.used, self.hot, within_s) * self.bands.rating_w


def advance(
    bands: Bands, used: FloatArray, ratio: FloatArray, hot: BoolArray, dt_s: float
) -> FloatArray:
    """float64[C]: x after `dt_s` at a steady ratio.

    Args:
        bands: overload points.
        used: float64[C], x before.
        ratio: float64[C], load over rating.
        hot: bool[C].
        dt_s: at least 0.
    """
    allowed = bands.allowed_s(ratio, hot)
    with np.errstate(divide="ignore", invalid="ignore"):
        risen = np.where(allowed > 0.0, used + dt_s / allowed, 1.0)
        rested = used * np.where(bands.rest_s > 0.0, np.exp(-dt_s / bands.rest_s), 0.0)
    after = np.where(ratio < 1.0, np.where(rested < RESTED, 0.0, rested), risen)
    return np.asarray(np.minimum(after, 1.0))


def trip_clocks(
    site: SiteModel,
    topology: Topology,
    snapshot: Snapshot,
    headroom: Headroom,
    memory: TripMemory,
    *,
    doubt: bool,
    kept: Kept | None = None,
) -> tuple[Trips, TripMemory]:
    """Move every clock to now.

    Args:
        site: the site.
        topology: the plant as it is; what is dead in it carries nothing.
        snapshot: the present.
        headroom: of that plant; its loads are the worst that may flow.
        memory: of the cycle before.
        doubt: some loss is suspected: an unread load counts as in its worst case.
        kept: what the controller before left; None: unknown, so the worst.
    """
    bands = bands_of(site)
    seen, worst, metered, excess = _loads(site, topology, snapshot, headroom, memory, doubt)
    load = np.where(np.isnan(seen), worst, seen)[bands.rows]
    hot = _hot(bands, snapshot)
    ratio = load / bands.rating_w
    if memory.at_s is None or len(memory.used) != len(bands.rows):
        used = _taken_over(bands, kept, load, hot, snapshot.now_ms)
    else:
        dt_s = max(snapshot.now_s - memory.at_s, 0.0)
        worse = np.maximum(load, memory.load_w) / bands.rating_w
        used = advance(bands, memory.used, worse, hot, dt_s)
    allowed = bands.allowed_s(ratio, hot)
    growing = (ratio >= 1.0) & np.isfinite(allowed)
    to_trip = np.where(growing, (1.0 - used) * np.where(growing, allowed, 0.0), np.inf)
    trend = memory.trend.take(seen, snapshot.now_s)
    # The meter of an element that other halls use as well reads their load too.
    limit_w = np.where(site.element_meter >= 0, topology.metered_limit_w, topology.limit_w)
    trips = Trips(
        bands=bands,
        used=used,
        load_w=load,
        ratio=ratio,
        known=~np.isnan(seen[bands.rows]),
        hot=hot,
        to_trip_s=to_trip,
        to_limit_min=minutes_to_limit(trend, limit_w),
    )
    return trips, TripMemory(used, load, metered, excess, snapshot.now_s, trend)


def rested(site: SiteModel, now_ms: int) -> Kept:
    """What is kept of a plant that carried nothing until now, as a simulated one.

    Args:
        site: the site.
        now_ms: UTC.
    """
    nothing = dict.fromkeys(bands_of(site).elements, 0.0)
    return Kept(now_ms, nothing, nothing)


def _taken_over(
    bands: Bands, kept: Kept | None, load_w: FloatArray, hot: BoolArray, now_ms: int
) -> FloatArray:
    """float64[C]: x at the first look of a run.

    A clock of which nothing was written down may be about to trip. While nobody looked the load
    counts as the greater of before and now, and no clock rests; where the calendar says that no
    time has passed, an overload may have lasted for ever.

    Args:
        bands: overload points.
        kept: what the controller before left.
        load_w: float64[C], load now.
        hot: bool[C].
        now_ms: UTC.
    """
    if kept is None:
        return np.ones(len(bands.rows))
    used = np.array([kept.used.get(name, 1.0) for name in bands.elements])
    before = np.array([kept.load_w.get(name, np.inf) for name in bands.elements])
    away_s = (now_ms - kept.at_ms) / 1000.0
    ratio = np.maximum(load_w, before) / bands.rating_w
    after = advance(bands, used, ratio, hot, away_s if away_s >= 0.0 else LONG_S)
    return np.asarray(np.maximum(used, after))


def _loads(
    site: SiteModel,
    topology: Topology,
    snapshot: Snapshot,
    headroom: Headroom,
    memory: TripMemory,
    doubt: bool,
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """float64[E] each: load measured (NaN: unknown), worst that may flow, metered, excess.

    An element whose own meter is silent carries what its feeds' meters tell and what they did not
    explain when it was last heard.
    """
    accuracy = 1.0 + site.facility.power.meter_accuracy
    n = len(topology.elements)
    fresh = len(memory.metered_w) != n
    held = np.full(n, np.nan) if fresh else memory.metered_w
    excess = np.zeros(n) if fresh else memory.excess_w
    own = drawn_w(snapshot.good(site.element_meter))
    feeds = from_feeds_w(topology, drawn_w(snapshot.good(site.feed_meter)))
    dead = topology.compiled.dead[0]
    seen = np.where(np.isnan(own), feeds + excess, own) * accuracy
    worst = np.nan_to_num(headroom.worst_w) if doubt else headroom.normal_w
    doubtful = np.fmax(held, snapshot.usable(site.element_meter)) * accuracy
    both = ~np.isnan(own) & ~np.isnan(feeds)
    return (
        np.where(dead, 0.0, seen),
        np.where(dead, 0.0, np.fmax(worst, doubtful)),
        np.where(dead | ~np.isnan(own), own, held),
        np.where(dead, 0.0, np.where(both, np.maximum(own - feeds, 0.0), excess)),
    )


def _hot(bands: Bands, snapshot: Snapshot) -> BoolArray:
    """bool[C]: the warmest air read at an element is at its `hot`, or none is read."""
    if not bands.air.shape[1]:
        return np.isfinite(bands.hot_c)
    air_c = np.fmax.reduce(snapshot.good(bands.air), axis=1)
    return np.asarray(np.isfinite(bands.hot_c) & ~(air_c < bands.hot_c))
