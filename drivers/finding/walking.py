"""What finding needs of an SNMP wire beyond reading places."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol, runtime_checkable

from drivers.profile.codec import Answer

Oid = tuple[int, ...]

#: no walk takes longer, seconds, unless who asks says otherwise
WALK_S: Final = 10.0


class Walked(Protocol):
    """What a walk found, in the agent's order."""

    @property
    def names(self) -> Sequence[Oid]:
        """OIDs below the column."""

    @property
    def answers(self) -> Sequence[Answer]:
        """What is there; aligned with the names."""

    @property
    def silent(self) -> bool:
        """Whether the agent never answered at all."""

    @property
    def why(self) -> str:
        """Why the walk ended early; empty when it went to the end."""


@runtime_checkable
class Walks(Protocol):
    """A wire that can be walked."""

    async def walk(self, root: Oid, after: Oid | None = None, within_s: float = WALK_S) -> Walked:
        """Everything below a name, or what of it comes after a walk that had to stop there."""


@runtime_checkable
class Asks(Protocol):
    """A wire that reads one variable by its number."""

    async def get(self, oid: Oid) -> Answer:
        """The variable, or a flaw."""
