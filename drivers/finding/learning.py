"""Where an agent has its variables by name: learnt in pieces, and again when it may have changed.

A table of names may be long and its agent slow, so one look asks for as much of it as there is
time for, and the next goes on from there. A table that lacks a name may be that of a device which
is still starting, or to which a sensor is plugged in later: it is asked for again, soon, then ever
less often.
"""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

from drivers.finding.walking import Oid, Walks
from drivers.profile import SnmpWhere, Variables
from drivers.profile.binding import Places, SnmpAt
from drivers.profile.codec import Answer, text_of
from drivers.transport import Transport
from facility.clock import Clock
from facility.points import Flaw

UPTIME: Final = SnmpAt(
    SnmpWhere(oid=(1, 3, 6, 1, 2, 1, 1, 3, 0), syntax="timeticks"), (1, 3, 6, 1, 2, 1, 1, 3, 0)
)
#: names that were found moved are not asked for more often
LEARN_AGAIN_S: Final = 60.0
#: first and longest wait before names are asked for again because some are not there, and when
#: the agent did not tell any
LACKING_AGAIN_S: Final = 5.0
LACKING_LONGEST_S: Final = 600.0
#: how long one look may ask for names
PIECE_S: Final = 2.0


class Wire(Transport, Walks, Protocol):
    """What this stands on: an SNMP agent."""


class Names:
    """The names of one agent's variables.

    Attributes:
        suffixes: name -> the rows that bear it; None until they were learnt.
        edition: how often they were.
    """

    def __init__(self, wire: Wire, variables: Variables, clock: Clock) -> None:
        """Take the agent, and where its profile says that the names are."""
        self.suffixes: dict[str, tuple[Oid, ...]] | None = None
        self.edition = 0
        self._wire, self._clock = wire, clock
        self._column = variables.names
        self._learning = asyncio.Lock()
        self._told: dict[Oid, Answer] = {}
        self._last: Oid | None = None
        self._stuck = False
        self._doubted = True
        self._uptime: int | None = None
        self._due_s = float("-inf")
        self._learnt_s = float("-inf")
        self._wait_s = LACKING_AGAIN_S

    def moved(self) -> None:
        """A variable is not where it was: ask again, but not at each look."""
        self._doubted = True
        self._due_s = min(self._due_s, self._learnt_s + LEARN_AGAIN_S)

    def lacking(self) -> None:
        """A name that is wanted is not there."""
        self._due_s = min(self._due_s, self._learnt_s + self._wait_s)

    def hear_uptime(self, answer: Answer) -> None:
        """A device that restarted may have numbered its variables anew."""
        ticks = _ticks(answer)
        if ticks is None:
            return
        if self._uptime is not None and ticks < self._uptime:
            self._doubted = True
            self._due_s, self._wait_s = float("-inf"), LACKING_AGAIN_S
            self._forget_pieces()
        self._uptime = ticks

    async def ready(self) -> bool:
        """Whether they are known; asks for them when that is due."""
        async with self._learning:
            if self._clock.monotonic_s() >= self._due_s:
                # A silent agent is left alone by its own wire; a walk would not know.
                uptime = (await self._wire.fetch(Places((UPTIME,))))[0]
                if uptime is Flaw.TIMEOUT:
                    return False
                self.hear_uptime(uptime)
                await self._ask()
        return self.suffixes is not None

    async def _ask(self) -> None:
        """Ask for the next piece of the table; take it over where it was the last one."""
        walked = await self._wire.walk(self._column, self._last, PIECE_S)
        self._told.update(zip(walked.names, walked.answers, strict=True))
        if walked.why and walked.names:
            self._last, self._stuck = walked.names[-1], False
            return
        if walked.why and not self._stuck and self._told:
            self._stuck = True  # lost on the way, or as far as this table goes: the next try tells
            return
        if walked.why and not (self._told and self._doubted):
            self._forget_pieces()  # what is known is better than a part
            self._put_off()
            return
        found: dict[str, list[Oid]] = {}
        for oid, answer in self._told.items():
            suffix = oid[len(self._column) :]
            found.setdefault(text_of(answer, cell(self._column, suffix)) or "", []).append(suffix)
        self._forget_pieces()
        suffixes = {name: tuple(rows) for name, rows in found.items()}
        if suffixes == self.suffixes and not self._doubted:
            self._put_off()
        else:
            self._wait_s = LACKING_AGAIN_S
        self.suffixes, self._due_s, self._doubted = suffixes, float("inf"), False
        self._learnt_s = self._clock.monotonic_s()
        self.edition += 1

    def _put_off(self) -> None:
        self._due_s = self._clock.monotonic_s() + self._wait_s
        self._wait_s = min(2.0 * self._wait_s, LACKING_LONGEST_S)

    def _forget_pieces(self) -> None:
        self._told, self._last, self._stuck = {}, None, False


def cell(column: Oid, suffix: Oid) -> SnmpAt:
    """The text in one row of a column."""
    return SnmpAt(SnmpWhere(oid=column, syntax="octets"), column + suffix)


def _ticks(answer: Answer) -> int | None:
    """The uptime in an answer; a flaw is an integer too, and no uptime."""
    return answer if isinstance(answer, int) and not isinstance(answer, Flaw) else None
