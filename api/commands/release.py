"""`wattkeeper release SCOPE`: ask the running service to let go, and say what that moves."""

from __future__ import annotations

import json as jsonlib
import os
from collections.abc import Sequence
from urllib.parse import quote

import httpx2
import typer

from api.commands.refusing import refuse_words
from facility.topology import suggestion

KEY_VARIABLE = "WATTKEEPER_API_KEY"


def run(scope: str, url: str, reason: str, *, json: bool) -> int:
    """Release; 0 when released, 1 when the service says no or does not answer."""
    key = os.environ.get(KEY_VARIABLE, "")
    if not key:
        typer.echo(f"set {KEY_VARIABLE} to a key with the operator role", err=True)
        return 2
    target = f"{url.rstrip('/')}/api/v1/release/{quote(scope, safe=':')}"
    try:
        answer = httpx2.post(
            target,
            json={"reason": reason},
            headers={"Authorization": f"Bearer {key}"},
            timeout=10.0,
        )
        body = answer.json()
    except (httpx2.HTTPError, httpx2.InvalidURL, ValueError) as error:
        return refuse_words(f"{url} does not answer: {error}", json=json)
    if not isinstance(body, dict):
        return refuse_words(f"{url} is no Wattkeeper: it answers {str(body)[:80]}", json=json)
    if answer.status_code >= 400:
        why = str(body.get("detail") or body.get("title") or body)
        if answer.status_code == 404:
            why += _hint(scope, url, key)
        return refuse_words(why, json=json)
    typer.echo(jsonlib.dumps(body) if json else str(body.get("text", body)))
    return 0


def _hint(scope: str, url: str, key: str) -> str:
    """The scope that was perhaps meant, from those that the service has; "" none is near."""
    try:
        answer = httpx2.get(
            f"{url.rstrip('/')}/api/v1/modes",
            headers={"Authorization": f"Bearer {key}"},
            timeout=5.0,
        )
        scopes = [str(row["scope"]) for row in answer.json()]
    except (httpx2.HTTPError, httpx2.InvalidURL, ValueError, KeyError, TypeError):
        return ""
    return hint(scope, scopes)


def hint(scope: str, scopes: Sequence[str]) -> str:
    """What to add to a refusal: "did you mean rack:r01?" for "r01"; "" when no scope is near."""
    for known in scopes:
        if known.partition(":")[2].casefold() == scope.casefold():
            return f" (did you mean {known}?)"
    near = suggestion(scope, scopes)
    return f" ({near})" if near else ""
