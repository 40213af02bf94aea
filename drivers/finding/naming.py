"""A wire whose variables are found by name, or in the first of several places that answers.

The numbers of such variables move with hardware and firmware, also while we look. So the name of
each is read together with its value, every time: a value whose name is another's is never handed
over, and the agent is asked for its names again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from drivers.finding.learning import UPTIME, Names, Wire, cell
from drivers.finding.walking import WALK_S, Asks, Oid, Walked
from drivers.profile import Variables
from drivers.profile.binding import At, NamedAt, Places, SnmpAt
from drivers.profile.codec import Answer, Raw, text_of
from drivers.transport import FOREVER, Troubled, WriteReply
from facility.clock import Clock
from facility.points import Flaw


@dataclass(frozen=True, slots=True)
class _Spelled:
    """Where one place is: candidates among the places really asked for, and their names there.

    Attributes:
        name_at: place of the name's cell among them; -1 where there is no name to check.
        names: what it must say.
    """

    candidates: tuple[int, ...]
    name_at: int = -1
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Plan:
    places: Places
    spelled: tuple[_Spelled, ...]


class NamedVariables:
    """Implements `drivers.transport.Transport` on an SNMP agent with a table of names."""

    def __init__(self, wire: Wire, variables: Variables | None, clock: Clock) -> None:
        self._wire = wire
        self._variables = variables
        self._names = None if variables is None else Names(wire, variables, clock)
        self._clock = clock
        self._edition = 0
        self._plans: dict[Places, _Plan] = {}
        self._first: dict[At, int] = {}

    @property
    def endpoint(self) -> str:
        """As of the wire."""
        return self._wire.endpoint

    @property
    def host(self) -> str:
        """As of the wire."""
        return self._wire.host

    @property
    def requests(self) -> int:
        """As of the wire."""
        return self._wire.requests

    @property
    def trouble(self) -> str:
        """As of the wire."""
        return self._wire.trouble if isinstance(self._wire, Troubled) else ""

    async def get(self, oid: Oid) -> Answer:
        """As of the wire, where it reads single variables."""
        return await self._wire.get(oid) if isinstance(self._wire, Asks) else Flaw.REFUSED

    async def fetch(self, places: Places) -> Sequence[Answer]:
        """One look; REFUSED where the device has no such name, or moved it just now."""
        if not await self._ready():
            return (Flaw.TIMEOUT,) * len(places.at)
        plan = self._plans.get(places)
        if plan is None:
            plan = self._plans[places] = self._plan(places)
        answers = await self._wire.fetch(plan.places)
        if self._names is not None:
            self._names.hear_uptime(answers[0])
        return tuple(
            self._chosen(place, where, answers)
            for place, where in zip(places.at, plan.spelled, strict=True)
        )

    async def put(self, place: At, raw: Raw, within_s: float = FOREVER) -> WriteReply:
        """Write once, after the name in that place has been read again."""
        if not isinstance(place, NamedAt):
            return await self._wire.put(place, raw, within_s)
        began_s = self._clock.monotonic_s()
        # Names that are known need not be asked for first: the cell is read again, see below.
        known = self._names is not None and self._names.suffixes is not None
        if not known and not await self._ready():
            return WriteReply("unanswered", "the device does not tell the names of its variables")
        suffix = self._suffix(place)
        if suffix is None or self._variables is None or self._names is None:
            return WriteReply("rejected", f"the device has no {place.names[0]!r}")
        name_at = cell(self._variables.names, suffix)
        told = await self._wire.fetch(Places((name_at,)))
        if text_of(told[0], name_at) not in place.names:
            self._names.moved()
            return WriteReply("rejected", f"{place.names[0]!r} is somewhere else now")
        left_s = within_s - (self._clock.monotonic_s() - began_s)
        return await self._wire.put(SnmpAt(place.where, place.oid + suffix), raw, left_s)

    async def walk(self, root: Oid, after: Oid | None = None, within_s: float = WALK_S) -> Walked:
        """As of the wire."""
        return await self._wire.walk(root, after, within_s)

    async def close(self) -> None:
        """Let go of the wire."""
        await self._wire.close()

    def oid(self, at: SnmpAt) -> Oid:
        """Where a place is now, of those in an agent's tree; the column where it is not known."""
        if isinstance(at, NamedAt):
            return at.oid + (self._suffix(at) or ())
        found = [other.oid for other in _candidates(at) if isinstance(other, SnmpAt)]
        return found[self._first.get(at, 0)]

    async def _ready(self) -> bool:
        """Whether the names are known, as far as they are needed; asks for them when it must."""
        if self._names is None:
            return True
        ready = await self._names.ready()
        if self._edition != self._names.edition:
            self._edition = self._names.edition
            self._plans.clear()
        return ready

    def _suffix(self, at: NamedAt) -> Oid | None:
        """Where a variable is; None when there is none of that name, or more than one."""
        known = {} if self._names is None or self._names.suffixes is None else self._names.suffixes
        for name in at.names:
            all_of_them = known.get(name, ())
            here = [s for s in all_of_them if s[: len(at.within)] == at.within]
            if len(here) == 1 or (here and self._variables is not None and self._variables.twins):
                return here[0]
        return None

    def _plan(self, places: Places) -> _Plan:
        asked: dict[At, int] = {UPTIME: 0}

        def put(at: At) -> int:
            return asked.setdefault(at, len(asked))

        spelled = []
        for at in places.at:
            if isinstance(at, NamedAt) and self._variables is not None:
                suffix = self._suffix(at)
                if suffix is None:
                    spelled.append(_Spelled(()))
                    continue
                value = put(SnmpAt(at.where, at.oid + suffix))
                name = put(cell(self._variables.names, suffix))
                spelled.append(_Spelled((value,), name, at.names))
            else:
                spelled.append(_Spelled(tuple(put(other) for other in _candidates(at))))
        return _Plan(Places(tuple(asked)), tuple(spelled))

    def _chosen(self, place: At, where: _Spelled, answers: Sequence[Answer]) -> Answer:
        if not where.candidates:
            if self._names is not None:
                self._names.lacking()
            return Flaw.REFUSED
        if where.name_at >= 0:
            assert self._variables is not None
            assert self._names is not None
            name = answers[where.name_at]
            if isinstance(name, Flaw) and name is not Flaw.REFUSED:
                return name
            if text_of(name, cell(self._variables.names, ())) not in where.names:
                self._names.moved()
                return Flaw.REFUSED
            return answers[where.candidates[0]]
        if len(where.candidates) == 1:
            return answers[where.candidates[0]]
        return self._first_of(place, [answers[i] for i in where.candidates])

    def _first_of(self, place: At, answers: Sequence[Answer]) -> Answer:
        """The place that answered first, for as long as it does: another may mean another thing."""
        chosen = self._first.get(place)
        if chosen is None or answers[chosen] is Flaw.REFUSED:
            chosen = next((i for i, a in enumerate(answers) if not isinstance(a, Flaw)), None)
            if chosen is None:
                return answers[0]
            self._first[place] = chosen
        return answers[chosen]


def _candidates(at: At) -> Iterable[At]:
    """A place, and where else its value may be."""
    yield at
    if isinstance(at, SnmpAt):
        suffix = at.oid[len(at.where.oid) :]
        for other in at.where.otherwise:
            yield SnmpAt(at.where, other + suffix)
