"""Alembic's way in: the connection it is given, or the URL in WATTKEEPER_DATABASE."""

from __future__ import annotations

import os

from alembic import context

from facility.store.engine import writing_engine
from facility.store.rows.tables import metadata


def run() -> None:
    """Migrate on the caller's connection and transaction, else on one of our own."""
    connection = context.config.attributes.get("connection")
    if connection is not None:
        context.configure(connection=connection, target_metadata=metadata)
        context.run_migrations()
        return
    url = os.environ.get("WATTKEEPER_DATABASE")
    if url is None:
        raise SystemExit("set WATTKEEPER_DATABASE to the URL of the database to migrate")
    with writing_engine(url).begin() as own:
        context.configure(connection=own, target_metadata=metadata)
        context.run_migrations()


run()
