"""Totals over the whole database."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from facility.store.records import Counts
from facility.store.rows.tables import (
    ack,
    alarm,
    alarm_change,
    chunk,
    cycle,
    decision,
    delivery,
    dropped,
    intent,
    layout,
    scan,
)


def _grouped(connection: sa.Connection, column: sa.Column[Any]) -> dict[str, int]:
    rows = connection.execute(sa.select(column, sa.func.count()).group_by(column))
    return {str(name): int(number) for name, number in rows}


def read(connection: sa.Connection) -> Counts:
    """All totals, as of one transaction."""

    def total(asked: sa.Select[Any]) -> int:
        return int(connection.execute(asked).scalar_one() or 0)

    def rows(table: sa.Table) -> int:
        return total(sa.select(sa.func.count()).select_from(table))

    lengths = {
        r.id: len(r.point_ids) // 8
        for r in connection.execute(sa.select(layout.c.id, layout.c.point_ids))
    }
    scans = {
        int(number): int(n)
        for number, n in connection.execute(
            sa.select(scan.c.layout_id, sa.func.count()).group_by(scan.c.layout_id)
        )
    }
    for number, n in connection.execute(
        sa.select(chunk.c.layout_id, sa.func.sum(chunk.c.scans)).group_by(chunk.c.layout_id)
    ):
        scans[int(number)] = scans.get(int(number), 0) + int(n)
    commands = _grouped(connection, ack.c.outcome)
    commands["pending"] = total(
        sa.select(sa.func.count()).select_from(intent).where(sa.text("acked = 0"))
    )
    changes = _grouped(connection, alarm_change.c.change)
    return Counts(
        scans=sum(scans.values()),
        samples=sum(n * lengths.get(number, 0) for number, n in scans.items()),
        decisions=rows(decision),
        cycles=rows(cycle),
        commands=commands,
        alarms_raised=changes.get("raised", 0),
        alarms_cleared=changes.get("cleared", 0),
        alarms_active=total(
            sa.select(sa.func.count()).select_from(alarm).where(alarm.c.active.is_(True))
        ),
        pages=total(
            sa.select(sa.func.count())
            .select_from(alarm_change)
            .where(alarm_change.c.page.is_(True), alarm_change.c.change == "raised")
        ),
        deliveries=_grouped(connection, delivery.c.status),
        dropped_scans=total(sa.select(sa.func.sum(dropped.c.scans))),
        dropped_samples=total(sa.select(sa.func.sum(dropped.c.samples))),
    )
