"""`wattkeeper release SCOPE`: ask the running service to let go, and say what that moves."""

from __future__ import annotations

import json as jsonlib
import os
from urllib.parse import quote

import httpx2
import typer

from api.commands.refusing import refuse_words

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
        return refuse_words(str(body.get("detail") or body.get("title") or body), json=json)
    typer.echo(jsonlib.dumps(body) if json else str(body.get("text", body)))
    return 0
