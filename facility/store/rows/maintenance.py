"""What people take out of service: one row for each stretch of work."""

from __future__ import annotations

import json

import sqlalchemy as sa

from facility.maintenance import KINDS, Kind, Maintenance
from facility.store.errors import UnknownRecord
from facility.store.records import MaintenanceRecord
from facility.store.rows.tables import maintenance


def add(connection: sa.Connection, work: Maintenance) -> None:
    """Write one; the same id twice is an integrity error."""
    connection.execute(
        sa.insert(maintenance),
        {
            "id": work.id,
            "kind": work.kind,
            "subject": work.subject,
            "by_whom": work.by,
            "reason": work.reason,
            "ticket": work.ticket,
            "since_ms": work.since_ms,
            "until_ms": work.until_ms,
            "freeze": json.dumps(work.freeze),
            "accepted": json.dumps(work.accepted),
        },
    )


def end(connection: sa.Connection, number: str, by: str, now_ms: int) -> None:
    """End one early, or call a planned one off; ending it again changes nothing.

    Raises:
        UnknownRecord: there is no such maintenance.
    """
    known = connection.execute(
        sa.select(maintenance.c.id).where(maintenance.c.id == number)
    ).one_or_none()
    if known is None:
        raise UnknownRecord(f"no maintenance {number!r}")
    connection.execute(
        sa.update(maintenance)
        .where(maintenance.c.id == number, maintenance.c.ended_ms.is_(None))
        .values(ended_ms=now_ms, ended_by=by)
    )


def listed(
    connection: sa.Connection, active: bool, now_ms: int, limit: int
) -> list[MaintenanceRecord]:
    """Newest start first; `active`: neither ended nor over, planned ones included."""
    asked = sa.select(maintenance).order_by(maintenance.c.since_ms.desc(), maintenance.c.id)
    if active:
        asked = asked.where(maintenance.c.ended_ms.is_(None), maintenance.c.until_ms > now_ms)
    return [
        MaintenanceRecord(
            Maintenance(
                r.id,
                _kind(r.kind),
                r.subject,
                r.by_whom,
                r.reason,
                r.ticket,
                r.since_ms,
                r.until_ms,
                tuple(json.loads(r.freeze)),
                tuple(json.loads(r.accepted)),
            ),
            r.ended_ms,
            r.ended_by,
        )
        for r in connection.execute(asked.limit(limit))
    ]


def _kind(text: str) -> Kind:
    for kind in KINDS:
        if kind == text:
            return kind
    raise ValueError(f"{text!r} is no kind of maintenance")
