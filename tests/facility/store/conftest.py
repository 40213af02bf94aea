"""Databases and stores of each kind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from facility.store import Store, open_store
from tests.facility.store.databases import empty, postgres_database, postgres_server
from tests.facility.store.plant import SteppedClock


@pytest.fixture(scope="session")
def postgres_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """URL of a PostgreSQL database of this session's own."""
    url, server = postgres_server(tmp_path_factory.mktemp("postgres"))
    with postgres_database(url) as database:
        yield database
    if server is not None:
        server.cleanup()


@pytest.fixture
def postgres(postgres_once: str) -> Iterator[str]:
    """URL of an empty PostgreSQL database."""
    yield postgres_once
    empty(postgres_once)


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """URL of an empty database of each kind."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'hall.db'}"
        return
    yield request.getfixturevalue("postgres")


@pytest.fixture
def clock() -> SteppedClock:
    return SteppedClock()


@pytest.fixture
def store(url: str, clock: SteppedClock, tmp_path: Path) -> Iterator[Store]:
    """A store in line, on a clock that the test moves."""
    opened = open_store(url, clock, inline=True, spill=tmp_path / "spill")
    yield opened
    opened.close()
