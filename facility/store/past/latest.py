"""The newest sample of each point."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import sqlalchemy as sa

from facility.points import BAD_TIMEOUT, ByteArray, FloatArray, PointId
from facility.store.past.places import Place, numbers, places
from facility.store.records import Sample
from facility.store.rows.packing import unpack
from facility.store.rows.tables import scan

#: When it was measured and received, values and quality of all points of the layout.
_Newest = tuple[int, int, FloatArray, ByteArray]


def latest(connection: sa.Connection, points: Sequence[PointId]) -> list[Sample]:
    """The newest stored sample of each point, in the order asked; each layout is read once."""
    where = places(connection, numbers(connection, points))
    lengths = {place.layout: place.length for found in where.values() for place in found}
    newest: dict[int, _Newest] = {}
    for number, length in lengths.items():
        found = _newest(connection, number, length)
        if found is not None:
            newest[number] = found
    return [_sample(wanted, where.get(wanted, ()), newest) for wanted in points]


def _newest(connection: sa.Connection, number: int, length: int) -> _Newest | None:
    row = connection.execute(
        sa.select(scan.c.source_ms, scan.c.received_ms, scan.c.data)
        .where(scan.c.layout_id == number)
        .order_by(scan.c.source_ms.desc())
        .limit(1)
    ).one_or_none()
    return None if row is None else (row.source_ms, row.received_ms, *unpack(row.data, length))


def _sample(wanted: PointId, places: Sequence[Place], newest: Mapping[int, _Newest]) -> Sample:
    held = [(newest[p.layout], p.position) for p in places if p.layout in newest]
    if not held:
        return Sample(wanted, None, None, BAD_TIMEOUT)
    (_, received_ms, values, quality), position = max(held, key=lambda h: h[0][0])
    value = float(values[position])
    return Sample(
        wanted, received_ms, value if math.isfinite(value) else None, int(quality[position])
    )
