"""Make API keys: shown once, stored as argon2 hashes."""

from __future__ import annotations

from collections.abc import Iterable

from api.security import Role, issue_key
from facility.store import Store

ALL_ROLES = tuple(role.name.lower() for role in Role)


def make_keys(store: Store, roles: Iterable[str] = ALL_ROLES) -> dict[str, str]:
    """One key per role, named after it; returns role -> key, the only time it can be seen."""
    keys: dict[str, str] = {}
    for role in roles:
        key, digest = issue_key(role)
        store.add_api_key(role, role, digest).result()
        keys[role] = key
    return keys
