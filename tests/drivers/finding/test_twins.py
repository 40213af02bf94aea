"""Variables that stand twice under one name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from drivers.finding import NamedVariables
from drivers.finding.walking import Oid
from drivers.profile import SnmpWhere, Variables
from drivers.profile.binding import NamedAt, Places, SnmpAt
from drivers.profile.codec import Answer
from drivers.transport import WriteReply
from facility.clock import SystemClock
from facility.points import Flaw

NAMES, VALUES = (1, 3, 6, 1, 9, 2), (1, 3, 6, 1, 9, 3)
TABLE = Variables(names="1.3.6.1.9.2", values="1.3.6.1.9.3")
AGENT: dict[Oid, Answer] = {
    (*NAMES, 1, 9): b"Supply Temperature",
    (*NAMES, 1, 10): b"Supply Temperature",
    (*VALUES, 1, 9): 194,
    (*VALUES, 1, 10): 671,
}
PLACE = NamedAt(SnmpWhere(oid="1.3.6.1.9.3"), VALUES, ("Supply Temperature",))


@dataclass(frozen=True)
class Found:
    """A walk that went to its end."""

    names: Sequence[Oid]
    answers: Sequence[Answer]
    silent: bool = False
    why: str = ""


class Agent:
    """Answers from a table."""

    endpoint, host, requests = "agent", "", 0

    async def fetch(self, places: Places) -> tuple[Answer, ...]:
        return tuple(
            AGENT.get(at.oid, Flaw.REFUSED) if isinstance(at, SnmpAt) else Flaw.REFUSED
            for at in places.at
        )

    async def walk(self, root: Oid, after: Oid | None = None, within_s: float = 10.0) -> Found:
        names = tuple(oid for oid in AGENT if oid[: len(root)] == root)
        return Found(names, tuple(AGENT[oid] for oid in names))

    async def put(self, place: object, raw: object, within_s: float = 0.0) -> WriteReply:
        return WriteReply("rejected", "a table")

    async def close(self) -> None:
        return None


@pytest.mark.parametrize(("twins", "answer"), [(False, Flaw.REFUSED), (True, 194)])
async def test_a_name_that_stands_twice_is_nobodys_unless_both_say_the_same(
    twins: bool, answer: Answer
) -> None:
    table = TABLE.model_copy(update={"twins": twins})
    wire = NamedVariables(Agent(), table, SystemClock())
    assert await wire.fetch(Places.of([PLACE])) == (answer,)
