"""The site's few facts, by name: of which facility file this is, and the like."""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa

from facility.store.rows.tables import site_meta

#: What only this database may know; no backup holds it.
SECRET_KEYS: Final = ("statement_key",)
_FILE: Final = "facility_file:"


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


def put_facility_file(connection: sa.Connection, hall: str, text: str) -> None:
    """Keep the facility file that a hall runs with now, for backups."""
    if get(connection, _FILE + hall) != text:
        put(connection, _FILE + hall, text)


def facility_files(connection: sa.Connection) -> dict[str, str]:
    """Hall -> the text of the facility file that it ran with last."""
    rows = connection.execute(
        sa.select(site_meta).where(site_meta.c.key.startswith(_FILE)).order_by(site_meta.c.key)
    )
    return {row.key.removeprefix(_FILE): row.value for row in rows}
