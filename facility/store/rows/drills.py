"""Drills: one row for each, written when it starts and again as it goes on."""

from __future__ import annotations

import json

import sqlalchemy as sa

from facility.drills import Drill, DrillState
from facility.store.rows.tables import drill

_STATES: tuple[DrillState, ...] = ("running", "restoring", "done", "aborted", "failed")


def save(connection: sa.Connection, entry: Drill) -> None:
    """Write one, or what has become of it."""
    values = {
        "element": entry.element,
        "by_whom": entry.by,
        "reason": entry.reason,
        "started_ms": entry.started_ms,
        "ended_ms": entry.ended_ms,
        "state": entry.state,
        "report": json.dumps(entry.report, allow_nan=False),
    }
    done = connection.execute(sa.update(drill).where(drill.c.id == entry.id).values(values))
    if done.rowcount == 0:
        connection.execute(sa.insert(drill), {"id": entry.id, **values})


def listed(connection: sa.Connection, limit: int) -> list[Drill]:
    """The newest first."""
    asked = sa.select(drill).order_by(drill.c.started_ms.desc(), drill.c.id).limit(limit)
    return [
        Drill(
            r.id,
            r.element,
            r.by_whom,
            r.reason,
            r.started_ms,
            r.ended_ms,
            _state(r.state),
            json.loads(r.report),
        )
        for r in connection.execute(asked)
    ]


def _state(text: str) -> DrillState:
    for state in _STATES:
        if state == text:
            return state
    raise ValueError(f"{text!r} is no state of a drill")
