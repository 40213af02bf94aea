"""The site's few facts, by name: of which facility file this is, and the like."""

from __future__ import annotations

import sqlalchemy as sa

from facility.store.rows.tables import site_meta


def get(connection: sa.Connection, key: str) -> str | None:
    """One fact, or None."""
    found: str | None = connection.execute(
        sa.select(site_meta.c.value).where(site_meta.c.key == key)
    ).scalar_one_or_none()
    return found


def put(connection: sa.Connection, key: str, value: str) -> None:
    """Set one fact."""
    connection.execute(
        sa.text(
            "INSERT INTO site_meta (key, value) VALUES (:key, :value) "
            "ON CONFLICT (key) DO UPDATE SET value = excluded.value"
        ),
        {"key": key, "value": value},
    )
