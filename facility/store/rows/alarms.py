"""Alarms, their history, and the outbox: what happened and whom it must still be told to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import sqlalchemy as sa

from facility.commands import AlarmEvent
from facility.store.errors import UnknownRecord
from facility.store.records import AlarmChange, AlarmRecord, Delivery
from facility.store.rows.as_json import dumps, event_from_json, event_to_json, loads
from facility.store.rows.tables import alarm, alarm_change, delivery, outbox

#: A claimed delivery whose worker died is claimable again after this.
CLAIM_MS: Final = 60_000
#: Further off than any next try; see `claim`.
STRANGE_MS: Final = 7_200_000

#: Sinks of every event, or a function that names those of one event.
Sinks = Sequence[str] | Callable[[AlarmEvent], Sequence[str]]


def record(connection: sa.Connection, events: Iterable[AlarmEvent], sinks: Sinks) -> None:
    """Write alarm changes and queue their deliveries.

    An event told before (same key, time and change) changes nothing and queues nothing.
    """
    for event in events:
        change = "raised" if event.active else "cleared"
        if not _note(connection, event, change, event.at_ms):
            continue
        _set_state(connection, event)
        wanted = sinks(event) if callable(sinks) else sinks
        if wanted:
            enqueue(connection, f"alarm.{change}", event_to_json(event), wanted, event.at_ms)


def _note(
    connection: sa.Connection,
    event: AlarmEvent,
    change: str,
    at_ms: int,
    by: str | None = None,
    note: str | None = None,
) -> bool:
    written = connection.execute(
        sa.text(
            "INSERT INTO alarm_change (key, change, at_ms, text, page, by_whom, note) "
            "VALUES (:key, :change, :at_ms, :text, :page, :by, :note) "
            "ON CONFLICT (key, at_ms, change) DO NOTHING RETURNING id"
        ),
        {
            "key": event.key,
            "change": change,
            "at_ms": at_ms,
            "text": event.text,
            "page": event.page,
            "by": by,
            "note": note,
        },
    ).scalar_one_or_none()
    return written is not None


def _set_state(connection: sa.Connection, event: AlarmEvent) -> None:
    held = connection.execute(
        sa.select(alarm.c.active, alarm.c.changed_ms).where(alarm.c.key == event.key)
    ).one_or_none()
    state: dict[str, Any] = {
        "active": event.active,
        "event": dumps(event_to_json(event)),
        "changed_ms": event.at_ms,
        "cleared_ms": None if event.active else event.at_ms,
    }
    anew = event.active and (held is None or not held.active)
    if anew or held is None:
        state |= {
            "since_ms": event.at_ms,
            "acknowledged_by": None,
            "note": None,
            "acknowledged_ms": None,
        }
    if held is None:
        connection.execute(sa.insert(alarm), {"key": event.key, **state})
    elif event.at_ms >= held.changed_ms:
        connection.execute(sa.update(alarm).where(alarm.c.key == event.key).values(state))


def acknowledge(connection: sa.Connection, key: str, by: str, note: str, now_ms: int) -> None:
    """Note who looks after an alarm.

    Raises:
        UnknownRecord: there is no such alarm.
    """
    held = connection.execute(sa.select(alarm.c.event).where(alarm.c.key == key)).one_or_none()
    if held is None:
        raise UnknownRecord(f"no alarm {key!r}")
    connection.execute(
        sa.update(alarm)
        .where(alarm.c.key == key)
        .values(acknowledged_by=by, note=note, acknowledged_ms=now_ms)
    )
    _note(connection, event_from_json(loads(held.event)), "acknowledged", now_ms, by, note)


def read(connection: sa.Connection, active_only: bool, limit: int) -> list[AlarmRecord]:
    """Alarms, most severe first among the active ones, then the last changed."""
    asked = sa.select(alarm).order_by(alarm.c.active.desc(), alarm.c.changed_ms.desc()).limit(limit)
    if active_only:
        asked = asked.where(alarm.c.active.is_(True))
    found = [
        AlarmRecord(
            event_from_json(loads(r.event)),
            r.since_ms,
            r.cleared_ms,
            r.acknowledged_by,
            r.note,
            r.acknowledged_ms,
        )
        for r in connection.execute(asked)
    ]
    return sorted(found, key=lambda a: (not a.event.active, -int(a.event.severity)))


def changes(connection: sa.Connection, key: str | None, limit: int) -> list[AlarmChange]:
    """The newest changes of one alarm, or of all."""
    asked = sa.select(alarm_change).order_by(alarm_change.c.id.desc()).limit(limit)
    if key is not None:
        asked = asked.where(alarm_change.c.key == key)
    return [
        AlarmChange(r.id, r.key, r.change, r.at_ms, r.text, r.by_whom, r.note)
        for r in connection.execute(asked)
    ]


def enqueue(
    connection: sa.Connection,
    kind: str,
    body: Mapping[str, Any],
    sinks: Sequence[str],
    now_ms: int,
) -> int:
    """Queue one message for the sinks; returns its number."""
    number: int = connection.execute(
        sa.insert(outbox).returning(outbox.c.id),
        {"type": kind, "body": dumps(body), "created_ms": now_ms},
    ).scalar_one()
    if sinks:
        connection.execute(
            sa.insert(delivery),
            [
                {
                    "outbox_id": number,
                    "sink": sink,
                    "status": "pending",
                    "attempts": 0,
                    "next_try_ms": now_ms,
                }
                for sink in sinks
            ],
        )
    return number


def _delivery(row: Any) -> Delivery:
    return Delivery(
        row.id,
        f"msg_{row.created_ms}_{row.outbox_id}",
        row.sink,
        row.type,
        loads(row.body),
        row.created_ms,
        row.status,
        row.attempts,
        row.next_try_ms,
        row.http_status,
        row.error,
        row.finished_ms,
    )


def _deliveries() -> sa.Select[Any]:
    return sa.select(delivery, outbox.c.type, outbox.c.body, outbox.c.created_ms).join(
        outbox, delivery.c.outbox_id == outbox.c.id
    )


def claim(connection: sa.Connection, limit: int, now_ms: int) -> list[Delivery]:
    """Take the deliveries that are due, oldest first.

    A claim is a lease: what a crashed worker held comes back after `CLAIM_MS`, with its attempt
    counted. A receiver may therefore see a message twice, and keys on its id. No wait between
    tries is as long as `STRANGE_MS`: one that seems so was reckoned before the clock was set back,
    and a page must not wait for a day to come again.
    """
    due = connection.scalars(
        sa.select(delivery.c.id)
        .where(
            sa.or_(delivery.c.next_try_ms <= now_ms, delivery.c.next_try_ms > now_ms + STRANGE_MS)
        )
        .order_by(delivery.c.next_try_ms, delivery.c.id)
        .limit(limit)
        .with_for_update(skip_locked=True)
    ).all()
    if not due:
        return []
    connection.execute(
        sa.update(delivery)
        .where(delivery.c.id.in_(due))
        .values(status="claimed", attempts=delivery.c.attempts + 1, next_try_ms=now_ms + CLAIM_MS)
    )
    rows = connection.execute(_deliveries().where(delivery.c.id.in_(due)).order_by(delivery.c.id))
    return [_delivery(row) for row in rows]


def finish(
    connection: sa.Connection,
    number: int,
    ok: bool,
    http_status: int | None,
    error: str | None,
    next_try_ms: int | None,
    now_ms: int,
) -> None:
    """Note how a try ended: delivered, to be tried again at `next_try_ms`, or failed for good.

    A claim that ran out and was delivered meanwhile stays delivered.
    """
    status = "delivered" if ok else "failed" if next_try_ms is None else "pending"
    connection.execute(
        sa.update(delivery)
        .where(delivery.c.id == number, delivery.c.status != "delivered")
        .values(
            status=status,
            http_status=http_status,
            error=error,
            next_try_ms=None if ok else next_try_ms,
            finished_ms=None if status == "pending" else now_ms,
        )
    )


def deliveries(connection: sa.Connection, limit: int) -> list[Delivery]:
    """The newest deliveries."""
    asked = _deliveries().order_by(delivery.c.id.desc()).limit(limit)
    return [_delivery(row) for row in connection.execute(asked)]
