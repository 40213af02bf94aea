"""What people did and set."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

from facility.commands import Mode, Override
from facility.store.parts.base import Part
from facility.store.records import ApiKey, AuditEntry, ModeRecord, OverrideRecord
from facility.store.rows import audit as audit_rows
from facility.store.rows import people


class People(Part):
    """Audit, overrides, modes, keys."""

    def audit(
        self, actor: str, action: str, subject: str, detail: Mapping[str, Any] | None = None
    ) -> Future[None]:
        """Append a line to the audit log."""
        at_ms = self._clock.utc_ms()
        line = {"at_ms": at_ms, "actor": actor, "action": action, "subject": subject}
        return self._write(
            lambda c: audit_rows.add_audit(c, **line, detail=detail or {}),  # type: ignore[arg-type]
            spill=("audit", lambda: {**line, "detail": dict(detail or {})}),
        )

    def audit_log(self, limit: int = 100, before: int | None = None) -> Future[list[AuditEntry]]:
        """The newest lines of the audit log, newest first."""
        return self._ask(lambda c: audit_rows.audit_log(c, limit, before))

    def add_override(self, override: Override) -> Future[None]:
        """Write an operator's override."""
        return self._write(lambda c: people.add_override(c, override))

    def end_override(self, id: str, by: str) -> Future[None]:  # noqa: A002
        """End an override early; the future raises UnknownRecord for none."""
        return self._write(lambda c: people.end_override(c, id, by, self._clock.utc_ms()))

    def overrides(self, active: bool = True, limit: int = 1000) -> Future[list[OverrideRecord]]:
        """Overrides, newest first; `active`: neither ended nor expired."""
        return self._ask(lambda c: people.overrides(c, active, self._clock.utc_ms(), limit))

    def set_mode(self, scope: str, mode: Mode, by: str, reason: str) -> Future[None]:
        """Set who acts in a scope; the hall's mode ends those of racks and loops."""
        return self._write(
            lambda c: people.set_mode(c, scope, mode, by, reason, self._clock.utc_ms())
        )

    def release(self, scope: str, by: str, reason: str) -> Future[None]:
        """Set a scope to off; through an outage too.

        With the database away the future raises StoreUnavailable, `spilled` if it stands in the
        spill file: then it counts once the database is back, before anything else is written.
        Only off is kept so: what somebody was told has failed must never act later.
        """
        line = {"scope": scope, "by": by, "reason": reason, "now_ms": self._clock.utc_ms()}
        return self._write(
            lambda c: people.set_mode(c, wanted=Mode.OFF, **line),  # type: ignore[arg-type]
            spill=("release", lambda: line),
        )

    def modes(self) -> Future[list[ModeRecord]]:
        """The mode of every scope that has one of its own."""
        return self._ask(people.modes)

    def add_api_key(self, name: str, role: str, hash: str) -> Future[int]:  # noqa: A002
        """Write a key's argon2 hash; its number."""
        return self._write(lambda c: people.add_api_key(c, name, role, hash, self._clock.utc_ms()))

    def revoke_api_key(self, id: int) -> Future[None]:  # noqa: A002
        """Make a key useless."""
        return self._write(lambda c: people.revoke_api_key(c, id, self._clock.utc_ms()))

    def api_keys(self) -> Future[list[ApiKey]]:
        """All keys, the revoked ones too."""
        return self._ask(people.api_keys)
