"""Single-cord drills: one row for each, written when it starts and again as it goes on."""

from __future__ import annotations

import json

import sqlalchemy as sa

from facility.cords import STATES, CordDrill, CordState
from facility.store.rows.tables import cord_drill


def save(connection: sa.Connection, entry: CordDrill) -> None:
    """Write one, or what has become of it."""
    values = {
        "load": entry.load,
        "feed": entry.feed,
        "parent": entry.parent,
        "by_whom": entry.by,
        "reason": entry.reason,
        "started_ms": entry.started_ms,
        "until_ms": entry.until_ms,
        "config_sha256": entry.config_sha256,
        "ended_ms": entry.ended_ms,
        "state": entry.state,
        "evidence": json.dumps(entry.evidence, allow_nan=False),
    }
    mine = cord_drill.c.id == entry.id
    done = connection.execute(sa.update(cord_drill).where(mine).values(values))
    if done.rowcount == 0:
        connection.execute(sa.insert(cord_drill), {"id": entry.id, **values})


def listed(connection: sa.Connection, limit: int) -> list[CordDrill]:
    """The newest first."""
    newest = cord_drill.c.started_ms.desc()
    asked = sa.select(cord_drill).order_by(newest, cord_drill.c.id).limit(limit)
    return [_drill(row) for row in connection.execute(asked)]


def signed(connection: sa.Connection) -> list[CordDrill]:
    """Of each cord and parent the newest that was signed."""
    t = cord_drill
    newest = (
        sa.select(t.c.load, t.c.feed, t.c.parent, sa.func.max(t.c.ended_ms).label("ended_ms"))
        .where(t.c.state == "signed")
        .group_by(t.c.load, t.c.feed, t.c.parent)
        .subquery()
    )
    same = (
        (t.c.load == newest.c.load)
        & (t.c.feed == newest.c.feed)
        & (t.c.parent == newest.c.parent)
        & (t.c.ended_ms == newest.c.ended_ms)
    )
    asked = sa.select(t).join(newest, same).where(t.c.state == "signed").order_by(t.c.id)
    return [_drill(row) for row in connection.execute(asked)]


def _drill(row: sa.Row[tuple[object, ...]]) -> CordDrill:
    return CordDrill(
        row.id,
        row.load,
        row.feed,
        row.parent,
        row.by_whom,
        row.reason,
        row.started_ms,
        row.until_ms,
        row.config_sha256,
        row.ended_ms,
        _state(row.state),
        json.loads(row.evidence),
    )


def _state(text: str) -> CordState:
    for state in STATES:
        if state == text:
            return state
    raise ValueError(f"{text!r} is no state of a cord's drill")
