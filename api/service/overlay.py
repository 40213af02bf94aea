"""What a simulation puts in place of a facility file's outside world.

The demo writes it as JSON for `serve --overlay`: where the simulator's devices listen, its broker,
a database and a webhook of its own. A field site has none.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from facility.errors import ConfigError, Problem


class OverlayHook(BaseModel):
    """A webhook and its secret, for a receiver that lives as long as the demo."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    url: str
    secret: str = Field(repr=False)


class Overlay(BaseModel):
    """Addresses by device, and what else is simulated.

    Attributes:
        clock: file that says by how much the calendar is wrong; see `api.service.stepping`.
        parent: process that the service must not outlive, where there is one.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    addresses: Mapping[str, str]
    broker: str
    store: str
    webhooks: Mapping[str, OverlayHook] = Field(default_factory=dict)
    community: str = "public"
    clock: str | None = None
    parent: int | None = None


def read_overlay(path: str) -> Overlay:
    """Read an overlay file.

    Raises:
        ConfigError: it cannot be read or has another shape.
    """
    try:
        return Overlay.model_validate(json.loads(Path(path).read_text("utf-8")))
    except (OSError, ValueError, ValidationError) as error:
        raise ConfigError([Problem(path, 0, 0, "", f"is no overlay: {error}")]) from None
