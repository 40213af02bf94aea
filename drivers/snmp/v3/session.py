"""What we know of one SNMPv3 agent, and what each of its messages changes in that.

Every agent has a session of its own, so that nothing is shared that agents could disagree about:
cloned cards with one engine id keep their own clocks, and one user name may have other keys on
every device. No I/O here.

The agent is the authority (RFC 3414 section 2.2): it tells its engine id, how often it has booted
and how long it runs; a request is good for it when it carries these, within 150 s.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Final

from drivers.credentials import Credentials
from drivers.snmp import ber, pdu
from drivers.snmp.question import variables_of
from drivers.snmp.v3 import keys, message, privacy

#: seconds that two clocks may differ (RFC 3414 section 2.2.3)
WINDOW_S: Final = 150
#: boots of an engine that must not be talked to any more (RFC 3414 section 2.2.3)
SPENT_BOOTS: Final = 2**31 - 1

_USM_STATS: Final = (1, 3, 6, 1, 6, 3, 15, 1, 1)
#: the counter that a Report carries -> what it says (RFC 3414 section 5)
_REPORTS: Final = {
    ber.encode_oid((*_USM_STATS, 1, 0)): "it does not speak at this security level",
    ber.encode_oid((*_USM_STATS, 2, 0)): "out of its time window",
    ber.encode_oid((*_USM_STATS, 3, 0)): "it does not know this user",
    ber.encode_oid((*_USM_STATS, 4, 0)): "unknown engine id",
    ber.encode_oid((*_USM_STATS, 5, 0)): "wrong digest: another passphrase, or another digest",
    ber.encode_oid((*_USM_STATS, 6, 0)): "cannot decrypt: another privacy passphrase or cipher",
}
TIME_WINDOW: Final = "out of its time window"
UNKNOWN_ENGINE: Final = "unknown engine id"


@dataclass(frozen=True, slots=True)
class Told:
    """What a message of the agent said: an answer, or in a Report why there is none.

    Attributes:
        plain: the bytes that `head` points into.
        report: empty for an answer.
    """

    head: pdu.Head
    plain: bytes
    report: str = ""


class Session:
    """One user's talk with one agent."""

    def __init__(self, credentials: Credentials, rng: random.Random) -> None:
        """Take the user.

        Raises:
            ValueError: a user that cannot be: see `Credentials.fault`.
        """
        fault = credentials.fault()
        if fault is not None:
            raise ValueError(fault)
        self._credentials = credentials
        self._user = (credentials.user or "").encode()
        self._context = credentials.context.encode()
        self._level = (message.AUTH if credentials.digest else 0) | (
            message.PRIVACY if credentials.cipher else 0
        )
        self._salt = rng.getrandbits(63)
        self.keys = self._keys(b"")
        self.forget()

    def forget(self) -> None:
        """Start from nothing, as with an agent that was never heard."""
        self._engine_id = b""
        self._boots = 0
        self._time_s = 0
        self._at_s = 0.0

    @property
    def known(self) -> bool:
        """Whether the agent's engine id is known, without which nothing can be asked."""
        return bool(self._engine_id)

    def probe(self, number: int) -> bytes:
        """A message that makes any agent tell who it is (RFC 3414 section 4)."""
        request = pdu.written(pdu.GET, number, ber.encode(ber.SEQUENCE, b""))
        outer = message.Outer(number, message.REPORTABLE)
        return message.written(outer, message.scoped(b"", b"", request))[0]

    def wrap(self, request: bytes, number: int, now_s: float) -> bytes:
        """A message that asks the known agent something.

        Args:
            request: the PDU.
            number: of the message; its answer carries it too.
            now_s: monotonic seconds.
        """
        time_s = min(self._time_s + int(now_s - self._at_s), SPENT_BOOTS)
        body = message.scoped(self._engine_id, self._context, request)
        salt, cipher, digest = b"", self._credentials.cipher, self._credentials.digest
        if cipher is not None and self.keys.privacy is not None:
            self._salt += 1
            salt = privacy.salt_of(cipher, self._boots, self._salt)
            secret = privacy.encrypted(cipher, self.keys.privacy, self._boots, time_s, salt, body)
            body = ber.encode(ber.OCTETS, secret)
        zeros = bytes(keys.MAC_OCTETS[digest]) if digest is not None else b""
        outer = message.Outer(
            number,
            self._level | message.REPORTABLE,
            self._engine_id,
            self._boots,
            time_s,
            self._user,
            zeros,
            salt,
        )
        written, at = message.written(outer, body)
        if digest is None or self.keys.mac is None:
            return written
        mac = keys.mac_of(digest, self.keys.mac, written)
        return written[:at] + mac + written[at + len(mac) :]

    def unwrap(self, data: bytes, number: int, now_s: float) -> Told:
        """What a datagram says in answer to the message with this number.

        Raises:
            ber.BerError: no answer to it, or one that is not to be believed: of another engine or
                user, with a wrong digest, too old, or less protected than the question.
        """
        got = message.read(data)
        outer = got.outer
        if outer.id != number:
            raise ber.BerError("another message's answer")
        if outer.flags & message.AUTH:
            self._verify(data, got)
        plain = self._plain(got)
        start, end, context_engine = message.unscoped(plain)
        head = pdu.split(plain, start, end)
        level = outer.flags & (message.AUTH | message.PRIVACY)
        if head.kind == pdu.REPORT:
            return self._report(outer, level, head, plain, now_s)
        if level != self._level or not self.known:
            raise ber.BerError("less protected than the question")
        if (outer.engine_id, outer.user, context_engine) != (
            self._engine_id,
            self._user,
            self._engine_id,
        ):
            raise ber.BerError("of another engine or user")
        if level & message.AUTH:
            self._keep_time(outer, now_s)
        return Told(head, plain)

    def _keys(self, engine_id: bytes) -> keys.AgentKeys:
        c = self._credentials
        return keys.keys_of(c.digest, c.secret, c.cipher, c.privacy_secret, engine_id)

    def _verify(self, data: bytes, got: message.Received) -> None:
        digest, key, outer = self._credentials.digest, self.keys.mac, got.outer
        if digest is None or key is None or outer.engine_id != self._engine_id:
            raise ber.BerError("a digest that was not asked for")
        size = keys.MAC_OCTETS[digest]
        blank = data[: got.mac_at] + bytes(size) + data[got.mac_at + size :]
        if len(outer.mac) != size or not keys.same(keys.mac_of(digest, key, blank), outer.mac):
            raise ber.BerError("wrong digest")

    def _plain(self, got: message.Received) -> bytes:
        outer, cipher = got.outer, self._credentials.cipher
        if not outer.flags & message.PRIVACY:
            return got.body
        if cipher is None or self.keys.privacy is None or not outer.flags & message.AUTH:
            raise ber.BerError("encrypted without need")
        try:
            return privacy.decrypted(
                cipher, self.keys.privacy, outer.boots, outer.time_s, outer.salt, got.body
            )
        except (ValueError, OverflowError):
            raise ber.BerError("no cipher text") from None

    def _keep_time(self, outer: message.Outer, now_s: float) -> None:
        """Refuse what is too old (RFC 3414 section 3.2 step 7b), else set our notion of its clock.

        Raises:
            ber.BerError: outside the window.
        """
        time_s = self._time_s + int(now_s - self._at_s)
        earlier = outer.boots < self._boots
        late = outer.boots == self._boots and outer.time_s < time_s - WINDOW_S
        if outer.boots >= SPENT_BOOTS or earlier or late:
            raise ber.BerError("too old")
        if outer.boots > self._boots or outer.time_s > self._time_s:
            self._boots, self._time_s, self._at_s = outer.boots, outer.time_s, now_s

    def _report(
        self, outer: message.Outer, level: int, head: pdu.Head, plain: bytes, now_s: float
    ) -> Told:
        counters = variables_of(plain, head.start, head.stop)
        says = next((_REPORTS[name] for name, _ in counters if name in _REPORTS), "")
        if not says:
            raise ber.BerError("a report of nothing known")
        if not self.known:
            says = UNKNOWN_ENGINE  # some complain of the probe's empty user instead
        if says == UNKNOWN_ENGINE:
            if not outer.engine_id:
                raise ber.BerError("an engine without an id")
            # Not protected, and cannot be: what is learnt here only addresses the next request.
            self._engine_id = outer.engine_id
            self._boots, self._time_s, self._at_s = outer.boots, outer.time_s, now_s
            self.keys = self._keys(outer.engine_id)
        elif says == TIME_WINDOW:
            if not level & message.AUTH:
                raise ber.BerError("time from anybody")
            # A restart puts the time back and the boots up. The word is protected, and answers
            # this very message, so it is believed even where the boots were lost.
            self._boots, self._time_s, self._at_s = outer.boots, outer.time_s, now_s
        return Told(head, plain, says)
