"""Overload points of all elements as arrays, and T(r): for how long an overload r is borne.

T(r) is the time of the first listed point at or above r (log-log between two points only with
`curve: inverse`), nothing above the last point, for ever at or below the continuous share; `hot`
halves it. The law is control law 1, "Trip clock".
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt

from facility.points import FloatArray, IntArray
from facility.site import SiteModel

BoolArray = npt.NDArray[np.bool_]

#: A load that is at a point but for the last digits of a float is at the point.
AT_POINT: Final = 1e-9


@dataclass(frozen=True, eq=False)
class Bands:
    """Elements with overload points and a rating: C of them, at most B points each.

    Attributes:
        elements: their names, in file order; rows: int64[C], their rows in the topology.
        rating_w: float64[C], W; continuous: float64[C], the part of it that is borne for ever.
        ratio: float64[C, B], load/rating of each point, rising, padded with inf.
        seconds: float64[C, B + 1], never rising, padded with 0 (above the last point).
        inverse: bool[C], log-log between points.
        hot_c: float64[C], air temperature from which on times are halved; inf: never.
        air: int64[C, A], indexes of the temperatures at the element, padded with -1.
    """

    elements: tuple[str, ...]
    rows: IntArray
    rating_w: FloatArray
    continuous: FloatArray
    ratio: FloatArray
    seconds: FloatArray
    inverse: BoolArray
    hot_c: FloatArray
    air: IntArray

    @property
    def rest_s(self) -> FloatArray:
        """float64[C]: time constant at which a clock runs down below the rating, s.

        The time of the first point, as listed: heat that halves the bands cools nothing faster.
        """
        return self.seconds[:, 0]

    def allowed_s(self, ratio: FloatArray, hot: BoolArray) -> FloatArray:
        """T(r) in s, inf for ever.

        Args:
            ratio: float64[C], load over rating.
            hot: bool[C], times are halved.
        """
        r = ratio * (1.0 - AT_POINT)
        each = np.arange(len(self.rows))
        at = (self.ratio < r[:, None]).sum(axis=1)
        seconds = self.seconds[each, at]
        before = np.maximum(at - 1, 0)
        last = self.ratio.shape[1] - 1
        high, low = self.ratio[each, np.minimum(at, last)], self.ratio[each, before]
        slow = self.seconds[each, before]
        between = self.inverse & (at > 0) & (seconds > 0.0) & np.isfinite(high) & (high > low)
        with np.errstate(divide="ignore", invalid="ignore"):
            part = np.log(r / low) / np.log(high / low)
            curved = np.exp(np.log(slow) * (1.0 - part) + np.log(seconds) * part)
        seconds = np.where(between, curved, seconds)
        seconds = np.where(hot, seconds / 2.0, seconds)
        return np.where(r <= self.continuous, np.inf, seconds)

    def largest_ratio(self, used: FloatArray, hot: BoolArray, within_s: float) -> FloatArray:
        """float64[C]: the largest r at which the rest of the clock lasts at least `within_s`.

        (1 - x)·T(r) >= within_s; at least the continuous share, which is borne for ever.

        Args:
            used: float64[C], x of each clock.
            hot: bool[C].
            within_s: twice the time that shedding takes, s.
        """
        left = np.maximum(1.0 - used, 0.0)[:, None]
        seconds = self.seconds[:, :-1] * np.where(hot, 0.5, 1.0)[:, None]
        enough = (left * seconds >= within_s) & np.isfinite(self.ratio)
        count = np.logical_and.accumulate(enough, axis=1).sum(axis=1)
        each = np.arange(len(self.rows))
        at = np.maximum(count - 1, 0)
        found = np.where(count > 0, self.ratio[each, at], self.continuous)
        width = self.ratio.shape[1]
        after = np.minimum(count, width - 1)
        curve = self.inverse & (count > 0) & (count < width) & np.isfinite(self.ratio[each, after])
        slow, fast = seconds[each, at], seconds[each, after]
        with np.errstate(divide="ignore", invalid="ignore"):
            part = np.log(slow * left[:, 0] / within_s) / np.log(slow / fast)
            reach = self.ratio[each, at] * (self.ratio[each, after] / self.ratio[each, at]) ** part
        curve &= (fast > 0.0) & np.isfinite(reach) & (slow > fast)
        found = np.where(curve, np.maximum(found, reach), found)
        return np.maximum(found, self.continuous)


class _BySite:
    """Makes a site a cache key by identity."""

    def __init__(self, site: SiteModel) -> None:
        self.site = site

    def __hash__(self) -> int:
        return id(self.site)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _BySite) and other.site is self.site


@lru_cache(maxsize=8)
def _bands(key: _BySite) -> Bands:
    site = key.site
    topology, elements = site.topology, site.facility.power.elements
    rows = [
        i
        for i, name in enumerate(topology.elements)
        if elements[name].overload and np.isfinite(topology.rating_w[i])
    ]
    names = tuple(topology.elements[i] for i in rows)
    width = max((len(elements[name].overload) for name in names), default=1)
    ratio = np.full((len(rows), width), np.inf)
    seconds = np.zeros((len(rows), width + 1))
    for c, name in enumerate(names):
        for b, (share, time_s) in enumerate(sorted(elements[name].overload)):
            ratio[c, b], seconds[c, b] = share, time_s
        # A point above another that is said to last longer counts as what the lower one lasts.
        count = len(elements[name].overload)
        seconds[c, :count] = np.minimum.accumulate(seconds[c, :count])
    at = np.array(rows, dtype=np.int64)
    hot = [elements[name].hot for name in names]
    return Bands(
        elements=names,
        rows=at,
        # The meter of an element that other halls use as well reads their load too.
        rating_w=topology.rating_w[at]
        / np.where(site.element_meter[at] >= 0, topology.share[at], 1.0),
        continuous=topology.limit_w[at] / topology.rating_w[at],
        ratio=ratio,
        seconds=seconds,
        inverse=np.array([elements[name].curve == "inverse" for name in names], dtype=np.bool_),
        hot_c=np.array([np.inf if h is None else h for h in hot], dtype=np.float64),
        air=_air(site, names),
    )


def _air(site: SiteModel, names: tuple[str, ...]) -> IntArray:
    """Every temperature that some device reads at an element; not that of a battery."""
    at: dict[str, list[int]] = {name: [] for name in names}
    for device, config in site.facility.devices.items():
        element = config.measures.element
        if element not in at:
            continue
        for index in site.device_points.get(device, ()):
            point = site.table.specs[int(index)].id
            if point.kind == "temperature" and not point.part.startswith("battery"):
                at[element].append(int(index))
    width = max((len(found) for found in at.values()), default=0)
    out = np.full((len(names), width), -1, dtype=np.int64)
    for c, name in enumerate(names):
        out[c, : len(at[name])] = at[name]
    return out


def bands_of(site: SiteModel) -> Bands:
    """The overload points of a site, joined once."""
    return _bands(_BySite(site))
