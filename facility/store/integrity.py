"""Is a store whole? Its schema, its pages, the chain of its audit."""

from __future__ import annotations

import sqlalchemy as sa

from facility.store import migrate, views
from facility.store.engine import reading_engine
from facility.store.rows import audit


def check(url: str) -> list[str]:
    """What is wrong with the database; empty when nothing is.

    The schema first; only of a database that has ours is the content looked at.

    Raises:
        StoreError: damaged, newer than known, or not to be reached.
    """
    found = migrate.check(url)
    if found:
        return found
    engine = reading_engine(url)
    try:
        with engine.connect() as connection:
            return [*views.faults(connection), *audit.faults(connection)]
    except sa.exc.DBAPIError as error:
        raise migrate.unreachable(error) from error
    finally:
        engine.dispose()


def audit_head(url: str) -> str:
    """The hash of the audit's newest line: note it elsewhere, and nobody can cut off the end.

    Raises:
        StoreError: not to be reached.
    """
    engine = reading_engine(url)
    try:
        with engine.connect() as connection:
            return audit.head(connection)
    except sa.exc.DBAPIError as error:
        raise migrate.unreachable(error) from error
    finally:
        engine.dispose()
