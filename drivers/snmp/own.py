"""SNMP v1, v2c and v3 in our own words: datagrams written once, answers read by their form."""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import Callable
from functools import partial
from typing import Final, TypeVar, cast

from drivers.address import Address
from drivers.credentials import Credentials
from drivers.snmp import ber, pdu
from drivers.snmp.community import V1, V2C, Envelope
from drivers.snmp.lookups import Lookups
from drivers.snmp.question import Oid, Question, Reply, listed, variables_of
from drivers.snmp.v3 import session
from drivers.snmp.values import recall
from drivers.snmp.wire import Sockaddr, Wire
from drivers.transport import Links

T = TypeVar("T")

#: a reader of values, from a datagram and the place of its list of variables
Values = Callable[[bytes, pdu.Head], Reply]

MOST_VARIABLES: Final = 64
#: requests that are kept ready; an agent in ever other trouble is asked ever other questions
MOST_BUILT: Final = 256
#: turns that a v3 agent may take to say who it is and what time it has
TURNS: Final = 4


class OwnReader:
    """One agent, over the socket that all of them share."""

    most = MOST_VARIABLES

    def __init__(self, address: Address, links: Links, credentials: Credentials) -> None:
        """Take the agent's address and what it wants to hear.

        Raises:
            ValueError: SNMPv3 keys that cannot be.
        """
        self._address = address
        self._links = links
        self._rng = random.Random(links.rng.getrandbits(64))
        self._number = self._rng.randrange(pdu.LEAST_ID, pdu.MOST_ID)
        self._session: session.Session | None = None
        self._envelope: Envelope | None = None
        if credentials.kind == "snmpv3":
            self._session = session.Session(credentials, self._rng)
        else:
            version = V1 if credentials.kind == "community_v1" else V2C
            name = f"{version} {credentials.secret}"
            self._envelope = links.shared(
                Envelope, name, lambda: Envelope(version, credentials.secret)
            )
        self._built: dict[Question, tuple[bytes, bytes]] = {}
        self._to: Sockaddr | None = None
        self._turn = 0
        self._wire: Wire | None = None
        self.requests = 0
        self.trouble = ""
        self.refused = False

    async def get(self, question: Question, attempts: int = 1) -> Reply | None:
        """GET; None when nothing usable came back."""

        def values(data: bytes, head: pdu.Head) -> Reply:
            answers, came = question.read(data, head.start, head.stop)
            return Reply(answers, (), came, head.status, head.blamed)

        if self._envelope is not None:
            return await self._prepared(self._envelope, question, values, attempts)
        return await self._ask(pdu.GET, question.variables, values, attempts)

    async def after(self, oid: Oid) -> Reply | None:
        """GETNEXT of one name."""
        return await self._ask(pdu.GET_NEXT, listed([ber.encode_oid(oid)]), _named, 2)

    async def bulk(self, oid: Oid, repetitions: int, attempts: int = 1) -> Reply | None:
        """GETBULK from one name on."""
        variables = listed([ber.encode_oid(oid)])
        return await self._ask(pdu.GET_BULK, variables, _named, attempts, second=repetitions)

    async def set(self, oid: Oid, value: bytes) -> Reply | None:
        """SET of one variable to an element, once."""
        pair = ber.encode(ber.SEQUENCE, ber.encode_oid(oid) + value)
        return await self._ask(pdu.SET, ber.encode(ber.SEQUENCE, pair), _named, 1)

    async def close(self) -> None:
        """Leave the shared socket; it closes behind the last."""
        if self._wire is not None:
            self._wire.leave()
            self._wire = None

    def _next(self) -> int:
        self._number = self._number + 1 if self._number < pdu.MOST_ID else pdu.LEAST_ID
        return self._number

    async def _prepared(
        self, envelope: Envelope, question: Question, values: Values, attempts: int
    ) -> Reply | None:
        """A GET of v1 or v2c: of the datagram only the request's number is new each time."""
        built = self._built.get(question)
        number = self._next()
        if built is None:
            mark = number.to_bytes(pdu.ID_OCTETS, "big")
            whole = envelope.wrap(pdu.written(pdu.GET, number, question.variables))
            at = whole.rindex(ber.encode(ber.INTEGER, mark), 0, -len(question.variables))
            if len(self._built) >= MOST_BUILT:
                self._built.clear()
            built = self._built[question] = (whole[: at + 2], whole[at + 2 + pdu.ID_OCTETS :])
        message = number.to_bytes(pdu.ID_OCTETS, "big").join(built)
        return await self._exchange(message, _reading(envelope, number, values), attempts)

    async def _ask(
        self, kind: int, variables: bytes, values: Values, attempts: int, second: int = 0
    ) -> Reply | None:
        number = self._next()
        request = pdu.written(kind, number, variables, 0, second)
        if self._envelope is not None:
            message = self._envelope.wrap(request)
            return await self._exchange(message, _reading(self._envelope, number, values), attempts)
        assert self._session is not None
        return await self._as_user(self._session, request, number, values, attempts)

    async def _as_user(
        self, user: session.Session, request: bytes, number: int, values: Values, attempts: int
    ) -> Reply | None:
        """Ask an agent of v3, and first who it is; its Reports may call for another turn."""
        now_s = self._links.clock.monotonic_s
        for _ in range(TURNS):
            asked = user.wrap(request, number, now_s()) if user.known else user.probe(number)
            said = await self._exchange(asked, partial(_told, user, number, now_s), attempts)
            if said is None:
                # The next contact starts with who it is: it may be another card by then.
                user.forget()
                return None
            if not said.report:
                try:
                    return values(said.plain, said.head)
                except ber.BerError:
                    return None
            if said.report not in (session.UNKNOWN_ENGINE, session.TIME_WINDOW):
                self.trouble, self.refused = said.report, True
                return None
            number = self._next()
            request = _renumbered(request, number)
        self.trouble = "it does not agree on who it is or what time it has"
        user.forget()
        return None

    async def _exchange(
        self, message: bytes, read: Callable[[bytes], T | None], attempts: int
    ) -> T | None:
        self.trouble, self.refused = "", False
        to = self._to or await self._resolve()
        if to is None:
            return None
        family = socket.AF_INET6 if len(to) == 4 else socket.AF_INET
        if self._wire is None or self._wire.family != family:
            await self.close()
            self._wire = self._links.shared(Wire, f"udp {family}", lambda: Wire(family))
            self._wire.join()
        for _ in range(attempts):
            # A repetition is the same message: an agent slower than one timeout answers the first
            # while the second is out, and that answer is as good.
            self.requests += 1
            answer = await self._wire.ask(to, message, read, self._links.timeout_s)
            if answer is not None:
                return cast(T, answer)
        # A name may stand for another address by now, or have a second one that answers.
        self._to = None
        self._turn += 1
        return None

    async def _resolve(self) -> Sockaddr | None:
        where = (self._address.host, self._address.port)
        try:
            # A numeric address needs no thread and no name server.
            found = socket.getaddrinfo(*where, type=socket.SOCK_DGRAM, flags=socket.AI_NUMERICHOST)
        except (OSError, UnicodeError):
            try:
                async with asyncio.timeout(self._links.timeout_s):
                    found = await self._links.shared(Lookups, "names", Lookups).find(*where)
            except (OSError, TimeoutError, UnicodeError):  # the last: no name at all
                self.trouble = f"{self._address.host} is not known by name"
                return None
        self._to = found[self._turn % len(found)][4]
        return self._to


