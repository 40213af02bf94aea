"""How much of the power at the source reaches the racks, by the meters along the path.

A level counts when every element of it that carries load is metered, and all load flows through
it. Its meters are summed; the step from one level to the next is its efficiency. Losses smaller
than the meters' accuracy are not known; what is estimated for want of a meter adds to that.
"""

from __future__ import annotations

import itertools
from typing import Any, Final

import numpy as np

from controllers.capacity.sizing import LEVELS
from facility.points import FloatArray
from facility.site import SiteModel
from facility.snapshot import Snapshot

#: What a well-built path keeps from source to rack.
TARGET: Final = 0.97
#: So near to 1 all load flows through a level.
_WHOLE: Final = 1e-6


def conversion(site: SiteModel, snapshot: Snapshot) -> dict[str, Any]:
    """Levels with what flows through them, the steps between them, and source to rack.

    Args:
        site: the site.
        snapshot: the present; a level with a meter that is not GOOD does not count.
    """
    element_w = snapshot.good(site.element_meter)
    feed_w = snapshot.good(site.feed_meter)
    accuracy = site.facility.power.meter_accuracy
    found: list[tuple[str, float]] = []
    unknown: list[str] = []
    weights = _weights(site)
    for kind in LEVELS:
        rows = np.array([k == kind for k in site.topology.kinds], dtype=np.bool_)
        if not rows.any():
            continue
        through = weights[rows].sum(axis=0)
        live = ~site.topology.dead_feeds
        if not bool((np.abs(through[live] - 1.0) < _WHOLE).all()):
            unknown.append(f"{kind}: not all load flows through one")
            continue
        carrying = rows & (weights > 0.0).any(axis=1)
        if np.isnan(element_w[carrying]).any():
            unknown.append(f"{kind}: not all are metered")
            continue
        if bool((site.topology.share[carrying] < 1.0).any()):
            unknown.append(f"{kind}: other halls use it too")
            continue
        found.append((kind, float(element_w[carrying].sum())))
    silent = np.isnan(feed_w) & ~site.topology.dead_feeds
    of_racks = site.topology.feed_load < len(site.topology.racks)
    estimated_w = 0.0
    if len(feed_w) and not bool((silent & of_racks).any()):
        # Pumps and the like are seldom metered: they count at their nameplates.
        loads = np.unique(site.topology.feed_load[silent])
        estimated_w = float(site.topology.nameplate_w[loads].sum())
        known = ~np.isin(site.topology.feed_load, loads)
        found.append(("rack", float(np.nansum(feed_w[known])) + estimated_w))
    else:
        unknown.append("rack: not every feed is metered")
    doubt = 2.0 * accuracy
    steps = [
        _step(above, below, doubt, estimated_w if below[0] == "rack" else 0.0)
        for above, below in itertools.pairwise(found)
    ]
    last_w = estimated_w if found and found[-1][0] == "rack" else 0.0
    whole = _step(found[0], found[-1], doubt, last_w) if len(found) > 1 else None
    return {
        "levels": [{"level": kind, "power_w": watts} for kind, watts in found],
        "steps": steps,
        "source_to_rack": whole if whole is not None and whole["to"] == "rack" else None,
        "target": TARGET,
        "unknown": unknown,
        "text": _text(whole, unknown),
    }


def _weights(site: SiteModel) -> FloatArray:
    """float64[E, F]: W on each element per W on each feed, normal case."""
    t, c = site.topology, site.topology.compiled
    out = np.zeros((len(t.elements), len(t.feeds)))
    normal = c.pair_case[c.feed_pair[c.entry_feed]] == 0
    at = c.feed_column[c.entry_feed[normal]]
    np.add.at(out, (c.entry_element[normal], at), c.entry_weight[normal])
    return out


def _step(
    above: tuple[str, float], below: tuple[str, float], doubt: float, estimated_w: float
) -> dict[str, Any]:
    efficiency = below[1] / above[1] if above[1] > 0.0 else None
    if above[1] > 0.0:
        doubt += estimated_w / above[1]
    state = "unknown"
    if efficiency is not None:
        # A step that gains more than both meters' accuracy is a meter out of scale.
        if efficiency > 1.0 + doubt:
            state = "meters disagree"
        elif efficiency > 1.0:
            state = "unknown, within meter accuracy"
        elif efficiency >= TARGET:
            state = "good"
        else:
            state = "short" if efficiency < TARGET - doubt else "short, within meter accuracy"
    return {
        "from": above[0],
        "to": below[0],
        "in_w": above[1],
        "out_w": below[1],
        "loss_w": above[1] - below[1],
        "efficiency": efficiency,
        "estimated_w": estimated_w,
        "accuracy": doubt,
        "state": state,
    }


def _text(whole: dict[str, Any] | None, unknown: list[str]) -> str:
    if whole is None or whole["efficiency"] is None:
        return "Conversion losses are not known: " + "; ".join(unknown or ["nothing flows"]) + "."
    more = "" if whole["efficiency"] <= 1.0 else " More than all: the meters cannot tell the loss."
    return (
        f"{100.0 * whole['efficiency']:.1f} % of the power at the {whole['from']} level reaches "
        f"the {whole['to']} level (target {100.0 * TARGET:.0f} %, "
        f"meters ± {100.0 * whole['accuracy']:.0f} %).{more}"
    )
