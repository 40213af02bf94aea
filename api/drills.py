"""What people declare lost to see what would follow, or to measure it; as the API needs it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from facility.drills import Drill


class Drills(Protocol):
    """Drills of one hall."""

    async def suppose(self, element: str) -> Mapping[str, Any]:
        """What a loss would leave and demand, on live data; changes nothing.

        Raises:
            Unknown: no such element.
            Refused: no cycle has run yet.
        """

    async def start(self, element: str, by: str, reason: str) -> Drill:
        """Begin a real shed; it is measured and ends by itself.

        Raises:
            Unknown: no such element.
            Refused: the site does not allow it, or not now; says why.
        """

    async def stop(self, drill_id: str, by: str) -> Drill:
        """Abort the drill that runs.

        Raises:
            Unknown: it does not run.
        """

    async def listed(self, limit: int = 100) -> Sequence[Drill]:
        """The newest first."""
