"""Tables of each kind of database, to write roll-ups into directly."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from facility.store import migrate
from facility.store.engine import writing_engine


@pytest.fixture
def engine(url: str) -> Iterator[sa.Engine]:
    """Connections to an empty database of each kind."""
    migrate.upgrade(url)
    made = writing_engine(url)
    yield made
    made.dispose()
