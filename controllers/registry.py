"""The controllers by name: what each one is for, how often it acts, and what it needs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from facility.config import Facility
from facility.site import SiteModel


@dataclass(frozen=True, slots=True)
class Controller:
    """One controller.

    Attributes:
        name: as in `controllers:` of a facility file, and as the source of its proposals.
        says: what it does, in one sentence.
        period_s: how often it reconsiders; protection acts in every cycle.
        missing: what a site lacks for it, as sentences.
    """

    name: str
    says: str
    period_s: Callable[[Facility], float]
    missing: Callable[[SiteModel], list[str]]


def _headroom_lacks(site: SiteModel) -> list[str]:
    lacks = []
    for rack, columns in zip(site.racks, site.rack_feeds, strict=True):
        unmetered = [site.topology.feeds[int(c)][1] for c in columns if site.feed_meter[c] < 0]
        if unmetered:
            lacks.append(f"{rack}: no meter on feed {', '.join(unmetered)}")
    return lacks


def _allocation_lacks(site: SiteModel) -> list[str]:
    return [
        f"{name}: no cap that can be written"
        for i, name in enumerate(site.nodes)
        if site.node_cap[i] < 0 or not site.table.specs[int(site.node_cap[i])].writable
    ]


def _cooling_lacks(site: SiteModel) -> list[str]:
    lacks = []
    for loop in site.loops:
        needs = {
            "supply temperature": loop.supply,
            "flow": loop.flow,
            "set-point": loop.setpoint,
        }
        lacks += [
            f"{loop.name}: no {what}" for what, where in needs.items() if not np.any(where >= 0)
        ]
        if not loop.dew_temperature.size:
            lacks.append(f"{loop.name}: no sensor measures the dew point")
        if all(point is None for point in loop.setpoint_points):
            lacks.append(f"{loop.name}: no set-point can be written")
    return lacks


CONTROLLERS: Final = (
    Controller(
        "headroom",
        "Checks every single loss against the live load.",
        lambda f: f.control.period,
        _headroom_lacks,
    ),
    Controller(
        "allocation",
        "Gives every node the cap with the most tokens that every single loss allows.",
        lambda f: f.controllers.allocation.period,
        _allocation_lacks,
    ),
    Controller(
        "cooling",
        "Keeps each loop between condensation and throttling, and moves it where it is cheapest.",
        lambda f: f.controllers.cooling.period,
        _cooling_lacks,
    ),
)
