"""Walks below one name: our own, because an agent that dies or loops must end them too.

Bounded by time, by requests and by names that have to rise. How many rows one GETBULK may bring
is learnt: halved when the agent stays silent or says tooBig, and remembered; an agent that knows
no GETBULK is asked with GETNEXT from then on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from drivers.profile.codec import Answer
from drivers.snmp import pdu
from drivers.snmp.question import Oid, Reply
from drivers.snmp.reader import Reader
from facility.clock import Clock
from facility.points import Flaw

#: a walk ends after this many requests or seconds, whatever the agent says
WALK_REQUESTS: Final = 512
WALK_DEADLINE_S: Final = 10.0
#: or this many rows: an agent may put thousands into one answer, and names without end
WALK_ROWS: Final = 20_000
#: rows of one GETBULK to begin with
REPETITIONS: Final = 24


@dataclass(frozen=True, slots=True)
class Walked:
    """What a walk found.

    Attributes:
        names, answers: in the agent's order.
        why: why it ended before the end of what is there; empty when it did not.
        silent: whether the agent never answered at all.
    """

    names: tuple[Oid, ...]
    answers: tuple[Answer, ...]
    why: str = ""
    silent: bool = False


class Walker:
    """Walks one agent and remembers what it can take."""

    def __init__(self, reader: Reader, clock: Clock, bulk: bool) -> None:
        """Take the reader; `bulk` says whether the agent may be asked with GETBULK at all."""
        self._reader = reader
        self._clock = clock
        #: rows of one GETBULK; 0 for an agent that has none
        self.repetitions = REPETITIONS if bulk else 0
        self._proven = False

    async def walk(
        self, root: Oid, after: Oid | None = None, within_s: float = WALK_DEADLINE_S
    ) -> Walked:
        """Everything below a name, or what of it comes after a walk that had to stop there."""
        names: list[Oid] = []
        answers: list[Answer] = []
        deadline_s = self._clock.monotonic_s() + within_s
        here, why = after or root, "too many requests"
        for _ in range(WALK_REQUESTS):
            if self._clock.monotonic_s() > deadline_s:
                why = "too slow"
                break
            reply = await self._step(here)
            if reply is None:
                why = self._reader.trouble or "no answer"
                break
            end = _taken(root, here, reply, names, answers)
            if end is not None:
                why = end
                break
            here = names[-1]
        return Walked(tuple(names), tuple(answers), why, why != "" and not names)

    async def _step(self, here: Oid) -> Reply | None:
        """What comes after a name, as many at once as the agent can."""
        before = self.repetitions
        while self.repetitions:
            reply = await self._reader.bulk(here, self.repetitions, 2 if self._proven else 1)
            if reply is not None and not reply.status:
                self._proven = True
                return reply
            if reply is None and self._proven:
                self._proven = False
                self.repetitions //= 2
                break
            await self._lower(here, reply)
        reply = await self._reader.after(here)
        if reply is None:  # dead, which says nothing of GETBULK
            self.repetitions = before
        return reply

    async def _lower(self, here: Oid, reply: Reply | None) -> None:
        """Fewer rows at once; none when the agent does not answer even for one."""
        if self.repetitions == 1 or (reply is not None and reply.status != pdu.TOO_BIG):
            self.repetitions = 0
        elif reply is None and self.repetitions == REPETITIONS:
            # One short request tells an agent that chokes on many rows from one without GETBULK.
            one = await self._reader.bulk(here, 1)
            self.repetitions = 0 if one is None else self.repetitions // 2
        else:
            self.repetitions //= 2


def _taken(
    root: Oid, here: Oid, reply: Reply, names: list[Oid], answers: list[Answer]
) -> str | None:
    """Add what an answer brought; why the walk ends with it, None when it goes on."""
    if reply.status == pdu.NO_SUCH_NAME:  # how SNMPv1 says that nothing follows
        return ""
    if reply.status:
        return pdu.ERRORS.get(reply.status, f"error {reply.status}")
    for name, answer in zip(reply.names, reply.answers, strict=True):
        if name[: len(root)] != root:
            return ""
        if name <= here:
            # The end of the view repeats the name that was asked for, without a value.
            ended = name == here and answer is Flaw.REFUSED
            return "" if ended else "names that do not rise"
        if len(names) >= WALK_ROWS:
            return "too many rows"
        names.append(name)
        answers.append(answer)
        here = name
    return None if reply.names else ""
