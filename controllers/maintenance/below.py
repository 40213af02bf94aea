"""What hangs below something in maintenance: its alarms are kept, journalled and not told.

Suppressed alarms go on being evaluated. They are folded under the maintenance as consequences are
folded under a loss; when it ends, what still stands is told, and pages then if it would have.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final

import numpy as np

from controllers.base import Condition
from controllers.losses import footprints
from facility.commands import Severity
from facility.maintenance import Maintenance
from facility.site import SiteModel
from facility.topology import Topology

KIND: Final = "maintenance"


def alarm_key(work: Maintenance) -> str:
    """Key of the alarm that stands for a maintenance."""
    return f"{KIND}:{work.name}"


def work_conditions(works: Iterable[Maintenance], now_ms: int) -> list[Condition]:
    """One condition for each maintenance that is open now."""
    out = []
    for work in works:
        if not work.stands(now_ms):
            continue
        ticket = f" ({work.ticket})" if work.ticket else ""
        text = f"{work.subject} is in maintenance by {work.by}{ticket}: {work.reason}."
        out.append(
            Condition(
                "maintenance", work.name, Severity.INFO, text, on_delay_s=0.0, off_delay_s=0.0
            )
        )
    return out


def hangs_below(
    site: SiteModel, works: Sequence[Maintenance], now_ms: int, without: Topology
) -> dict[str, str]:
    """Thing -> key of the maintenance that explains it: what is worked on, and what it darkens.

    What another path still feeds is not below it: an alarm there is news.

    Args:
        site: the site.
        works: planned or open; only open ones count.
        now_ms: UTC.
        without: the plant without everything that is out of service.
    """
    open_now = tuple(work for work in works if work.stands(now_ms))
    return dict(_below(BySite(site), open_now, _ByTopology(without))) if open_now else {}


class BySite:
    """Makes a site a cache key by identity: it stays the same from cycle to cycle."""

    def __init__(self, site: SiteModel) -> None:
        self.site = site

    def __hash__(self) -> int:
        return id(self.site)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BySite) and other.site is self.site


class _ByTopology:
    def __init__(self, topology: Topology) -> None:
        self.topology = topology

    def __hash__(self) -> int:
        return id(self.topology)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ByTopology) and other.topology is self.topology


@lru_cache(maxsize=8)
def _below(
    key: BySite, open_now: tuple[Maintenance, ...], without: _ByTopology
) -> Mapping[str, str]:
    site, found = key.site, dict[str, str]()
    for work in open_now:
        for thing in _things(site, work):
            found.setdefault(thing, alarm_key(work))
    elements = [work for work in open_now if work.kind == "element"]
    if elements:
        # What only several of them together darken belongs to the first.
        first = alarm_key(elements[0])
        here, there = without.topology.compiled, site.topology.compiled
        dark = set(np.flatnonzero(there.up[0] & ~here.up[0]).tolist())
        for load in dark:
            for thing in _of_load(site, site.topology.loads[load]):
                found.setdefault(thing, first)
        for element in np.flatnonzero(here.dead[0] & ~there.dead[0]).tolist():
            for thing in _of_element(site, element):
                found.setdefault(thing, first)
        for column in np.flatnonzero(
            without.topology.dead_feeds & ~site.topology.dead_feeds
        ).tolist():
            for thing in _of_feed(site, column):
                found.setdefault(thing, first)
    return found


def _things(site: SiteModel, work: Maintenance) -> Iterator[str]:
    """What one maintenance takes with it, whatever else is out."""
    if work.kind == "device":
        yield work.subject
        return
    if work.kind != "element":
        yield from _of_load(site, work.subject)
        return
    yield work.subject
    print_ = footprints(site.topology).get(work.subject)
    if print_ is None:
        return
    for element in np.flatnonzero(print_.dead).tolist():
        yield from _of_element(site, element)
    for column in np.flatnonzero(print_.feeds).tolist():
        yield from _of_feed(site, column)


def _of_element(site: SiteModel, element: int) -> Iterator[str]:
    yield site.topology.elements[element]
    device = site.element_device[element]
    if device is not None:
        yield device


def _of_feed(site: SiteModel, column: int) -> Iterator[str]:
    load, feed = site.topology.feeds[column]
    yield f"{load}/{feed}"
    device = site.feed_device[column]
    if device is not None:
        yield device


@lru_cache(maxsize=4)
def _belonging(key: BySite) -> Mapping[str, tuple[str, ...]]:
    """Load -> its feeds and their meters, its nodes, and every device that measures it or is it."""
    site = key.site
    found: dict[str, list[str]] = {load: [] for load in site.topology.loads}
    for column, (load, _) in enumerate(site.topology.feeds):
        found[load].extend(_of_feed(site, column))
    for node, config in site.facility.nodes.items():
        found[config.rack].append(node)
    for device, entry in site.facility.devices.items():
        measured = entry.measures.rack or entry.measures.load
        if measured in found:
            found[measured].append(device)
    for loop in site.loops:
        for cdu, feeder in loop.config.cdus.items():
            found[feeder].append(cdu)
    return {load: tuple(things) for load, things in found.items()}


def _of_load(site: SiteModel, load: str) -> Iterator[str]:
    """A rack or another load, and everything that belongs to it."""
    yield load
    yield from _belonging(BySite(site))[load]
