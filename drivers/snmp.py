"""SNMP v2c through pysnmp: GET with prebuilt requests, bounded walks, SET.

pysnmp is kept to what it does well. Requests are built once and used again (rebuilding costs more
than the wire), MIB look-up is off, one engine serves every agent with the same credential, and
walks are our own: bounded by time, by requests and by strictly increasing OIDs, because an agent
that dies or loops in the middle would keep pysnmp's for ever.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final
from weakref import WeakKeyDictionary

from pyasn1.type import univ  # type: ignore[import-untyped]
from pysnmp.error import PySnmpError
from pysnmp.hlapi.v3arch.asyncio import (
    CommunityData,
    ContextData,
    Counter32,
    Counter64,
    Gauge32,
    Integer32,
    ObjectIdentity,
    ObjectType,
    OctetString,
    SnmpEngine,
    TimeTicks,
    Udp6TransportTarget,
    UdpTransportTarget,
    bulk_cmd,
    get_cmd,
    next_cmd,
    set_cmd,
)
from pysnmp.proto.rfc1902 import ObjectIdentifier
from pysnmp.proto.rfc1905 import EndOfMibView, NoSuchInstance, NoSuchObject

from drivers.address import Address
from drivers.credentials import Credentials
from drivers.profile import Quirk, SnmpWhere
from drivers.profile.binding import At, Places, SnmpAt
from drivers.profile.codec import Answer, Raw
from drivers.profile.plan import snmp_groups
from drivers.transport import Endpoint, Links, WriteReply
from facility.points import Flaw

Oid = tuple[int, ...]
SYS_DESCR: Final[Oid] = (1, 3, 6, 1, 2, 1, 1, 1, 0)
SYS_OBJECT_ID: Final[Oid] = (1, 3, 6, 1, 2, 1, 1, 2, 0)

#: a walk ends after this many requests or seconds, whatever the agent says
WALK_REQUESTS: Final = 64
WALK_DEADLINE_S: Final = 5.0
#: tags of INTEGER, Counter32, Gauge32, TimeTicks, Counter64 and Unsigned32 (RFC 2578)
BER_NUMBERS: Final = frozenset({0x02, 0x41, 0x42, 0x43, 0x46, 0x47})
MAX_REPETITIONS: Final = 16
TOO_BIG: Final = 1

_TYPES: Final[Mapping[str, Callable[[Any], Any]]] = {
    "integer": Integer32,
    "gauge32": Gauge32,
    "counter32": Counter32,
    "counter64": Counter64,
    "timeticks": TimeTicks,
    "octets": OctetString,
    "oid": ObjectIdentifier,
}
_ERRORS: Final[Mapping[int, str]] = {
    1: "tooBig",
    2: "noSuchName",
    3: "badValue",
    4: "readOnly",
    5: "genErr",
    6: "noAccess",
    7: "wrongType",
    8: "wrongLength",
    9: "wrongEncoding",
    10: "wrongValue",
    11: "noCreation",
    12: "inconsistentValue",
    13: "resourceUnavailable",
    14: "commitFailed",
    15: "undoFailed",
    16: "authorizationError",
    17: "notWritable",
    18: "inconsistentName",
}


def holds_empty_number(message: bytes) -> bool:
    """Whether a number in a BER message has no contents at all.

    X.690 section 8.3.1 asks for one octet at least; pyasn1 reads none as 0, and so would turn a
    short answer into 0 W. Bytes that are no BER are left to who decodes them.
    """
    parts = [message]
    while parts:
        data = parts.pop()
        at = 0
        while at + 2 <= len(data):
            tag, length, at = data[at], data[at + 1], at + 2
            if length & 0x80:
                octets = length & 0x7F
                length, at = int.from_bytes(data[at : at + octets], "big"), at + octets
            if tag in BER_NUMBERS and length == 0:
                return True
            if tag & 0x20:
                parts.append(data[at : at + length])
            at += length
    return False


class SnmpSpeaker:
    """One pysnmp engine for one credential, shared by every agent that takes it."""

    def __init__(self, credentials: Credentials) -> None:
        self.engine = SnmpEngine()
        receive = self.engine.message_dispatcher.receive_message

        def receive_anything(*message: Any) -> None:
            # pysnmp and pyasn1 raise all sorts of things on hostile bytes, into the event loop's
            # log, once a datagram. Such a datagram is no answer; the request then times out.
            with suppress(Exception):
                if not holds_empty_number(bytes(message[-1])):
                    receive(*message)

        self.engine.message_dispatcher.receive_message = receive_anything
        self.auth = CommunityData(credentials.secret, mpModel=1)
        self.context = ContextData()


class SnmpReply:
    """What came back: variables in order, or the error status, or nothing."""

    __slots__ = ("index", "status", "values")

    def __init__(self, values: Sequence[tuple[Oid, Answer]], status: int = 0, index: int = 0):
        self.values = values
        self.status = status
        self.index = index


class SnmpTransport:
    """One agent."""

    def __init__(
        self,
        address: Address,
        links: Links,
        credentials: Credentials,
        quirks: Sequence[Quirk] = (),
    ) -> None:
        name = address.endpoint
        self._endpoint = links.shared(Endpoint, name, lambda: Endpoint(name))
        self._links = links
        self._credentials = credentials
        self._address = address
        self._timeout_s = links.timeout_s
        self._bulk = "no_getbulk" not in quirks
        self._patience = links.patience()
        self._target: Any = None
        self._groups: WeakKeyDictionary[Places, tuple[tuple[Oid, ...], ...]] = WeakKeyDictionary()
        self._built: dict[Oid, Any] = {}
        self.host = address.host
        self.requests = 0

    @property
    def endpoint(self) -> str:
        """`snmp://host:port`."""
        return self._endpoint.name

    async def fetch(self, places: Places) -> Sequence[Answer]:
        """GET every place, at most 20 variables a request; one retry for a lost datagram."""
        if self._patience.waiting:
            return (Flaw.TIMEOUT,) * len(places.at)
        if places not in self._groups:
            self._groups[places] = snmp_groups(p.oid for p in places.at if isinstance(p, SnmpAt))
        found: dict[Oid, Answer] = {}
        async with self._endpoint.lock:
            for group in self._groups[places]:
                if not await self._get(group, found):
                    self._patience.silent()
                    break
            else:
                self._patience.answered()
        return tuple(
            found.get(at.oid, Flaw.TIMEOUT) if isinstance(at, SnmpAt) else Flaw.TIMEOUT
            for at in places.at
        )

    async def get(self, oid: Oid) -> Answer:
        """One variable by its number."""
        found: dict[Oid, Answer] = {}
        async with self._endpoint.lock:
            await self._get((oid,), found)
        return found.get(oid, Flaw.TIMEOUT)

    async def put(self, place: At, raw: Raw) -> WriteReply:
        """SET once."""
        if not isinstance(place, SnmpAt) or isinstance(raw, tuple):
            return WriteReply("rejected", "no SNMP value")
        value = ObjectType(ObjectIdentity(place.oid), _TYPES[place.where.syntax](raw))
        async with self._endpoint.lock:
            reply = await self._ask(set_cmd, value)
        if reply is None:
            return WriteReply("unanswered", "no answer")
        if reply.status:
            return WriteReply("rejected", _ERRORS.get(reply.status, f"error {reply.status}"))
        return WriteReply("accepted")

    async def rows(self, column: SnmpWhere) -> tuple[int, ...] | None:
        """Row numbers below a column whose index has the shape of `column.index`."""
        names = await self.walk(column.oid)
        if names is None:
            return None
        found: dict[int, None] = {}
        for name in names:
            row = _row(name[len(column.oid) :], column.index)
            if row is not None:
                found[row] = None
        return tuple(found)

    async def walk(self, column: Oid) -> tuple[Oid, ...] | None:
        """Names below a column, in order; None when the agent did not answer at all.

        Ends at the column's end, at the first OID that does not increase, and at the bounds on
        requests and time; what was found until then counts.
        """
        names: list[Oid] = []
        deadline_s = self._links.clock.monotonic_s() + WALK_DEADLINE_S
        here = column
        async with self._endpoint.lock:
            for _ in range(WALK_REQUESTS):
                if self._links.clock.monotonic_s() > deadline_s:
                    break
                reply = await self._step(here)
                if reply is None:
                    return tuple(names) if names else None
                for name, _value in reply.values:
                    if name[: len(column)] != column or name <= here:
                        return tuple(names)
                    names.append(name)
                    here = name
                if reply.status or not reply.values:
                    break
        return tuple(names)

    async def close(self) -> None:
        """The socket belongs to the engine, which other agents share; nothing to let go of."""

    async def _step(self, here: Oid) -> SnmpReply | None:
        """The names after `here`; falls back to GETNEXT, for good, when GETBULK stays unheard."""
        if self._bulk:
            reply = await self._ask(bulk_cmd, self._object(here), head=(0, MAX_REPETITIONS))
            if reply is not None and not reply.status:
                return reply
        reply = await self._ask(next_cmd, self._object(here))
        if reply is not None:
            self._bulk = False
        return reply

    async def _get(self, group: tuple[Oid, ...], found: dict[Oid, Answer]) -> bool:
        """Read a group into `found`; False when the agent stayed silent."""
        pending = [group]
        while pending:
            oids = pending.pop()
            reply = await self._ask(get_cmd, *(self._object(oid) for oid in oids))
            if reply is None and not self._patience.failures:
                reply = await self._ask(get_cmd, *(self._object(oid) for oid in oids))
            if reply is None:
                return False
            if reply.status == TOO_BIG and len(oids) > 1:
                half = len(oids) // 2
                pending += [oids[:half], oids[half:]]
            elif reply.status and 1 <= reply.index <= len(oids):
                found[oids[reply.index - 1]] = Flaw.REFUSED
                rest = oids[: reply.index - 1] + oids[reply.index :]
                pending += [rest] if rest else []
            elif reply.status:
                found.update(dict.fromkeys(oids, Flaw.DEVICE_FAULT))
            else:
                told = dict(reply.values)
                found.update({oid: told.get(oid, Flaw.UNDECODABLE) for oid in oids})
        return True

    async def _ask(
        self, command: Any, *variables: Any, head: tuple[int, ...] = ()
    ) -> SnmpReply | None:
        """One request; None when nothing usable came back."""
        speaker = self._speaker()
        self.requests += 1
        try:
            if self._target is None:
                kind = Udp6TransportTarget if ":" in self._address.host else UdpTransportTarget
                where = (self._address.host, self._address.port)
                self._target = await kind.create(where, timeout=self._timeout_s, retries=0)
            async with asyncio.timeout(self._timeout_s * 2.0):
                trouble, status, index, values = await command(
                    speaker.engine,
                    speaker.auth,
                    self._target,
                    speaker.context,
                    *head,
                    *variables,
                    lookupMib=False,
                )
        except (PySnmpError, OSError, TimeoutError, ValueError):
            return None
        if trouble:
            return None
        return SnmpReply(
            [(tuple(name), _plain(value)) for name, value in values], int(status), int(index)
        )

    def _speaker(self) -> SnmpSpeaker:
        credentials = self._credentials
        return self._links.shared(
            SnmpSpeaker, f"snmp {credentials.secret}", lambda: SnmpSpeaker(credentials)
        )

    def _object(self, oid: Oid) -> Any:
        if oid not in self._built:
            self._built[oid] = ObjectType(ObjectIdentity(oid))
        return self._built[oid]


def _row(suffix: Oid, index: Sequence[int | str]) -> int | None:
    """The row's number in a suffix that has the shape of an index; None when it has not."""
    if len(suffix) != len(index):
        return None
    row = None
    for arc, wanted in zip(suffix, index, strict=True):
        if wanted == "row":
            row = arc
        elif arc != wanted:
            return None
    return row


def _plain(value: Any) -> Answer:
    """A pysnmp value as a raw; what says that there is none becomes a flaw."""
    if isinstance(value, NoSuchObject | NoSuchInstance | EndOfMibView):
        return Flaw.REFUSED
    if isinstance(value, univ.Null):
        return Flaw.UNDECODABLE
    if isinstance(value, univ.ObjectIdentifier):  # pysnmp hands over pyasn1's own
        return ".".join(str(arc) for arc in value)
    if isinstance(value, univ.OctetString):
        return bytes(value)
    try:
        return int(value)
    except (TypeError, ValueError, PySnmpError):
        return Flaw.UNDECODABLE
