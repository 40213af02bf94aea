"""Views for readers of SQL, and a role of PostgreSQL that may read them and nothing else.

Grafana runs whatever SQL its users type, so it gets a role of its own: no table, no writing, no
settings that could hold up the writer. The views run with the rights of their owner.

    v_reading_15m    time, device, part, kind, mean, min, max, first, last, samples, good_fraction
    v_reading_daily  the same, for days of the site
    v_energy_daily   time, device, part, kind, energy_wh, good_fraction
    v_alarm_change   time, key, change, text, page, by_whom, note
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from typing import Final

import sqlalchemy as sa

from facility.store import migrate
from facility.store.engine import parse_url, writing_engine
from facility.store.errors import StoreError

VIEWS: Final = ("v_reading_15m", "v_reading_daily", "v_energy_daily", "v_alarm_change")
#: Whether a role may do more than log in; no row if there is none of that name.
_MIGHTY: Final = sa.text(
    "SELECT rolsuper OR rolcreaterole OR rolcreatedb OR rolreplication OR rolbypassrls "
    "OR rolname = current_user OR EXISTS (SELECT FROM pg_auth_members WHERE member = oid) "
    "FROM pg_roles WHERE rolname = :role"
)
_ROLE: Final = re.compile(r"[a-z_][a-z0-9_]{0,62}")


def grant_statements(role: str, database: str) -> list[str]:
    """SQL that lets an existing role read the views of a database, and nothing else of ours.

    Raises:
        StoreError: a name that no role should have.
    """
    if not _ROLE.fullmatch(role):
        raise StoreError(f"{role!r}: a role's name is small letters, digits and _")
    quoted = '"' + database.replace('"', '""') + '"'
    return [
        f"ALTER ROLE {role} NOINHERIT CONNECTION LIMIT 20",
        f"ALTER ROLE {role} IN DATABASE {quoted} SET default_transaction_read_only = on",
        f"ALTER ROLE {role} IN DATABASE {quoted} SET statement_timeout = '30s'",
        f"ALTER ROLE {role} IN DATABASE {quoted} SET idle_in_transaction_session_timeout = '60s'",
        f"REVOKE ALL ON ALL TABLES IN SCHEMA public FROM {role}",
        f"REVOKE ALL ON ALL SEQUENCES IN SCHEMA public FROM {role}",
        f"GRANT CONNECT ON DATABASE {quoted} TO {role}",
        f"GRANT USAGE ON SCHEMA public TO {role}",
        f"GRANT SELECT ON {', '.join(VIEWS)} TO {role}",
    ]


def make_reader(url: str, role: str) -> str:
    """Make the role, or give it a new password if it is there; returns the password.

    Raises:
        StoreError: not PostgreSQL, another schema than ours, no right to make roles, or a name
            that belongs to somebody with more rights.
    """
    parsed = parse_url(url)
    if parsed.get_backend_name() != "postgresql":
        raise StoreError("SQLite has no roles; let the reader open the file read-only")
    password = secrets.token_urlsafe(24)
    statements = grant_statements(role, str(parsed.database))
    engine = writing_engine(url)
    try:
        with engine.begin() as connection:
            if migrate.revision(connection) != migrate.head():
                raise StoreError(
                    "the database has not this program's schema: wattkeeper db upgrade"
                )
            known = connection.execute(_MIGHTY, {"role": role}).scalar_one_or_none()
            if known:
                raise StoreError(f"{role} is a role with more rights than a reader; take another")
            word = "CREATE" if known is None else "ALTER"
            connection.exec_driver_sql(f"{word} ROLE {role} LOGIN PASSWORD '{password}'")
            for statement in statements:
                connection.exec_driver_sql(statement)
    except sa.exc.DBAPIError as error:
        raise migrate.unreachable(error) from error
    finally:
        engine.dispose()
    return password


def faults(connection: sa.Connection) -> Iterator[str]:
    """Views that are not there, or no longer fit their tables."""
    there = set(sa.inspect(connection).get_view_names())
    for view in VIEWS:
        if view not in there:
            yield f"the view {view} is not there"
