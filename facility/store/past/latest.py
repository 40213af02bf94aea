"""The newest sample of each point."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import sqlalchemy as sa

from facility.points import BAD_TIMEOUT, ByteArray, FloatArray, PointId
from facility.store.past.places import Place, numbers, places
from facility.store.records import Sample
from facility.store.rows.chunks import newest

#: When it was measured and received, values and quality of all points of the layout.
_Newest = tuple[int, int, FloatArray, ByteArray]


def latest(connection: sa.Connection, points: Sequence[PointId]) -> list[Sample]:
    """The newest stored sample of each point, in the order asked; each layout is read once."""
    where = places(connection, numbers(connection, points))
    lengths = {place.layout: place.length for found in where.values() for place in found}
    held: dict[int, _Newest] = {}
    for number, length in lengths.items():
        found = _newest(connection, number, length)
        if found is not None:
            held[number] = found
    return [_sample(wanted, where.get(wanted, ()), held) for wanted in points]


def _newest(connection: sa.Connection, number: int, length: int) -> _Newest | None:
    found = newest(connection, number, length)
    if not len(found):
        return None
    times_ms, received_ms = int(found.times_ms[0]), int(found.received_ms[0])
    return times_ms, received_ms, found.values[:, 0], found.quality[:, 0]


def _sample(wanted: PointId, places: Sequence[Place], held: Mapping[int, _Newest]) -> Sample:
    found = [(held[p.layout], p.position) for p in places if p.layout in held]
    if not found:
        return Sample(wanted, None, None, BAD_TIMEOUT)
    (_, received_ms, values, quality), position = max(found, key=lambda h: h[0][0])
    value = float(values[position])
    return Sample(
        wanted, received_ms, value if math.isfinite(value) else None, int(quality[position])
    )
