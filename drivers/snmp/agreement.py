"""Whether an agent says the same to GETBULK as to GET, asked when a device is commissioned.

Some say other values when a table is walked whole (prometheus/snmp_exporter#541). We read by GET;
who compares us with a collector that walks should know.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from drivers.profile.binding import Places, SnmpAt
from drivers.profile.codec import Answer
from drivers.snmp.question import Oid
from drivers.snmp.transport import SnmpTransport
from facility.points import Flaw

#: columns that are compared at most: a walk of every column of a large device takes minutes
MOST_COLUMNS: Final = 12
#: a reading may move between three requests by this fraction and this many counts
DRIFT: Final = 0.1
COUNTS: Final = 3


@dataclass(frozen=True, slots=True)
class Disagreement:
    """A variable that GET and GETBULK tell apart."""

    name: Oid
    get: Answer
    bulk: Answer


async def disagreements(
    agent: SnmpTransport, places: Iterable[SnmpAt]
) -> tuple[Disagreement, ...] | None:
    """What GET and GETBULK say differently of the columns that these places lie in.

    Returns:
        None when there is nothing to compare: no column, no GETBULK, or an agent that fell silent.
    """
    columns: dict[Oid, list[SnmpAt]] = {}
    for at in places:
        if at.where.index:
            columns.setdefault(at.where.oid, []).append(at)
    found: list[Disagreement] = []
    compared = False
    for column, below in list(columns.items())[:MOST_COLUMNS]:
        if not agent.bulk:
            break
        asked = Places.of(below)
        before = await agent.fetch(asked)
        walked = await agent.walk(column)
        after = await agent.fetch(asked)
        if walked.why or any(answer is Flaw.TIMEOUT for answer in (*before, *after)):
            continue
        compared = True
        told = dict(zip(walked.names, walked.answers, strict=True))
        for where, first, last in zip(asked.at, before, after, strict=True):
            assert isinstance(where, SnmpAt)
            bulk = told.get(where.oid, Flaw.REFUSED)
            if differ(first, bulk, last):
                found.append(Disagreement(where.oid, last, bulk))
    return tuple(found) if compared else None


def differ(before: Answer, bulk: Answer, after: Answer) -> bool:
    """Whether an answer cannot be of the same variable as those just before and just after it."""
    flaws = [isinstance(answer, Flaw) for answer in (before, bulk, after)]
    if any(flaws):  # a flaw is also a number, so it is never compared with one
        return flaws[1] not in (flaws[0], flaws[2])
    if bulk in (before, after):
        return False
    if not (
        isinstance(before, int | float)
        and isinstance(bulk, int | float)
        and isinstance(after, int | float)
    ):
        return True
    room = COUNTS + DRIFT * max(abs(before), abs(after))
    return not min(before, after) - room <= bulk <= max(before, after) + room
