"""Which meters must add up: each element, or elements that share what they feed, as one equation.

What has several parents (members of a group, two sides of a switch, `fed_by: [x, y]`) splits in a
way that no law of the file measures, so those parents are balanced together: what they give in all
is what all their children take. A child without a meter is replaced by what hangs on it; a load
without a meter leaves its parents without an equation.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np

from facility.points import FloatArray, IntArray
from facility.site import SiteModel

#: What a converter that is measured on one side may lose, as a part of what it gives: an older
#: double-conversion UPS, a transformer, a rectifier shelf (research: .96 for a rectifier).
MAY_LOSE: Final = {"ups": 0.10, "transformer": 0.03, "shelf": 0.06}


@dataclass(frozen=True, eq=False)
class Balance:
    """B equations over M meters: sum of `sign` · reading is nothing but errors and losses.

    Attributes:
        members: per equation, the elements that it balances, in file order.
        row, meter: int64[K], terms; sign: float64[K], +1 own, -1 a child's.
        may_lose: float64[K], part of a child's reading that may be lost above it, 0 where measured.
        points: int64[M, P], indexes into the image of what makes up a meter, padded with -1.
        names: of the meters: an element, "element (input)", or "load/feed".
        dead_element, dead_feed: int64[M], whose death makes a meter read nothing; -1.
        unmetered: element -> the nearest thing without a meter that denies it an equation.
    """

    members: tuple[tuple[str, ...], ...]
    row: IntArray
    meter: IntArray
    sign: FloatArray
    may_lose: FloatArray
    points: IntArray
    names: tuple[str, ...]
    dead_element: IntArray
    dead_feed: IntArray
    unmetered: dict[str, str]


#: (meter, part that may be lost above it)
Term = tuple[int, float]


class _NoMeterError(Exception):
    """Something below is not metered; its name."""


class _Plan:
    """Finds the equations of a site."""

    def __init__(self, site: SiteModel) -> None:
        self.site, power = site, site.facility.power
        self.power = power
        self.names = site.topology.elements
        self.index = site.topology.element_index
        self.above = [self._elements_of(self._parents(name)) for name in self.names]
        self.feed_above = [
            self._elements_of([{**power.racks, **power.loads}[load].feeds[feed]])
            for load, feed in site.topology.feeds
        ]
        self.leader = list(range(len(self.names)))
        for parents in (*self.above, *self.feed_above):
            for other in parents[1:]:
                self._join(parents[0], other)
        self.sets: dict[int, list[int]] = {}
        for e in range(len(self.names)):
            self.sets.setdefault(self._find(e), []).append(e)
        self.child_elements: dict[int, list[int]] = {s: [] for s in self.sets}
        self.child_feeds: dict[int, list[int]] = {s: [] for s in self.sets}
        for e, parents in enumerate(self.above):
            if parents:
                self.child_elements[self._find(parents[0])].append(e)
        for f, parents in enumerate(self.feed_above):
            if parents:
                self.child_feeds[self._find(parents[0])].append(f)
        self.input_points = self._inputs()
        self.meters: dict[str, int] = {}
        self.points: list[list[int]] = []
        self.dead: list[tuple[int, int]] = []

    def _parents(self, name: str) -> list[str]:
        element = self.power.elements[name]
        if element.transfer is not None:
            return [element.transfer.normal, element.transfer.alternate]
        return list(element.fed_by)

    def _elements_of(self, names: Iterable[str]) -> list[int]:
        """Elements that names stand for, groups taken apart."""
        found: dict[int, None] = {}
        stack = list(names)[::-1]
        while stack:
            name = stack.pop()
            if name in self.index:
                found[self.index[name]] = None
            else:
                stack.extend(reversed(self.power.groups[name].members))
        return list(found)

    def _find(self, element: int) -> int:
        while self.leader[element] != element:
            element = self.leader[element]
        return element

    def _join(self, one: int, other: int) -> None:
        a, b = self._find(one), self._find(other)
        self.leader[max(a, b)] = min(a, b)

    def _inputs(self) -> dict[int, list[int]]:
        """Element -> its meters of what it takes in, for those that tell it."""
        found: dict[int, list[int]] = {}
        for e, device in enumerate(self.site.element_device):
            for i in self.site.device_points.get(device or "", ()):
                point = self.site.table.specs[int(i)].id
                if point.kind == "active_power" and point.part.split(".")[0] == "input":
                    found.setdefault(e, []).append(int(i))
        return found

    def _meter(self, name: str, points: list[int], element: int = -1, feed: int = -1) -> int:
        if name not in self.meters:
            self.meters[name] = len(self.points)
            self.points.append(points)
            self.dead.append((element, feed))
        return self.meters[name]

    def own(self, e: int) -> Term:
        """The meter of what an element gives."""
        point = int(self.site.element_meter[e])
        if point < 0:
            raise _NoMeterError(self.names[e])
        return self._meter(self.names[e], [point], element=e), 0.0

    def children(self, leader: int, inside: frozenset[int] = frozenset()) -> list[Term]:
        """What all children of a set take.

        Raises:
            _NoMeterError: something has no meter, nor all that hangs on it.
        """
        if leader in inside:
            raise _NoMeterError(self.names[leader])
        inside |= {leader}
        out: list[Term] = []
        for f in self.child_feeds[leader]:
            point = int(self.site.feed_meter[f])
            name = "/".join(self.site.topology.feeds[f])
            if point < 0:
                raise _NoMeterError(name)
            out.append((self._meter(name, [point], feed=f), 0.0))
        waiting: set[int] = set()
        for e in self.child_elements[leader]:
            lost = MAY_LOSE.get(self.site.topology.kinds[e], 0.0)
            if e in self.input_points:
                name = f"{self.names[e]} (input)"
                out.append((self._meter(name, self.input_points[e], element=e), 0.0))
            elif self.site.element_meter[e] >= 0:
                out.append((self.own(e)[0], lost))
            else:
                waiting.add(self._find(e))
        for below in sorted(waiting):
            if not set(self.sets[below]) <= set(self.child_elements[leader]):
                raise _NoMeterError(self.names[below])
            if any(self.site.element_meter[e] >= 0 for e in self.sets[below]):
                raise _NoMeterError(self.names[below])
            lost = max(MAY_LOSE.get(self.site.topology.kinds[e], 0.0) for e in self.sets[below])
            out += [(m, more + lost) for m, more in self.children(below, inside)]
        return out

    def balance(self) -> Balance:
        members: list[tuple[str, ...]] = []
        terms: list[tuple[int, int, float, float]] = []
        unmetered: dict[str, str] = {}
        for leader, elements in self.sets.items():
            try:
                for e in elements:
                    if self.site.topology.share[e] < 1.0:
                        # Its meter reads other halls' load too, which no file of ours declares.
                        raise _NoMeterError(f"{self.names[e]} in other halls")
                own = [self.own(e) for e in elements]
                below = self.children(leader)
            except _NoMeterError as missing:
                unmetered |= {self.names[e]: str(missing) for e in elements}
                continue
            row = len(members)
            members.append(tuple(self.names[e] for e in elements))
            terms += [(row, m, 1.0, 0.0) for m, _ in own]
            terms += [(row, m, -1.0, lost) for m, lost in below]
        width = max((len(p) for p in self.points), default=1)
        points = np.full((len(self.points), width), -1, dtype=np.int64)
        for m, indexes in enumerate(self.points):
            points[m, : len(indexes)] = indexes
        return Balance(
            members=tuple(members),
            row=np.array([t[0] for t in terms], dtype=np.int64),
            meter=np.array([t[1] for t in terms], dtype=np.int64),
            sign=np.array([t[2] for t in terms], dtype=np.float64),
            may_lose=np.array([t[3] for t in terms], dtype=np.float64),
            points=points,
            names=tuple(self.meters),
            dead_element=np.array([e for e, _ in self.dead], dtype=np.int64),
            dead_feed=np.array([f for _, f in self.dead], dtype=np.int64),
            unmetered=unmetered,
        )


class _BySite:
    """Makes a site a cache key by identity."""

    def __init__(self, site: SiteModel) -> None:
        self.site = site

    def __hash__(self) -> int:
        return id(self.site)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _BySite) and other.site is self.site


@lru_cache(maxsize=8)
def _balance(key: _BySite) -> Balance:
    return _Plan(key.site).balance()


def balance_of(site: SiteModel) -> Balance:
    """The equations of a site, found once."""
    return _balance(_BySite(site))
