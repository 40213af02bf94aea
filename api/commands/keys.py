"""`wattkeeper db key`: make, list and revoke API keys."""

from __future__ import annotations

from collections.abc import Callable

import typer

from api.security import Role, issue_key
from facility.clock import SystemClock
from facility.store import Store, StoreError, open_store, upgrade


def add(url: str, name: str, role: str) -> int:
    """Make a key and print it, the only time that it can be seen; 1 when it cannot be stored."""
    try:
        wanted = Role.named(role)
        key, digest = issue_key(name)
    except ValueError as error:
        typer.echo(str(error), err=True)
        return 2

    def store_it(store: Store) -> None:
        store.add_api_key(name, wanted.name.lower(), digest).result()
        store.audit("command line", "key-added", name, {"role": wanted.name.lower()}).result()

    code = _with_store(url, store_it)
    if code == 0:
        typer.echo(key)
    return code


def show(url: str) -> int:
    """List keys: number, role, name, and whether it was revoked."""

    def list_them(store: Store) -> None:
        for key in store.api_keys().result():
            state = "" if key.revoked_ms is None else "  revoked"
            typer.echo(f"{key.id:4}  {key.role:9} {key.name}{state}")

    return _with_store(url, list_them)


def revoke(url: str, number: int) -> int:
    """Revoke a key by its number; a running service stops taking it within seconds.

    Returns 1, and says why, when there is no such key or it was revoked before.
    """
    said: list[str] = []

    def revoke_it(store: Store) -> None:
        found = next((key for key in store.api_keys().result() if key.id == number), None)
        if found is None:
            raise ValueError(f"no key {number}; `wattkeeper db key list` shows all")
        named = f"key {number} ({found.name}, {found.role})"
        if found.revoked_ms is not None:
            raise ValueError(f"{named} was revoked before")
        store.revoke_api_key(number).result()
        store.audit("command line", "key-revoked", str(number), {"name": found.name}).result()
        said.append(f"revoked {named}")

    code = _with_store(url, revoke_it)
    for line in said:
        typer.echo(line)
    return code


def _with_store(url: str, work: Callable[[Store], None]) -> int:
    try:
        upgrade(url)
        store = open_store(url, SystemClock())
        try:
            work(store)
        finally:
            store.close()
    except (StoreError, ValueError) as error:
        typer.echo(f"{error}", err=True)
        return 1
    return 0
