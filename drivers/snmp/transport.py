"""One SNMP agent as a transport: looks, walks and writes behind one lock and one patience."""

from __future__ import annotations

from collections.abc import Sequence

from drivers.address import Address
from drivers.credentials import Credentials
from drivers.profile import Quirk
from drivers.profile.binding import At, Places, SnmpAt
from drivers.profile.codec import Answer, Raw
from drivers.snmp import pdu
from drivers.snmp.looking import Looker, refusal
from drivers.snmp.own import OwnReader
from drivers.snmp.question import Oid, question
from drivers.snmp.reader import Reader
from drivers.snmp.values import encoded
from drivers.snmp.walk import WALK_DEADLINE_S, Walked, Walker
from drivers.transport import FOREVER, TOO_LATE, Endpoint, Links, WriteReply
from facility.points import Flaw


class SnmpTransport:
    """One agent."""

    def __init__(
        self,
        address: Address,
        links: Links,
        credentials: Credentials,
        quirks: Sequence[Quirk] = (),
        reader: Reader | None = None,
    ) -> None:
        """Take the agent; `reader` replaces the one that it is read with.

        Raises:
            ValueError: SNMPv3 keys that cannot be.
        """
        name = address.endpoint
        self._endpoint = links.shared(Endpoint, name, lambda: Endpoint(name))
        self._reader = reader or OwnReader(address, links, credentials)
        self._patience = links.patience()
        self._clock = links.clock
        bulk = "no_getbulk" not in quirks and credentials.kind != "community_v1"
        self._looker = Looker(self._reader, links.clock)
        self._walker = Walker(self._reader, links.clock, bulk)
        self.host = address.host

    @property
    def endpoint(self) -> str:
        """`snmp://host:port`."""
        return self._endpoint.name

    @property
    def requests(self) -> int:
        """Requests put on the wire so far, repetitions included."""
        return self._reader.requests

    @property
    def trouble(self) -> str:
        """Why the agent gave no answer, in words; empty where it is just silent."""
        return self._reader.trouble

    @property
    def bulk(self) -> bool:
        """Whether it is walked with GETBULK, as far as is known."""
        return self._walker.repetitions > 0

    async def fetch(self, places: Places) -> Sequence[Answer]:
        """GET every place; see `Looker` for what is done with agents that cannot take it."""
        if self._patience.waiting:
            return (Flaw.TIMEOUT,) * len(places.at)
        async with self._endpoint.lock:
            look = await self._looker.look(places)
        if look.spoke:
            self._patience.answered()
            return look.answers
        self._patience.silent()
        if not self._reader.refused:
            return look.answers
        return tuple(Flaw.REFUSED if a is Flaw.TIMEOUT else a for a in look.answers)

    async def get(self, oid: Oid) -> Answer:
        """One variable by its number."""
        async with self._endpoint.lock:
            reply = await self._reader.get(question((oid,)), 2)
        if reply is None:
            return Flaw.TIMEOUT
        return refusal(reply.status) if reply.status else reply.answers[0]

    async def put(self, place: At, raw: Raw, within_s: float = FOREVER) -> WriteReply:
        """SET once."""
        value = None
        if isinstance(place, SnmpAt) and not isinstance(raw, tuple):
            value = encoded(place.where.syntax, raw)
        if value is None or not isinstance(place, SnmpAt):
            return WriteReply("rejected", "no SNMP value of this type")
        void_s = self._clock.monotonic_s() + within_s
        async with self._endpoint.lock:
            if self._clock.monotonic_s() > void_s:
                return TOO_LATE
            reply = await self._reader.set(place.oid, value)
        if reply is None:
            return WriteReply("unanswered", self._reader.trouble or "no answer")
        if reply.status:
            return WriteReply("rejected", pdu.ERRORS.get(reply.status, f"error {reply.status}"))
        return WriteReply("accepted")

    async def walk(
        self, root: Oid, after: Oid | None = None, within_s: float = WALK_DEADLINE_S
    ) -> Walked:
        """Everything below a name, in the agent's order; see `Walker` for the bounds."""
        async with self._endpoint.lock:
            return await self._walker.walk(root, after, within_s)

    async def close(self) -> None:
        """Let go of the socket that all agents share; asking again takes hold of it again."""
        await self._reader.close()
