"""What people who work in the plant asked us to leave as it is: caps, set-points, devices."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from controllers.cooling import LoopOutcome
from controllers.guard import Draft, Drafts
from controllers.maintenance.below import BySite
from facility.maintenance import Maintenance
from facility.points import PointId
from facility.site import SiteModel

BoolArray = npt.NDArray[np.bool_]
Withheld = tuple[PointId, float, str]


def frozen_nodes(site: SiteModel, works: Iterable[Maintenance], now_ms: int) -> BoolArray:
    """bool[N]: nodes whose cap only protection may move; nothing is written to a node worked on."""
    scopes, devices = _held(works, now_ms)
    if not scopes and not devices:
        return np.zeros(len(site.nodes), dtype=np.bool_)
    return _frozen(BySite(site), frozenset(scopes), frozenset(devices))


@lru_cache(maxsize=8)
def _frozen(key: BySite, scopes: frozenset[str], devices: frozenset[str]) -> BoolArray:
    found = np.array(
        [
            name in devices or not scopes.isdisjoint(key.site.scopes_of(point))
            for name, point in zip(key.site.nodes, key.site.cap_points, strict=True)
        ],
        dtype=np.bool_,
    )
    found.setflags(write=False)
    return found


def let_be(
    site: SiteModel,
    works: Iterable[Maintenance],
    now_ms: int,
    drafts: Sequence[Draft],
    outcomes: Sequence[LoopOutcome],
) -> tuple[list[Draft], list[Withheld]]:
    """Writes that may go on, and those that wait for the end of a maintenance.

    A frozen loop is moved only back into [L, U]: outside it waiting does harm. A device that is
    worked on gets nothing.
    """
    scopes, devices = _held(works, now_ms)
    if not scopes and not devices:
        return list(drafts), []
    kept: list[Draft] = []
    waiting: list[Withheld] = []
    for draft in drafts:
        if draft.point.device in devices:
            why = f"{draft.point.device} is in maintenance"
            waiting.append((draft.point, draft.value, why))
            continue
        loop = site.setpoint_loop.get(draft.point)
        if loop is None or scopes.isdisjoint(site.scopes_of(draft.point)):
            kept.append(draft)
            continue
        bounds, present = outcomes[loop].bounds, outcomes[loop].present_c
        too_cold = present is not None and present < bounds.low_c
        too_warm = present is not None and bounds.high_c is not None and present > bounds.high_c
        if too_cold or too_warm:
            kept.append(draft)
        else:
            why = f"{site.loops[loop].name} is frozen for maintenance"
            waiting.append((draft.point, draft.value, why))
    return kept, waiting


def leave_caps(
    drafts: Drafts, works: Iterable[Maintenance], now_ms: int
) -> tuple[Drafts, list[Withheld]]:
    """As `let_be` for caps: writes that may go on, and those to nodes that are worked on."""
    _, devices = _held(works, now_ms)
    if not devices:
        return drafts, []
    worked = np.array([point.device in devices for point in drafts.points], dtype=np.bool_)
    waiting = [
        (drafts.points[i], float(drafts.value[i]), f"{drafts.points[i].device} is in maintenance")
        for i in np.flatnonzero(worked).tolist()
    ]
    return drafts.only(~worked), waiting


def worked_on(works: Iterable[Maintenance], now_ms: int) -> set[str]:
    """Devices that are worked on: they get nothing."""
    return _held(works, now_ms)[1]


def _held(works: Iterable[Maintenance], now_ms: int) -> tuple[set[str], set[str]]:
    """Frozen scopes, and devices that are worked on."""
    scopes: set[str] = set()
    devices: set[str] = set()
    for work in works:
        if work.stands(now_ms):
            scopes.update(work.freeze)
            if work.kind == "device":
                devices.add(work.subject)
    return scopes, devices


def told(works: Iterable[Maintenance], now_ms: int, secured: bool) -> list[dict[str, Any]]:
    """What a cycle says of every maintenance that is not over.

    Args:
        works: all that the cycle was given.
        now_ms: UTC.
        secured: whether N+1 holds on the plant without everything that is out.
    """
    return [
        {
            **work.to_json(),
            "state": work.state(now_ms),
            "secured": secured if work.counts(now_ms) else None,
        }
        for work in works
        if now_ms < work.until_ms
    ]