def _reading(envelope: Envelope, number: int, values: Values) -> Callable[[bytes], Reply | None]:
    """Reads the answer to the request with this number out of datagrams; None for all others."""

    def read(data: bytes) -> Reply | None:
        try:
            head = envelope.unwrap(data)
            if head.id != number or head.kind != pdu.RESPONSE:
                return None
            return values(data, head)
        except ber.BerError:
            return None

    return read


def _told(
    user: session.Session, number: int, now_s: Callable[[], float], data: bytes
) -> session.Told | None:
    """What a datagram says in answer to the message with this number; None for all others."""
    try:
        return user.unwrap(data, number, now_s())
    except ber.BerError:
        return None


def _named(data: bytes, head: pdu.Head) -> Reply:
    """An answer whose names are the agent's choice."""
    pairs = variables_of(data, head.start, head.stop)
    names = []
    for name, _ in pairs:
        _, start, stop = ber.element(name, 0, len(name))
        names.append(ber.arcs(name[start:stop]))
    answers = tuple(recall(value) for _, value in pairs)
    return Reply(answers, tuple(names), len(pairs), head.status, head.blamed)


def _renumbered(request: bytes, number: int) -> bytes:
    """The same request under another number."""
    _, start, _ = ber.element(request, 0, len(request))
    mark = ber.encode_integer(number)
    return request[:start] + mark + request[start + len(mark) :]
