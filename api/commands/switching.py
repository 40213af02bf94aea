"""`wattkeeper switching ELEMENT` and `wattkeeper verify FILE`: ask beforehand, prove afterwards."""

from __future__ import annotations

import json as jsonlib
import os
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2
import typer

from api.commands.refusing import refuse_words
from api.commands.release import KEY_VARIABLE
from api.service.statement import BadKey, public_of, signed_by
from facility.units import QuantityError, parse_quantity

NO, USAGE = 1, 2
WAIT_S = 60.0
MAX_BYTES = 4 * 1024 * 1024


def ask(element: str, at: str | None, for_: str, url: str, *, json: bool) -> int:
    """Ask a running service; 0 when it says yes, 1 when it does not, or does not answer."""
    key = os.environ.get(KEY_VARIABLE, "")
    if not key:
        typer.echo(f"set {KEY_VARIABLE} to a key of the service", err=True)
        return USAGE
    try:
        minutes = parse_quantity(for_, "time") / 60.0
    except QuantityError as error:
        typer.echo(f"--for: {error}", err=True)
        return USAGE
    asked: dict[str, str] = {"for": f"{minutes:g}"}
    if at is not None:
        asked["at"] = at
    try:
        answer = httpx2.get(
            f"{url.rstrip('/')}/api/v1/switching/{quote(element, safe='')}",
            params=asked,
            headers={"Authorization": f"Bearer {key}"},
            timeout=WAIT_S,
        )
        body = answer.json()
    except (httpx2.HTTPError, httpx2.InvalidURL, ValueError) as error:
        return refuse_words(f"{url} does not answer: {error}", json=json)
    if answer.status_code >= 400 or not isinstance(body, dict):
        why = body.get("detail") if isinstance(body, dict) else None
        return refuse_words(str(why or f"{url} answers {answer.status_code}"), json=json)
    statement = body.get("statement")
    if not isinstance(statement, dict):
        return refuse_words(f"{url} is no Wattkeeper: it answers {str(body)[:80]}", json=json)
    typer.echo(jsonlib.dumps(body) if json else str(statement.get("text")))
    return 0 if statement.get("answer") == "yes" else NO


def verify(file: str, key: str, *, json: bool) -> int:
    """Whether a statement was signed with the key of that public key; 0 when it was."""
    try:
        public = public_of(key)
    except BadKey as error:
        typer.echo(f"--key: {error}", err=True)
        return USAGE
    try:
        document = _read(file)
    except (OSError, ValueError) as error:
        return refuse_words(f"{file}: {error}", json=json)
    why = signed_by(document, public)
    statement = document.get("statement")
    told = statement if why is None and isinstance(statement, dict) else {}
    if json:
        found = {"signed": why is None, "why": why, "id": told.get("id")}
        typer.echo(jsonlib.dumps(found | {"valid_until": told.get("valid_until")}))
    elif why is None:
        typer.echo(f"signed by this key: {told.get('answer')}, valid until {told['valid_until']}")
    else:
        typer.echo(f"not signed by this key: {why}", err=True)
    return 0 if why is None else NO


def _read(file: str) -> dict[str, Any]:
    """The statement in a file; `-` reads standard input.

    Raises:
        OSError: it cannot be read.
        ValueError: it holds no JSON object.
    """
    raw = sys.stdin.buffer.read(MAX_BYTES) if file == "-" else Path(file).read_bytes()[:MAX_BYTES]
    try:
        document = jsonlib.loads(raw)
    except RecursionError:
        raise ValueError("no statement") from None
    if not isinstance(document, dict):
        raise ValueError("no statement")
    return document
