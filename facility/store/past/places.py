"""Where points stand: their permanent numbers, and every layout that ever held them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import sqlalchemy as sa

from facility.points import IntArray, PointId
from facility.store.rows.tables import layout, point

_MANY = 500


class Place(NamedTuple):
    """A point in a layout: the layout's number, the position in it, how many points it has."""

    layout: int
    position: int
    length: int


def numbers(connection: sa.Connection, points: Sequence[PointId]) -> dict[PointId, int]:
    """The numbers of those points that were ever stored."""
    of_refs: dict[str, int] = {}
    refs = [str(p) for p in points]
    for start in range(0, len(refs), _MANY):
        some = refs[start : start + _MANY]
        asked = sa.select(point.c.ref, point.c.id).where(point.c.ref.in_(some))
        of_refs.update((row.ref, row.id) for row in connection.execute(asked))
    return {p: of_refs[str(p)] for p in points if str(p) in of_refs}


def places(connection: sa.Connection, of_points: dict[PointId, int]) -> dict[PointId, list[Place]]:
    """Where each point, given with its number, stands in every layout that ever held it."""
    layouts: dict[str, list[tuple[int, IntArray]]] = {p.device: [] for p in of_points}
    devices = list(layouts)
    for start in range(0, len(devices), _MANY):
        asked = sa.select(layout.c.id, layout.c.device, layout.c.point_ids).where(
            layout.c.device.in_(devices[start : start + _MANY])
        )
        for row in connection.execute(asked.order_by(layout.c.id)):
            layouts[row.device].append((row.id, np.frombuffer(row.point_ids, "<i8")))
    found: dict[PointId, list[Place]] = {p: [] for p in of_points}
    for wanted, number in of_points.items():
        for layout_id, ids in layouts[wanted.device]:
            at = np.flatnonzero(ids == number)
            if len(at):
                found[wanted].append(Place(layout_id, int(at[0]), len(ids)))
    return found
