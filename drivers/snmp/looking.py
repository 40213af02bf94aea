"""Looks at one agent's variables: how many at once, which not at all, what to do when it says no.

What an agent cannot do is learnt once and remembered: how many variables one answer holds, and
which variables make it refuse a whole request. Absent ones are tried again now and then, because
firmware is updated; so is a larger request where fewer variables were found to fit, because it may
have been the link that lost the requests.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple
from weakref import WeakKeyDictionary

from drivers.profile.binding import Places, SnmpAt
from drivers.profile.codec import Answer
from drivers.snmp import pdu
from drivers.snmp.question import Oid, Question, Reply, grouped
from drivers.snmp.reader import Reader
from facility.clock import Clock
from facility.points import Flaw

#: no request of a look begins later than this; the last one has to end before a device's deadline
LOOK_DEADLINE_S: Final = 3.5
#: a variable that was refused is tried again after this long, because the agent may be starting;
#: then after twice as long, and so on; one of them always, where everything was refused
STARTING_AGAIN_S: Final = 5.0
#: the longest such wait for a variable that an agent has not: firmware is updated
ABSENT_AGAIN_S: Final = 600.0
#: the same for one over which it is in trouble
TROUBLE_AGAIN_S: Final = 30.0
#: first and longest wait before an agent that was seen to take fewer variables is tried with more
GROW_AGAIN_S: Final = 600.0
GROW_LONGEST_S: Final = 86_400.0
#: statuses that say there is no such variable (for us); others are the agent's own trouble
_ABSENT: Final = frozenset({2, 6, 16})


@dataclass(frozen=True, slots=True)
class Plan:
    """How one set of places is asked for, as long as nothing new is learnt of the agent.

    Attributes:
        lesson: how much was known when it was made.
        questions: what is asked, in order.
        whole: the one question whose answers are the whole look, in the order of the places.
    """

    lesson: int
    questions: tuple[Question, ...]
    whole: Question | None


def refusal(status: int) -> Flaw:
    """What an error status says of the variable that it is about."""
    return Flaw.REFUSED if status in _ABSENT else Flaw.DEVICE_FAULT


class Look(NamedTuple):
    """What one look brought: an answer for every place, and whether the agent spoke to its end.

    One that was still answering when the time was up did: it is slow, not silent.
    """

    answers: Sequence[Answer]
    spoke: bool


class Looker:
    """Reads one agent by GET and remembers what it can take."""

    def __init__(self, reader: Reader, clock: Clock) -> None:
        self._reader = reader
        self._clock = clock
        #: variables that one GET may ask for
        self.most = reader.most
        #: variables of the largest answer that came
        self.proven = 0
        self._refused: dict[Oid, tuple[Flaw, float]] = {}
        self._waits: dict[Oid, float] = {}
        #: what was asked for where nothing of it was there; one of them is tried now and then
        self._barren: tuple[Oid, ...] = ()
        self._probe_s = float("inf")
        self._probes = 0
        #: where the last look had to stop; the next one begins there
        self._left: Oid | None = None
        self._again_s = float("inf")
        self._lesson = 0
        self._plans: WeakKeyDictionary[Places, Plan] = WeakKeyDictionary()
        self._grow_s = float("inf")
        self._grow_wait_s = GROW_AGAIN_S
        self._last: tuple[Places, Plan] | None = None

    async def look(self, places: Places) -> Look:
        """An answer for every place, in their order."""
        if self._clock.monotonic_s() >= self._again_s:
            self._forgive()
        elif self._barren and self._clock.monotonic_s() >= self._probe_s:
            await self._probe()
        plan = self._plan(places)
        if plan.whole is not None and self.proven >= len(places.at):
            reply = await self._reader.get(plan.whole, 2)
            if reply is not None and not reply.status and reply.came == len(reply.answers):
                return Look(reply.answers, True)
            if reply is None:
                self._mistrust()
                return Look((Flaw.TIMEOUT,) * len(places.at), False)
        found: dict[Oid, Answer] = {oid: flaw for oid, (flaw, _) in self._refused.items()}
        questions = plan.questions
        if len(questions) > 1 and self._clock.monotonic_s() >= self._grow_s:
            questions = await self._grown(questions, found)
        spoke = await self._gather(questions, found)
        self._doubt(tuple(at.oid for at in places.at if isinstance(at, SnmpAt)))
        answers = tuple(
            found.get(at.oid, Flaw.TIMEOUT) if isinstance(at, SnmpAt) else Flaw.UNDECODABLE
            for at in places.at
        )
        return Look(answers, spoke)

    def _plan(self, places: Places) -> Plan:
        if self._last is not None and self._last[0] is places:
            plan: Plan | None = self._last[1]
        else:
            plan = self._plans.get(places)
        if plan is None or plan.lesson != self._lesson:
            oids = tuple(dict.fromkeys(at.oid for at in places.at if isinstance(at, SnmpAt)))
            asked = tuple(oid for oid in oids if oid not in self._refused)
            questions = grouped(asked, self.most)
            whole = len(questions) == 1 and len(questions[0].oids) == len(places.at)
            plan = Plan(self._lesson, questions, questions[0] if whole else None)
            self._plans[places] = plan
        self._last = (places, plan)
        return plan

    async def _gather(self, questions: Sequence[Question], found: dict[Oid, Answer]) -> bool:
        """Put every question that there is time for; False when the agent fell silent."""
        first = next((i for i, q in enumerate(questions) if self._left in q.oids), 0)
        pending = [*reversed(questions[:first]), *reversed(questions[first:])]
        deadline_s = self._clock.monotonic_s() + LOOK_DEADLINE_S
        self._left = None
        while pending:
            if self._clock.monotonic_s() > deadline_s:
                self._left = pending[-1].oids[0]
                return True
            asked = pending.pop()
            reply = await self._get(asked)
            if reply is None:
                if len(asked.oids) <= self.most:
                    self._mistrust()
                    return False
                pending += reversed(grouped(asked.oids, self.most))
            else:
                pending += reversed(self._understood(asked, reply, found))
        return True

    async def _grown(
        self, questions: tuple[Question, ...], found: dict[Oid, Answer]
    ) -> tuple[Question, ...]:
        """Ask once for twice as much; what is left to ask.

        An agent that cannot take it costs one request, then less and less often.
        """
        oids = tuple(oid for asked in questions for oid in asked.oids)
        larger = grouped(oids, min(2 * self.most, self._reader.most))[0]
        size = len(larger.oids)
        reply = await self._reader.get(larger) if size > self.most else None
        if reply is None or reply.status or reply.came < size:
            self._grow_s = self._clock.monotonic_s() + self._grow_wait_s
            self._grow_wait_s = min(2.0 * self._grow_wait_s, GROW_LONGEST_S)
            return questions
        found.update(zip(larger.oids, reply.answers, strict=True))
        self.most = self.proven = size
        self._lesson += 1
        self._grow_wait_s = GROW_AGAIN_S
        if size >= self._reader.most:
            self._grow_s = float("inf")
        return grouped(oids[size:], size)

    async def _get(self, asked: Question) -> Reply | None:
        """One GET; a number of variables that never worked is lowered if it is to blame."""
        size = len(asked.oids)
        if size <= max(self.proven, 1):
            return await self._reader.get(asked, 2)
        reply = await self._reader.get(asked)
        if reply is not None or self._reader.trouble:
            return reply
        # Silent: dead, or the request was lost, or it asked for too much. One variable tells.
        one = await self._reader.get(grouped(asked.oids[:1], 1)[0], 2)
        if one is None:
            return None
        self.proven = max(self.proven, 1)
        reply = await self._reader.get(asked)
        if reply is None:
            self._lower(size // 2)
        return reply

    def _understood(
        self, asked: Question, reply: Reply, found: dict[Oid, Answer]
    ) -> Sequence[Question]:
        """Take over what an answer says; what has to be asked again, and how."""
        oids = asked.oids
        size = len(oids)
        if not reply.status:
            if reply.came == size:
                self.proven = max(self.proven, size)
            elif 0 < reply.came < size:
                # It answered as many as fit and left the rest away.
                self._lower(reply.came)
                found.update(zip(oids[: reply.came], reply.answers, strict=False))
                return grouped(oids[reply.came :], self.most)
            found.update(zip(oids, reply.answers, strict=True))
            return ()
        if reply.status == pdu.TOO_BIG and size > 1:
            self._lower(size // 2)
            return grouped(oids, self.most)
        flaw = refusal(reply.status)
        if not 1 <= reply.blamed <= size:
            if size > 1:  # one of them is to blame, and it does not say which
                return (
                    *grouped(oids[: size // 2], self.most),
                    *grouped(oids[size // 2 :], self.most),
                )
            blamed = 1
        else:
            blamed = reply.blamed
        self._refuse(oids[blamed - 1], flaw, found)
        return grouped(oids[: blamed - 1] + oids[blamed:], self.most)

    def _refuse(self, oid: Oid, flaw: Flaw, found: dict[Oid, Answer]) -> None:
        longest_s = ABSENT_AGAIN_S if flaw is Flaw.REFUSED else TROUBLE_AGAIN_S
        wait_s = min(self._waits.get(oid, STARTING_AGAIN_S), longest_s)
        self._waits[oid] = 2.0 * wait_s
        again_s = self._clock.monotonic_s() + wait_s
        found[oid] = flaw
        self._refused[oid] = (flaw, again_s)
        self._again_s = min(self._again_s, again_s)
        self._lesson += 1

    def _doubt(self, oids: tuple[Oid, ...]) -> None:
        """Note where everything was refused: an agent that starts refuses all.

        To find out that each is refused takes two requests for each, so only one is tried soon.
        """
        if oids and all(oid in self._refused for oid in oids):
            if self._barren != oids:
                self._probe_s = self._clock.monotonic_s() + STARTING_AGAIN_S
            self._barren = oids
        elif not set(oids).isdisjoint(self._barren):
            self._barren = ()

    async def _probe(self) -> None:
        """Try one variable of those that were all refused, each time another."""
        self._probe_s = self._clock.monotonic_s() + STARTING_AGAIN_S
        self._probes += 1
        oid = self._barren[self._probes % len(self._barren)]
        reply = await self._reader.get(grouped((oid,), 1)[0], 2)
        if reply is None:
            self._mistrust()
        elif not reply.status:
            self._refused.clear()
            self._forgive()

    def _mistrust(self) -> None:
        """Forget what it refused: after a silence it may have been restarted, or be another."""
        self.proven = 0
        self._waits.clear()
        if self._refused:
            self._refused.clear()
            self._forgive()

    def _forgive(self) -> None:
        now_s = self._clock.monotonic_s()
        self._refused = {oid: r for oid, r in self._refused.items() if r[1] > now_s}
        self._again_s = min((r[1] for r in self._refused.values()), default=float("inf"))
        self._lesson += 1

    def _lower(self, most: int) -> None:
        self.most = max(most, 1)
        self.proven = min(self.proven, self.most)
        self._grow_s = self._clock.monotonic_s() + self._grow_wait_s
        self._lesson += 1
