"""The second opinion: the same questions through pysnmp, which shares no line of ours below here.

Some hundred times as dear as our own reader, and it takes the parts of a message apart in its own
way: `wattkeeper poll --reader reference` and the tests hold the two against each other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

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
    UsmUserData,
    bulk_cmd,
    get_cmd,
    next_cmd,
    set_cmd,
    usmAesBlumenthalCfb192Protocol,
    usmAesBlumenthalCfb256Protocol,
    usmAesCfb128Protocol,
    usmAesCfb192Protocol,
    usmAesCfb256Protocol,
    usmDESPrivProtocol,
    usmHMAC128SHA224AuthProtocol,
    usmHMAC192SHA256AuthProtocol,
    usmHMAC256SHA384AuthProtocol,
    usmHMAC384SHA512AuthProtocol,
    usmHMACMD5AuthProtocol,
    usmHMACSHAAuthProtocol,
)
from pysnmp.proto.rfc1902 import ObjectIdentifier, Opaque
from pysnmp.proto.rfc1905 import EndOfMibView, NoSuchInstance, NoSuchObject

from drivers.address import Address
from drivers.credentials import Credentials
from drivers.profile.codec import Answer
from drivers.snmp import ber
from drivers.snmp.question import Oid, Question, Reply
from drivers.snmp.values import (
    COUNTER32,
    COUNTER64,
    GAUGE32,
    TIMETICKS,
    UNSIGNED32,
    opaque,
    value_of,
)
from drivers.transport import Links
from facility.points import Flaw

#: a pysnmp answer with more holds the event loop for several milliseconds
MOST_VARIABLES: Final = 20
_NUMBERS: Final = frozenset({ber.INTEGER, COUNTER32, GAUGE32, TIMETICKS, COUNTER64, UNSIGNED32})
_TYPES: Final[Mapping[int, Callable[[Any], Any]]] = {
    ber.INTEGER: Integer32,
    ber.OCTETS: OctetString,
    ber.OID: ObjectIdentifier,
    COUNTER32: Counter32,
    GAUGE32: Gauge32,
    TIMETICKS: TimeTicks,
    COUNTER64: Counter64,
}
_DIGESTS: Final[Mapping[str, Any]] = {
    "md5": usmHMACMD5AuthProtocol,
    "sha1": usmHMACSHAAuthProtocol,
    "sha224": usmHMAC128SHA224AuthProtocol,
    "sha256": usmHMAC192SHA256AuthProtocol,
    "sha384": usmHMAC256SHA384AuthProtocol,
    "sha512": usmHMAC384SHA512AuthProtocol,
}
_CIPHERS: Final[Mapping[str, Any]] = {
    "des": usmDESPrivProtocol,
    "aes128": usmAesCfb128Protocol,
    "aes192": usmAesBlumenthalCfb192Protocol,
    "aes256": usmAesBlumenthalCfb256Protocol,
    "aes192_cisco": usmAesCfb192Protocol,
    "aes256_cisco": usmAesCfb256Protocol,
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
            if tag in _NUMBERS and length == 0:
                return True
            if tag & 0x20:
                parts.append(data[at : at + length])
            at += length
    return False


class Speaker:
    """One pysnmp engine for one credential on one agent.

    An engine keeps one clock for each engine id and one key for each user name, so agents that
    share either with different values may not share an engine.
    """

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
        self.auth = _auth(credentials)
        self.context = ContextData(contextName=credentials.context.encode())


def _auth(credentials: Credentials) -> Any:
    if credentials.kind != "snmpv3":
        return CommunityData(
            credentials.secret, mpModel=0 if credentials.kind == "community_v1" else 1
        )
    keys: dict[str, Any] = {}
    if credentials.digest is not None:
        keys |= {"authKey": credentials.secret, "authProtocol": _DIGESTS[credentials.digest]}
    if credentials.cipher is not None:
        keys |= {
            "privKey": credentials.privacy_secret,
            "privProtocol": _CIPHERS[credentials.cipher],
        }
    return UsmUserData(credentials.user or "", **keys)


class ReferenceReader:
    """One agent through pysnmp."""

    most = MOST_VARIABLES

    def __init__(self, address: Address, links: Links, credentials: Credentials) -> None:
        """Take the agent's address and what it wants to hear."""
        self._address = address
        self._links = links
        self._credentials = credentials
        self._speaker: Speaker | None = None
        self._target: Any = None
        self.requests = 0
        self.trouble = ""
        self.refused = False

    async def get(self, question: Question, attempts: int = 1) -> Reply | None:
        """GET; None when nothing usable came back."""
        reply = await self._ask(get_cmd, *map(_object, question.oids), attempts=attempts)
        if reply is None or reply.status:
            return reply
        told = dict(zip(reply.names, reply.answers, strict=True))
        answers = tuple(told.get(oid, Flaw.UNDECODABLE) for oid in question.oids)
        fits = reply.came >= len(answers) or reply.names == question.oids[: reply.came]
        return Reply(answers, (), reply.came if fits else 0)

    async def after(self, oid: Oid) -> Reply | None:
        """GETNEXT of one name."""
        return await self._ask(next_cmd, _object(oid), attempts=2)

    async def bulk(self, oid: Oid, repetitions: int, attempts: int = 1) -> Reply | None:
        """GETBULK from one name on."""
        return await self._ask(bulk_cmd, _object(oid), head=(0, repetitions), attempts=attempts)

    async def set(self, oid: Oid, value: bytes) -> Reply | None:
        """SET of one variable to an element, once."""
        tag, start, stop = ber.element(value, 0, len(value))
        raw = value_of(tag, value[start:stop])
        return await self._ask(set_cmd, ObjectType(ObjectIdentity(oid), _TYPES[tag](raw)))

    async def close(self) -> None:
        """Close the engine's socket; asking again opens another."""
        if self._speaker is not None:
            self._speaker.engine.close_dispatcher()
        self._speaker = self._target = None

    async def _ask(
        self, command: Any, *variables: Any, head: tuple[int, ...] = (), attempts: int = 1
    ) -> Reply | None:
        """One request; None when nothing usable came back."""
        for _ in range(attempts):
            self.requests += 1
            reply = await self._once(command, head, variables)
            if reply is not None or self.trouble:
                return reply
        return None

    async def _once(
        self, command: Any, head: tuple[int, ...], variables: tuple[Any, ...]
    ) -> Reply | None:
        self.trouble, self.refused = "", False
        timeout_s = self._links.timeout_s
        try:
            if self._speaker is None:
                self._speaker = Speaker(self._credentials)
            if self._target is None:
                kind = Udp6TransportTarget if ":" in self._address.host else UdpTransportTarget
                where = (self._address.host, self._address.port)
                self._target = await kind.create(where, timeout=timeout_s, retries=0)
            speaker = self._speaker
            async with asyncio.timeout(timeout_s * 4.0):
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
            text = str(trouble)
            self.trouble = "" if "No SNMP response" in text else text
            self.refused = bool(self.trouble)
            return None
        pairs = [(tuple(name), _plain(value)) for name, value in values]
        names, answers = tuple(n for n, _ in pairs), tuple(a for _, a in pairs)
        return Reply(answers, names, len(pairs), int(status), int(index))


def _object(oid: Oid) -> Any:
    return ObjectType(ObjectIdentity(oid))


def _plain(value: Any) -> Answer:
    """A pysnmp value as a raw; what says that there is none becomes a flaw."""
    if isinstance(value, NoSuchObject | NoSuchInstance | EndOfMibView):
        return Flaw.REFUSED
    if isinstance(value, univ.Null):
        return Flaw.UNDECODABLE
    if isinstance(value, univ.ObjectIdentifier):  # pysnmp hands over pyasn1's own
        return ".".join(str(arc) for arc in value)
    if isinstance(value, Opaque):
        return opaque(bytes(value))
    if isinstance(value, univ.OctetString):
        return bytes(value)
    try:
        return int(value)
    except (TypeError, ValueError, PySnmpError):
        return Flaw.UNDECODABLE
