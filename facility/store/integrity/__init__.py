"""Is a store whole? Its schema, its pages, its views, its audit, every sample, and its spill."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import sqlalchemy as sa

from facility.store import migrate, views
from facility.store.engine import reading_engine
from facility.store.integrity import samples
from facility.store.rows import audit
from facility.store.spill import Spill

#: More of one sort are counted, not listed.
_LISTED: Final = 20


def check(url: str, spill: Path | None = None) -> list[str]:
    """What is wrong with the database; empty when nothing is.

    The schema first; only of a database that has ours is the content looked at, all of it.

    Args:
        url: of the database.
        spill: the file of what waits for it, to be looked at too.

    Raises:
        StoreError: damaged, newer than known, or not to be reached.
    """
    found = migrate.check(url)
    if found:
        return found
    engine = reading_engine(url)
    try:
        with engine.connect() as connection:
            return [
                *views.faults(connection),
                *audit.faults(connection),
                *_some(samples.faults(connection)),
                *_of_spill(spill),
            ]
    except sa.exc.DBAPIError as error:
        raise migrate.unreachable(error) from error
    finally:
        engine.dispose()


def _some(found: Iterable[str]) -> Iterator[str]:
    rest = iter(found)
    yield from itertools.islice(rest, _LISTED)
    if more := sum(1 for _ in rest):
        yield f"and {more} more of this sort"


def _of_spill(file: Path | None) -> Iterator[str]:
    if file is None or not file.exists():
        return
    spill = Spill(file)
    if spill.damaged:
        yield f"{file}: {spill.damaged} of {spill.damaged + len(spill)} entries cannot be read"


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
