"""`wattkeeper db`: the schema of a store, and copies of it. Exit codes: 0 done, 1 no."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import typer

from facility.store import StoreError, engine, integrity, migrate, views
from facility.store import backup as copies


def upgrade(url: str) -> int:
    """Bring the database to this program's schema."""
    return _say(lambda: [f"schema {migrate.upgrade(url)}"])


def check(url: str, state: str | None = None) -> int:
    """Say whether the database is whole, has our schema, and nobody rewrote its audit."""
    return _differences(url, Path(state) / "spill.jsonl" if state is not None else None)


def backup(url: str, file: str) -> int:
    """Copy the store to a new file; `.zip` is portable between SQLite and PostgreSQL."""
    return _say(lambda: _listed(copies.backup(url, Path(file)), f"wrote {file}"))


def restore(url: str, file: str, *, overwrite: bool = False) -> int:
    """Bring a copy into a new database, or over an old one; it comes up in observe."""
    return _say(
        lambda: _listed(
            copies.restore(url, Path(file), overwrite=overwrite), "restored, in observe"
        )
    )


def reader(url: str, role: str, *, only_print: bool) -> int:
    """Make a role of PostgreSQL that may read the views and nothing else."""
    if only_print:
        database = str(engine.parse_url(url).database)
        return _say(
            lambda: (
                [f"CREATE ROLE {role} LOGIN PASSWORD '…';"]
                + [f"{line};" for line in views.grant_statements(role, database)]
            )
        )
    return _say(
        lambda: [f"role {role}, password (shown this once): {views.make_reader(url, role)}"]
    )


def _listed(numbers: dict[str, int], last: str) -> list[str]:
    return [f"{name}: {number}" for name, number in numbers.items() if number] + [last]


def _say(work: Callable[[], list[str]]) -> int:
    try:
        lines = work()
    except (StoreError, OSError) as error:
        typer.echo(str(error), err=True)
        return 1
    for line in lines:
        typer.echo(line)
    return 0


def _differences(url: str, spill: Path | None) -> int:
    try:
        found = integrity.check(url, spill)
        head = "" if found else integrity.audit_head(url)
    except (StoreError, OSError) as error:
        typer.echo(str(error), err=True)
        return 1
    for line in found:
        typer.echo(line, err=True)
    if not found:
        typer.echo("the database is as it should be")
        if head:
            typer.echo(f"newest line of the audit: {head}")
    return 1 if found else 0
