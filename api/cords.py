"""Cords and the drills that prove them; what the API needs of a running hall."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from facility.cords import CordDrill


@dataclass(frozen=True, slots=True)
class Cord:
    """One feed of one load as the file declares it.

    Attributes:
        parent: the element or group that it hangs on.
        device: its meter; None: it has none.
        signed: the newest drill that proved it for this parent; None: not proved.
        since_ms: since when this service has known it like this, UTC ms.
    """

    load: str
    feed: str
    parent: str
    device: str | None
    signed: CordDrill | None
    since_ms: int


@dataclass(frozen=True, slots=True)
class Told:
    """A drill, and what the person at the rack is to do now, in a sentence."""

    drill: CordDrill
    text: str


class Cords(Protocol):
    """Single-cord drills of one hall."""

    def cords(self) -> Sequence[Cord]:
        """Every cord, in file order."""

    async def start(self, load: str, feed: str, minutes: float, by: str, reason: str) -> Told:
        """Begin to watch a cord that somebody is going to open.

        Raises:
            Unknown: no such cord.
            Refused: its load would go dark, it would prove nothing, or not now; says why.
        """

    async def cancel(self, drill_id: str, by: str) -> Told:
        """Call it off.

        Raises:
            Unknown: it does not run.
        """

    async def listed(self, limit: int = 100) -> Sequence[Told]:
        """The newest first."""
