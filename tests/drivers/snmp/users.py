"""Agents of SNMPv3 on loopback: a small card that can be restarted or cloned, and pysnmp's."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from pysnmp.carrier.asyncio.dgram import udp
from pysnmp.entity import config, engine
from pysnmp.entity.rfc3413 import cmdrsp, context

from drivers.credentials import Credentials
from drivers.sim import ber as second
from drivers.snmp import ber
from drivers.snmp.v3 import keys, message, privacy
from tests.drivers.snmp.rig import Respond

STATS = (1, 3, 6, 1, 6, 3, 15, 1, 1)
NOT_IN_TIME, NO_USER, NO_ENGINE, WRONG_DIGEST = 2, 3, 4, 5
USER = Credentials("snmpv3", "keeper", "auth-passphrase", "sha256", "aes128", "privacy-phrase")


class Card(asyncio.DatagramProtocol):
    """A network card with one user; its clock and keys may be changed while it runs."""

    def __init__(
        self,
        user: Credentials,
        respond: Respond,
        engine_id: bytes = b"\x80\x00\x1f\x88\x04card",
        boots: int = 7,
        time_s: int = 4000,
    ) -> None:
        self.user = user
        self.respond = respond
        self.engine_id = engine_id
        self.boots = boots
        self.time_s = time_s
        self.reports: list[int] = []
        self.answered = 0
        self.answer_level: int | None = None
        self.unknown_engine = NO_ENGINE
        self.tamper: Callable[[bytes], bytes] = lambda data: data
        self.port = 0

    def restart(self) -> None:
        """Boot once more, with the clock at 0."""
        self.boots, self.time_s = self.boots + 1, 0

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.port = transport.get_extra_info("sockname")[1]

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        self.transport.sendto(self.tamper(self._answer(data)), addr)

    @property
    def _keys(self) -> keys.AgentKeys:
        u = self.user
        return keys.keys_of(u.digest, u.secret, u.cipher, u.privacy_secret, self.engine_id)

    def _answer(self, data: bytes) -> bytes:
        got = message.read(data)
        outer = got.outer
        if outer.engine_id != self.engine_id:
            return self._report(outer, self.unknown_engine, 0)
        if outer.user.decode() != self.user.user:
            return self._report(outer, NO_USER, 0)
        level = outer.flags & (message.AUTH | message.PRIVACY)
        if level & message.AUTH:
            size, key = len(outer.mac), self._keys.mac
            blank = data[: got.mac_at] + bytes(size) + data[got.mac_at + size :]
            if keys.mac_of(str(self.user.digest), key or b"", blank) != outer.mac:
                return self._report(outer, WRONG_DIGEST, 0)
            if outer.boots != self.boots or abs(outer.time_s - self.time_s) > 150:
                return self._report(outer, NOT_IN_TIME, message.AUTH)
        plain = got.body
        if level & message.PRIVACY:
            plain = privacy.decrypted(
                str(self.user.cipher),
                self._keys.privacy or b"",
                outer.boots,
                outer.time_s,
                outer.salt,
                got.body,
            )
        start, end, _ = message.unscoped(plain)
        # The table answers in version 2c; only the PDU in it is of interest.
        head = ber.encode_integer(1) + ber.encode(ber.OCTETS, b"public")
        answer = self.respond(second.parse(ber.encode(ber.SEQUENCE, head + plain[start:end])))
        assert answer is not None
        (_, inner), *_ = second.items(answer)
        tag, pdu = list(second.items(inner))[2]
        self.answered += 1
        level = level if self.answer_level is None else self.answer_level
        return self._written(outer, level, second.element(tag, pdu))

    def _report(self, outer: message.Outer, counter: int, level: int) -> bytes:
        self.reports.append(counter)
        pair = ber.encode_oid((*STATS, counter, 0)) + ber.encode_integer(1, 0x41)
        body = ber.encode(ber.SEQUENCE, ber.encode(ber.SEQUENCE, pair))
        zero = ber.encode_integer(0)
        return self._written(outer, level, ber.encode(0xA8, zero * 3 + body))

    def _written(self, asked: message.Outer, level: int, pdu: bytes) -> bytes:
        body = message.scoped(self.engine_id, b"", pdu)
        salt = b""
        if level & message.PRIVACY:
            salt = privacy.salt_of(str(self.user.cipher), self.boots, self.answered)
            secret = privacy.encrypted(
                str(self.user.cipher),
                self._keys.privacy or b"",
                self.boots,
                self.time_s,
                salt,
                body,
            )
            body = ber.encode(ber.OCTETS, secret)
        digest = str(self.user.digest)
        zeros = bytes(keys.MAC_OCTETS[digest]) if level & message.AUTH else b""
        outer = replace(
            asked,
            flags=level,
            engine_id=self.engine_id,
            boots=self.boots,
            time_s=self.time_s,
            mac=zeros,
            salt=salt,
        )
        data, at = message.written(outer, body)
        if not level & message.AUTH:
            return data
        mac = keys.mac_of(digest, self._keys.mac or b"", data)
        return data[:at] + mac + data[at + len(mac) :]


@asynccontextmanager
async def card(made: Card) -> AsyncIterator[Card]:
    """The card on a port of its own."""
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(lambda: made, local_addr=("127.0.0.1", 0))
    try:
        yield made
    finally:
        transport.close()


DIGESTS = {
    None: config.USM_AUTH_NONE,
    "md5": config.USM_AUTH_HMAC96_MD5,
    "sha1": config.USM_AUTH_HMAC96_SHA,
    "sha224": config.USM_AUTH_HMAC128_SHA224,
    "sha256": config.USM_AUTH_HMAC192_SHA256,
    "sha384": config.USM_AUTH_HMAC256_SHA384,
    "sha512": config.USM_AUTH_HMAC384_SHA512,
}
CIPHERS = {
    None: config.USM_PRIV_NONE,
    "des": config.USM_PRIV_CBC56_DES,
    "aes128": config.USM_PRIV_CFB128_AES,
    "aes192": config.USM_PRIV_CFB192_AES_BLUMENTHAL,
    "aes256": config.USM_PRIV_CFB256_AES_BLUMENTHAL,
    "aes192_cisco": config.USM_PRIV_CFB192_AES,
    "aes256_cisco": config.USM_PRIV_CFB256_AES,
}


@asynccontextmanager
async def stranger(users: list[Credentials]) -> AsyncIterator[int]:
    """An agent that pysnmp makes, with these users; its port."""
    made = engine.SnmpEngine()
    socket = udp.UdpTransport().open_server_mode(("127.0.0.1", 0))
    config.add_transport(made, udp.DOMAIN_NAME, socket)
    for user in users:
        keyed = [DIGESTS[user.digest], user.secret] if user.digest else []
        keyed += [CIPHERS[user.cipher], user.privacy_secret] if user.cipher else []
        config.add_v3_user(made, user.user, *keyed)
        level = "authPriv" if user.cipher else "authNoPriv" if user.digest else "noAuthNoPriv"
        config.add_vacm_user(made, 3, user.user, level, (1, 3, 6), (1, 3, 6))
    where = context.SnmpContext(made)
    for responder in (
        cmdrsp.GetCommandResponder,
        cmdrsp.NextCommandResponder,
        cmdrsp.BulkCommandResponder,
        cmdrsp.SetCommandResponder,
    ):
        responder(made, where)
    await asyncio.sleep(0.05)
    try:
        yield socket.transport.get_extra_info("sockname")[1]
    finally:
        made.close_dispatcher()
