"""The seam between what is asked of an agent and the library that puts it on the wire.

Two implementations with one suite of tests: `own` carries the load, `reference` is a second
opinion that shares no line with it below this seam.
"""

from __future__ import annotations

from typing import Protocol

from drivers.snmp.question import Oid, Question, Reply


class Reader(Protocol):
    """Puts one question at a time to one agent; never raises for what an agent does."""

    @property
    def most(self) -> int:
        """Variables that one GET may ask for at best."""

    @property
    def requests(self) -> int:
        """Requests put on the wire so far, repetitions included."""

    @property
    def trouble(self) -> str:
        """Why the last question got no answer, in words; empty where the agent is just silent."""

    @property
    def refused(self) -> bool:
        """Whether the agent answered the last question, and would not serve us."""

    async def get(self, question: Question, attempts: int = 1) -> Reply | None:
        """GET; None when nothing usable came back."""

    async def after(self, oid: Oid) -> Reply | None:
        """GETNEXT of one name."""

    async def bulk(self, oid: Oid, repetitions: int, attempts: int = 1) -> Reply | None:
        """GETBULK from one name on."""

    async def set(self, oid: Oid, value: bytes) -> Reply | None:
        """SET of one variable to an element, once."""

    async def close(self) -> None:
        """Let go of the wire; asking again takes hold of it again."""
