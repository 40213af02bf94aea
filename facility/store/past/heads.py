"""Buckets of whole hours from what chunks say of their columns, without decoding one.

Used where raw samples are asked for by name: everything else of whole hours has roll-ups.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import sqlalchemy as sa

from facility.points import FloatArray, PointId
from facility.store.chunks import Summary
from facility.store.past.places import Place
from facility.store.past.raw import STRETCH_MS, hours_with_scans
from facility.store.rollups.edges import HOUR_MS
from facility.store.rollups.pieces import Pieces, joined
from facility.store.rows import chunks as rows


def read(
    engine: sa.Engine, places: Mapping[PointId, list[Place]], from_ms: int, to_ms: int
) -> tuple[dict[PointId, Pieces], list[tuple[int, int]]]:
    """One piece for each whole hour in [from_ms, to_ms) that is in a chunk and nowhere else.

    Args:
        engine: reads only.
        places: of points that stand in one layout each.
        from_ms: start of an hour.
        to_ms: start of a later hour.

    Returns:
        the pieces of each point, and the stretches of hours that hold scans not compacted yet:
        these must be read.
    """
    of_layouts: dict[int, dict[PointId, int]] = {}
    for name, held in places.items():
        for place in held:
            of_layouts.setdefault(place.layout, {})[name] = place.position
    parts: dict[PointId, list[Pieces]] = {name: [] for name in places}
    open_hours: set[int] = set()
    with engine.begin() as connection:
        for number in of_layouts:
            open_hours.update(hours_with_scans(connection, number, from_ms, to_ms))
    for number, positions in of_layouts.items():
        for begin_ms in range(from_ms, to_ms, STRETCH_MS):
            end_ms = min(begin_ms + STRETCH_MS, to_ms)
            with engine.begin() as connection:
                heads = list(rows.heads(connection, number, begin_ms, end_ms))
            for hour_ms, head in heads:
                if hour_ms in open_hours:
                    continue
                for name, at in positions.items():
                    parts[name].append(_piece(hour_ms, head.scans, head.summary, at))
    pieces = {name: joined(some) for name, some in parts.items() if some}
    return pieces, [(hour_ms, hour_ms + HOUR_MS) for hour_ms in sorted(open_hours)]


def _piece(hour_ms: int, scans: int, summary: Summary, at: int) -> Pieces:
    used = int(summary.used[at])
    total = float(summary.total[at]) if used else np.nan

    def one(value: float) -> FloatArray:
        return np.array([value], dtype=np.float64)

    return Pieces(
        np.array([hour_ms], dtype=np.int64),
        np.array([scans], dtype=np.int64),
        np.array([used], dtype=np.int64),
        np.array([summary.suspect[at]], dtype=np.int64),
        total=one(total),
        minimum=one(summary.low[at]),
        maximum=one(summary.high[at]),
        first=one(summary.first[at]),
        last=one(summary.last[at]),
        delta=one(np.nan),
    )
