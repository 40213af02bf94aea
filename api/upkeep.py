"""What people plan and ask about work on the plant; what the API and the page need of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from controllers.capacity import Wish
from facility.maintenance import Kind, Maintenance


@dataclass(frozen=True, slots=True)
class Plan:
    """What somebody wants to work on.

    Attributes:
        since_ms, until_ms: UTC ms.
        accept: kinds of consequences that are accepted.
    """

    kind: Kind
    subject: str
    since_ms: int
    until_ms: int
    reason: str
    ticket: str = ""
    freeze: tuple[str, ...] = ()
    accept: tuple[str, ...] = ()


class NotAccepted(Exception):
    """Work would cost what nobody has accepted yet.

    Attributes:
        consequences: all of them, accepted ones too, as plain fields.
        missing: kinds that must still be accepted.
    """

    def __init__(
        self, consequences: Sequence[Mapping[str, Any]], missing: Sequence[str], text: str
    ) -> None:
        super().__init__(text)
        self.consequences = [dict(one) for one in consequences]
        self.missing = list(missing)
        self.text = text


class Upkeep(Protocol):
    """Maintenance of one hall, and questions about what may be opened and what still fits."""

    def works(self) -> Sequence[Maintenance]:
        """Planned and open, by start."""

    async def plan(self, wish: Plan, by: str) -> tuple[Maintenance, Sequence[Mapping[str, Any]]]:
        """Take a maintenance in; with what it costs.

        Raises:
            Unknown: no such subject or scope.
            Refused: times that cannot be.
            NotAccepted: it would cost something that is not accepted.
        """

    async def end(self, work_id: str, by: str) -> Maintenance:
        """End one now, or call a planned one off.

        Raises:
            Unknown: none planned or open with this id.
        """

    async def ask(self, element: str, at_ms: int, for_s: float, by: str) -> Mapping[str, Any]:
        """May this element be opened then? A signed statement, step by step.

        Raises:
            Unknown: no such element.
            Refused: times that cannot be, or no cycle has run yet.
        """

    async def verify(self, document: Mapping[str, Any]) -> Mapping[str, Any]:
        """Whether a statement is ours, and still true."""

    async def capacity(self, rack_w: float | None, lot: int, margin: float) -> Mapping[str, Any]:
        """The capacity report of the hall as it runs.

        Raises:
            Refused: no cycle has run yet.
        """

    async def server_fits(self, rack: str, wish: Wish) -> Mapping[str, Any]:
        """Can this rack take one more server?

        Raises:
            Unknown: no such rack.
            Refused: no cycle has run yet.
        """

    async def rack_fits(self, row: str, model: str | None, wish: Wish) -> Mapping[str, Any]:
        """Can this row take one more rack, like `model` or like its last one?

        Raises:
            Unknown: no such row or rack.
            Refused: no cycle has run yet.
        """

    async def public_key(self) -> Mapping[str, str]:
        """What statements can be verified with, anywhere."""
