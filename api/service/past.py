"""The same hours of past weeks, read from history, for a forecast."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

import numpy as np

from controllers.maintenance.forecast import STEP_S
from facility.points import FloatArray, PointId
from facility.site import SiteModel
from facility.store import Store
from facility.store.adapters import committed
from facility.store.errors import HistoryLimit, StoreError
from facility.store.past import Question

#: How far back it looks.
WEEKS: Final = 6
#: No more questions than this at a time: control needs the store too.
AT_ONCE: Final = 4
#: Loads of one question; each has a few feeds.
LOADS: Final = 50
#: What has not been read by then counts as unknown, s.
PATIENCE_S: Final = 20.0
#: A window is looked at in the past with no more than this, s: a week holds every hour there is.
LONGEST_S: Final = 7 * 86_400.0


def windows(at_ms: int, for_s: float, zone: ZoneInfo) -> list[tuple[int, int]]:
    """The same weekday and wall-clock hours, 1 to `WEEKS` weeks before; UTC ms, newest first."""
    start = datetime.fromtimestamp(at_ms / 1000.0, UTC).astimezone(zone).replace(tzinfo=None)
    out = []
    for week in range(1, WEEKS + 1):
        then = (start - timedelta(weeks=week)).replace(tzinfo=zone)
        step_ms = round(STEP_S * 1000.0)
        begin_ms = int(then.timestamp() * 1000.0)
        end_ms = begin_ms + max(round(min(for_s, LONGEST_S) * 1000.0), 1)
        out.append((begin_ms // step_ms * step_ms, -(-end_ms // step_ms) * step_ms))
    return out


async def past_loads(
    store: Store, site: SiteModel, spans: list[tuple[int, int]], now_ms: int
) -> dict[int, list[FloatArray]]:
    """Load index -> metered power in quarter hours, W, one array per past week.

    A load of which a feed is not metered is left out; so is what cannot be read in time.
    """
    meters: dict[int, list[PointId]] = {}
    for load in range(len(site.topology.loads)):
        columns = np.flatnonzero(site.topology.feed_load == load)
        points = site.feed_meter[columns]
        if len(points) and bool((points >= 0).all()):
            meters[load] = [site.table.specs[int(i)].id for i in points]
    past = [span for span in spans if span[1] <= now_ms]
    gate = asyncio.Semaphore(AT_ONCE)
    loads = list(meters)

    async def some(mine: Sequence[int], span: tuple[int, int]) -> list[tuple[int, FloatArray]]:
        points = tuple(dict.fromkeys(point for load in mine for point in meters[load]))
        wanted = frozenset({"maximum"})
        async with gate:
            answer = await committed(store.past(Question(points, *span, STEP_S, wanted=wanted)))
        most = {s.point: s.maximum for s in answer.series}
        found = []
        for load in mine:
            parts = [most[point] for point in meters[load]]
            shortest = min(len(part) for part in parts)
            found.append((load, np.sum([part[:shortest] for part in parts], axis=0)))
        return found

    tasks = [
        asyncio.ensure_future(some(loads[at : at + LOADS], span))
        for span in past
        for at in range(0, len(loads), LOADS)
    ]
    found: dict[int, list[FloatArray]] = {}
    if not tasks:
        return found
    done, late = await asyncio.wait(tasks, timeout=PATIENCE_S)
    for task in late:
        task.cancel()
    if late:
        await asyncio.gather(*late, return_exceptions=True)
    for task in tasks:
        if task not in done:
            continue
        try:
            rows = task.result()
        except (HistoryLimit, StoreError):
            continue
        for load, week in rows:
            found.setdefault(load, []).append(week)
    return found
