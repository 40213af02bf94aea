"""Who did what: append-only, each line chained to the one before by its hash.

The database refuses UPDATE, DELETE and REPLACE by triggers. Whoever gets round them (with the
file in an editor, or as the database's owner) breaks the chain: each line's hash is

    SHA-256 over the hash before it and the JSON array [at_ms, actor, action, subject, detail]

in hex, the very first hash being empty. A line changed, taken out of the middle or put there is
thus found, and named. Lines cut off at the end are not: compare `head` with one that was noted
elsewhere (`db check` and backups tell it).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import sqlalchemy as sa

from facility.store.records import AuditEntry
from facility.store.rows.as_json import dumps, loads
from facility.store.rows.tables import audit

#: Any number, always the same: halls that share one PostgreSQL append in turns.
_APPEND_LOCK: Final = 0x57A7A0D1
_PAGE: Final = 2_000


def chained(before: str, at_ms: int, actor: str, action: str, subject: str, detail: str) -> str:
    """The hash of a line that follows the one with the hash `before`."""
    line = json.dumps([at_ms, actor, action, subject, detail], separators=(",", ":"))
    return hashlib.sha256(f"{before}\n{line}".encode()).hexdigest()


def add_audit(
    connection: sa.Connection,
    at_ms: int,
    actor: str,
    action: str,
    subject: str,
    detail: Mapping[str, Any],
) -> None:
    """Append one line; nothing ever changes or deletes one."""
    if connection.dialect.name == "postgresql":
        # Held until this transaction ends: nobody else may follow the same line meanwhile.
        connection.execute(sa.text("SELECT pg_advisory_xact_lock(:k)"), {"k": _APPEND_LOCK})
    line = {"at_ms": at_ms, "actor": actor, "action": action, "subject": subject}
    text = dumps(detail)
    connection.execute(
        sa.insert(audit),
        {
            **line,
            "detail": text,
            "hash": chained(head(connection), at_ms, actor, action, subject, text),
        },
    )


def replay_audit(
    connection: sa.Connection,
    at_ms: int,
    actor: str,
    action: str,
    subject: str,
    detail: Mapping[str, Any],
) -> None:
    """Append a line unless the very same one stands there: a replay may come twice."""
    same = sa.select(audit.c.id).where(
        audit.c.subject == subject,
        audit.c.at_ms == at_ms,
        audit.c.actor == actor,
        audit.c.action == action,
        audit.c.detail == dumps(detail),
    )
    if connection.execute(same.limit(1)).one_or_none() is None:
        add_audit(connection, at_ms, actor, action, subject, detail)


def audit_log(connection: sa.Connection, limit: int, before: int | None) -> list[AuditEntry]:
    """The newest lines, newest first; `before` is the id to go on from."""
    asked = sa.select(audit).order_by(audit.c.id.desc()).limit(limit)
    if before is not None:
        asked = asked.where(audit.c.id < before)
    return [
        AuditEntry(r.id, r.at_ms, r.actor, r.action, r.subject, loads(r.detail))
        for r in connection.execute(asked)
    ]


def head(connection: sa.Connection) -> str:
    """The hash of the newest line; empty without any."""
    newest = sa.select(audit.c.hash).order_by(audit.c.id.desc()).limit(1)
    found: str | None = connection.execute(newest).scalar_one_or_none()
    return found or ""


def faults(connection: sa.Connection) -> Iterator[str]:
    """The first line that does not follow from the one before, in words; nothing if all do."""
    last, before = 0, ""
    while True:
        page = connection.execute(
            sa.select(audit).where(audit.c.id > last).order_by(audit.c.id).limit(_PAGE)
        ).all()
        for r in page:
            due = chained(before, r.at_ms, r.actor, r.action, r.subject, r.detail)
            if r.hash != due:
                at = datetime.fromtimestamp(r.at_ms / 1000.0, UTC)
                yield (
                    f"audit line {r.id} ({at:%Y-%m-%d %H:%M:%S} UTC, {r.actor}: {r.action} "
                    f"{r.subject}) does not follow from the one before: it, or what stood there, "
                    "was changed or taken out"
                )
                return
            before = r.hash
        if len(page) < _PAGE:
            return
        last = page[-1].id
