"""What of a hall's facility file goes with a backup: the text, its curves, the names of secrets."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import sqlalchemy as sa

from facility.config import Facility, SecretSource
from facility.errors import ConfigError
from facility.loading import load_text
from facility.store.rows import meta


def members(connection: sa.Connection) -> Iterator[tuple[str, str]]:
    """(name, text) of each member; a file that this program cannot read goes as it is."""
    for hall, text in meta.facility_files(connection).items():
        folder = "".join(c if c.isalnum() or c in "-_." else "_" for c in hall).strip(".") or "_"
        yield f"{folder}/facility.yaml", text
        try:
            facility = load_text(text).facility
        except ConfigError:
            continue
        yield f"{folder}/curves.json", _json(curves(facility))
        yield f"{folder}/secrets.json", _json(secrets(facility))


def curves(facility: Facility) -> dict[str, Any]:
    """Node -> its curve; None where the file has none and a prior by GPU type stands in."""
    return {
        name: {"gpu": node.gpu, "curve": node.curve.model_dump() if node.curve else None}
        for name, node in facility.nodes.items()
    }


def secrets(facility: Facility) -> dict[str, Any]:
    """Dotted place in the file -> where the secret is looked for (a name, never a value)."""
    return dict(_sources((), facility))


def _sources(at: tuple[str, ...], value: object) -> Iterator[tuple[str, dict[str, str]]]:
    if isinstance(value, SecretSource):
        named = {key: str(where) for key, where in value if where is not None}
        if named:
            yield ".".join(at), named
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _sources((*at, str(key)), inner)
    elif hasattr(value, "__pydantic_fields__"):
        for key in type(value).model_fields:  # type: ignore[attr-defined]
            yield from _sources((*at, key), getattr(value, key))


def _json(body: Mapping[str, Any]) -> str:
    return json.dumps(body, indent=1, ensure_ascii=False)
