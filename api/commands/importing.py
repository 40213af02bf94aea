"""`wattkeeper import csv|netbox`: show what would change in a facility file; `--write` does it."""

from __future__ import annotations

import difflib
import json as jsonlib
import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import typer

from api.commands.refusing import refuse, refuse_words
from api.importing.entries import Entry, written
from api.importing.merging import Merged, merge
from api.importing.netbox.client import NetBox, NetBoxError
from api.importing.netbox.mapping import entries_of
from api.importing.netbox.records import read_records
from api.importing.rules import read_rules
from api.importing.tables import read_tables
from drivers.known import DriverKnowledge
from facility.checking import check
from facility.errors import ConfigError, Problem
from facility.loading import load_text
from facility.yamltree import read_text

#: What a file is begun with when there is none.
BEGINNING = """facility: 1

site:
  name: {name}
  timezone: {timezone}
"""

Source = Callable[[], tuple[str, Sequence[Entry], Sequence[str]]]


@dataclass(frozen=True)
class Target:
    """The facility file.

    Attributes:
        name, timezone: of the site, for a file that does not exist yet.
        write: whether to write it, or to show what would change only.
        prune: take out what the source no longer has.
    """

    file: str
    name: str | None
    timezone: str | None
    write: bool
    prune: bool

    def text(self) -> str:
        """What it holds now.

        Raises:
            ConfigError: it cannot be read, or does not exist and cannot be begun.
        """
        if Path(self.file).exists():
            return read_text(self.file)[0]
        if self.name is None or self.timezone is None:
            hint = "to begin one, give --name and --timezone of the site"
            raise ConfigError([Problem(self.file, 0, 0, "", "there is no such file", hint)])
        name, timezone = written(self.name), written(self.timezone)
        return BEGINNING.format(name=name, timezone=timezone)


def csv(folder: str, target: Target, *, json: bool) -> int:
    """Import the CSV tables of a folder."""
    return _run(lambda: ("csv", read_tables(Path(folder)), ()), target, json=json)


def netbox(
    url: str, site: str, rules: str | None, token_env: str, target: Target, *, json: bool
) -> int:
    """Import one site of a NetBox; the token comes from an environment variable."""
    token = os.environ.get(token_env)
    if not token:
        return refuse_words(f"no token: the environment has no {token_env}", json=json, code=2)

    def source() -> tuple[str, Sequence[Entry], Sequence[str]]:
        said = read_rules(rules)
        client = NetBox(url, token)
        try:
            records = read_records(client, site)
        finally:
            client.close()
        mapped = entries_of(records, said)
        return f"netbox {records.instance}", mapped.entries, mapped.notes

    return _run(source, target, json=json)


def _run(source: Source, target: Target, *, json: bool) -> int:
    file, write = target.file, target.write
    try:
        before = target.text()
        label, entries, notes = source()
        merged = merge(before, file, label, entries, prune=target.prune)
        _require_sense(before, merged, file)
    except NetBoxError as error:
        return refuse_words(str(error), json=json)
    except ConfigError as error:
        return refuse(error.problems, json=json)
    told = [*notes, *merged.told]
    changed = merged.text != before or not Path(file).exists()
    if write and changed:
        _replace(Path(file), merged.text)
    diff = "".join(
        difflib.unified_diff(
            before.splitlines(keepends=True), merged.text.splitlines(keepends=True), file, file
        )
    )
    if json:
        document = {
            "ok": True,
            "changed": changed,
            "written": write and changed,
            "entries": len(entries),
            "notes": told,
            "diff": diff,
        }
        typer.echo(jsonlib.dumps(document))
        return 0
    for note in told:
        typer.echo(note, err=True)
    typer.echo(diff, nl=False)
    if not changed:
        typer.echo(f"{file} says all of this already", err=True)
    elif write:
        typer.echo(f"{file} is written", err=True)
    else:
        typer.echo("nothing is written yet: --write does it", err=True)
    return 0


def _require_sense(before: str, merged: Merged, file: str) -> None:
    """Refuse a result that cannot be read, or that is wrong in a way in which it was not before.

    Raises:
        ConfigError: every new fault, at the place in the source where there is one.
    """
    known = DriverKnowledge.shipped()
    try:
        after = check(load_text(merged.text, file), known)
    except ConfigError as error:
        raise ConfigError([_placed(problem, merged) for problem in error.problems]) from error
    try:
        old = {(p.path, p.problem) for p in check(load_text(before, file), known)}
    except ConfigError:
        old = set()
    new = [p for p in after if (p.path, p.problem) not in old]
    if new:
        raise ConfigError([_placed(problem, merged) for problem in new])


def _placed(problem: Problem, merged: Merged) -> Problem:
    entry = merged.origins.get(problem.line)
    if entry is None:
        return problem
    return replace(problem, file=entry.file, line=entry.line, column=1 if entry.line else 0)


def _replace(path: Path, text: str) -> None:
    """Write a file whole or not at all, with the rights that it had; a link stays a link."""
    path = path.resolve()
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as out:
            out.write(text)
            out.flush()
            os.fsync(out.fileno())
        os.chmod(name, path.stat().st_mode & 0o7777 if path.exists() else 0o644)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
