"""Operators' leases: which are in force, and whether a wanted one fits."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from facility.commands import Override
from facility.site import SiteModel


@dataclass(frozen=True, slots=True)
class Admission:
    """What an override may have.

    Attributes:
        granted: value in force if taken, None: refused.
        bounded_by: what bounded it, or "" if it is granted as asked.
    """

    granted: float | None
    bounded_by: str


def in_force(overrides: Iterable[Override], now_ms: int) -> tuple[Override, ...]:
    """Leases that run now, oldest first; the newest per point counts last."""
    running = [o for o in overrides if o.since_ms <= now_ms < o.until_ms]
    return tuple(sorted(running, key=lambda o: (o.since_ms, o.id)))


def cap_overrides(site: SiteModel, overrides: Iterable[Override]) -> dict[str, Override]:
    """Node -> the lease that fixes its cap; the newest wins."""
    return {site.nodes[site.cap_index[o.point]]: o for o in overrides if o.point in site.cap_index}


def within_board(site: SiteModel, node: str, value: float) -> float:
    """The value inside what the board accepts."""
    i = site.node_index[node]
    return float(min(max(value, site.min_cap_w[i]), site.max_cap_w[i]))
