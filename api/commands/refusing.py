"""How a command says "no": words on standard error, with `--json` one document on the other."""

from __future__ import annotations

import json as jsonlib
from collections.abc import Sequence
from dataclasses import asdict

import typer

from facility.errors import Problem


def refuse(problems: Sequence[Problem], *, json: bool, code: int = 1) -> int:
    """Say every problem; returns the exit code.

    The document has the shape of `check --json`, so that one reader understands every refusal.
    """
    for problem in problems:
        typer.echo(str(problem), err=True)
    if json:
        document = {"ok": False, "problems": [asdict(p) for p in problems]}
        typer.echo(jsonlib.dumps(document))
    return code


def refuse_words(words: str, *, json: bool, code: int = 1) -> int:
    """The same for what is wrong with no file."""
    typer.echo(words, err=True)
    if json:
        problem = Problem("", 0, 0, "", words)
        typer.echo(jsonlib.dumps({"ok": False, "problems": [asdict(problem)]}))
    return code
