"""What people set: overrides, modes, keys."""

from __future__ import annotations

import sqlalchemy as sa

from facility.commands import Mode, Override, modes_after
from facility.points import PointId
from facility.store.errors import UnknownRecord
from facility.store.records import ApiKey, ModeRecord, OverrideRecord
from facility.store.rows.tables import api_key, mode, override


def add_override(connection: sa.Connection, made: Override) -> None:
    """Write an operator's lease on a point; the same id twice is an integrity error."""
    connection.execute(
        sa.insert(override),
        {
            "id": made.id,
            "point": str(made.point),
            "value": made.value,
            "by_whom": made.by,
            "reason": made.reason,
            "since_ms": made.since_ms,
            "until_ms": made.until_ms,
        },
    )


def end_override(connection: sa.Connection, number: str, by: str, now_ms: int) -> None:
    """End an override early; ending it again changes nothing.

    Raises:
        UnknownRecord: there is no such override.
    """
    known = connection.execute(
        sa.select(override.c.id).where(override.c.id == number)
    ).one_or_none()
    if known is None:
        raise UnknownRecord(f"no override {number!r}")
    connection.execute(
        sa.update(override)
        .where(override.c.id == number, override.c.ended_ms.is_(None))
        .values(ended_ms=now_ms, ended_by=by)
    )


def overrides(
    connection: sa.Connection, active: bool, now_ms: int, limit: int
) -> list[OverrideRecord]:
    """Overrides, newest first; `active`: neither ended nor expired."""
    asked = sa.select(override).order_by(override.c.since_ms.desc(), override.c.id).limit(limit)
    if active:
        asked = asked.where(override.c.ended_ms.is_(None), override.c.until_ms > now_ms)
    return [
        OverrideRecord(
            Override(
                r.id, PointId.parse(r.point), r.value, r.by_whom, r.reason, r.since_ms, r.until_ms
            ),
            r.ended_ms,
            r.ended_by,
        )
        for r in connection.execute(asked)
    ]


def set_mode(
    connection: sa.Connection, scope: str, wanted: Mode, by: str, reason: str, now_ms: int
) -> None:
    """Set who acts in a scope.

    What the hall's mode ends (`facility.commands.modes_after`) must not come back after a restart.
    """
    before = {record.scope: record.mode for record in modes(connection)}
    for ended in before.keys() - modes_after(before, scope, wanted).keys():
        connection.execute(sa.delete(mode).where(mode.c.scope == ended))
    connection.execute(
        sa.text(
            "INSERT INTO mode (scope, mode, by_whom, reason, since_ms) "
            "VALUES (:scope, :mode, :by, :reason, :since_ms) ON CONFLICT (scope) DO UPDATE SET "
            "mode = excluded.mode, by_whom = excluded.by_whom, reason = excluded.reason, "
            "since_ms = excluded.since_ms"
        ),
        {"scope": scope, "mode": wanted.value, "by": by, "reason": reason, "since_ms": now_ms},
    )


def modes(connection: sa.Connection) -> list[ModeRecord]:
    """The mode of every scope that has one of its own, by scope."""
    return [
        ModeRecord(r.scope, Mode(r.mode), r.by_whom, r.reason, r.since_ms)
        for r in connection.execute(sa.select(mode).order_by(mode.c.scope))
    ]


def add_api_key(connection: sa.Connection, name: str, role: str, hashed: str, now_ms: int) -> int:
    """Write a key's hash; returns its number."""
    number: int = connection.execute(
        sa.insert(api_key).returning(api_key.c.id),
        {"name": name, "role": role, "hash": hashed, "created_ms": now_ms},
    ).scalar_one()
    return number


def revoke_api_key(connection: sa.Connection, number: int, now_ms: int) -> None:
    """Make a key useless from now on."""
    connection.execute(
        sa.update(api_key)
        .where(api_key.c.id == number, api_key.c.revoked_ms.is_(None))
        .values(revoked_ms=now_ms)
    )


def api_keys(connection: sa.Connection) -> list[ApiKey]:
    """All keys, the revoked ones too, by number."""
    return [
        ApiKey(r.id, r.name, r.role, r.hash, r.created_ms, r.revoked_ms)
        for r in connection.execute(sa.select(api_key).order_by(api_key.c.id))
    ]
