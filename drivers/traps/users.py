"""Notifications of SNMPv3 users (RFC 3414).

Of a trap the sender is the authority: its engine id stands in the message, and its clock is kept,
so that an old trap sent again is known as one. Of an inform we are: whoever wants to send one asks
first who we are, and learns our engine id, boots and time from a Report.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from drivers.credentials import Credentials
from drivers.snmp import ber, pdu
from drivers.snmp.v3 import keys, message, privacy
from drivers.snmp.v3.session import WINDOW_S
from drivers.traps.reading import INFORM, Notice, notice

#: engines whose clocks are remembered; the one not heard for longest is forgotten
MAX_ENGINES: Final = 4096
_STATS: Final = (1, 3, 6, 1, 6, 3, 15, 1, 1)
_NOT_IN_TIME: Final = (*_STATS, 2, 0)
_UNKNOWN_ENGINE: Final = (*_STATS, 4, 0)


class Refused(ValueError):
    """A message that is not to be believed; the text is what it is counted as."""


@dataclass(frozen=True, slots=True)
class Heard:
    """What a message is: a notice, and what is due in return.

    Attributes:
        notice: None where the sender only asked who we are.
        answer: the whole message to send back; empty when none is due.
    """

    notice: Notice | None
    answer: bytes


class Users:
    """The users that may notify us, and the clocks of those who did."""

    def __init__(self, users: Iterable[Credentials], engine_id: bytes, boots: int) -> None:
        """Take the users.

        Args:
            users: of kind `snmpv3`, without fault.
            engine_id: ours, by which informs are addressed; 5 to 32 octets.
            boots: how often we have started; more than the last time.
        """
        self._users = {(user.user or "").encode(): user for user in users}
        self._engine_id, self._boots = engine_id, boots
        self._clocks: OrderedDict[tuple[bytes, bytes], tuple[int, int, float]] = OrderedDict()
        self._salt = 0

    def hear(self, data: bytes, now_s: float) -> Heard:
        """Take a message apart and judge it.

        Raises:
            ber.BerError: no SNMPv3 notification.
            Refused: of an unknown user, with a wrong digest, too old or not protected enough.
        """
        got = message.read(data)
        outer = got.outer
        level = outer.flags & (message.AUTH | message.PRIVACY)
        if outer.engine_id != self._engine_id and outer.flags & message.REPORTABLE:
            return Heard(None, self._report(outer, _UNKNOWN_ENGINE, now_s, None))
        user = self._users.get(outer.user)
        if user is None:
            raise Refused("unknown user")
        wanted = (message.AUTH if user.digest else 0) | (message.PRIVACY if user.cipher else 0)
        if level != wanted:
            raise Refused("wrong security level")
        own = keys.keys_of(
            user.digest, user.secret, user.cipher, user.privacy_secret, outer.engine_id
        )
        _verify(data, got, user, own)
        ours = outer.engine_id == self._engine_id
        if level & message.AUTH and not self._timely(outer, now_s, ours=ours):
            if ours and outer.flags & message.REPORTABLE:
                return Heard(None, self._report(outer, _NOT_IN_TIME, now_s, user))
            raise Refused("too old")
        plain = _plain(got, user, own)
        start, end, _ = message.unscoped(plain)
        said = notice(plain, start, end)
        if (plain[start] == INFORM) != ours:
            raise ber.BerError("addressed to the wrong engine")
        if not said.answer:
            return Heard(said, b"")
        context_at, _ = ber.expect(plain, 0, len(plain), ber.SEQUENCE)
        scoped = ber.encode(ber.SEQUENCE, plain[context_at:start] + said.answer)
        return Heard(said, self._written(outer.id, level, scoped, user, now_s))

    def _timely(self, outer: message.Outer, now_s: float, *, ours: bool) -> bool:
        """Whether a message is of now: by our clock, or by what its engine said before."""
        if ours:
            in_window = abs(outer.time_s - int(now_s)) <= WINDOW_S
            return outer.boots == self._boots and in_window
        who = (outer.engine_id, outer.user)
        boots, time_s, at_s = self._clocks.get(who, (0, 0, now_s))
        expected = time_s + int(now_s - at_s)
        if outer.boots < boots or (outer.boots == boots and outer.time_s < expected - WINDOW_S):
            return False
        if outer.boots > boots or outer.time_s > time_s:
            self._clocks[who] = (outer.boots, outer.time_s, now_s)
            self._clocks.move_to_end(who)
            if len(self._clocks) > MAX_ENGINES:
                self._clocks.popitem(last=False)
        return True

    def _report(
        self,
        outer: message.Outer,
        counter: tuple[int, ...],
        now_s: float,
        user: Credentials | None,
    ) -> bytes:
        one = ber.encode_integer(1, 0x41)
        variable = ber.encode(ber.SEQUENCE, ber.encode_oid(counter) + one)
        said = pdu.written(pdu.REPORT, 0, ber.encode(ber.SEQUENCE, variable))
        scoped = message.scoped(self._engine_id, b"", said)
        level = 0 if user is None or user.digest is None else message.AUTH
        return self._written(outer.id, level, scoped, user, now_s)

    def _written(
        self, number: int, level: int, scoped: bytes, user: Credentials | None, now_s: float
    ) -> bytes:
        """A message of ours, as protected as `level` says."""
        outer = message.Outer(number, level, self._engine_id, self._boots, int(now_s))
        if user is None or user.digest is None or not level & message.AUTH:
            return message.written(
                replace(outer, user=(user.user or "").encode() if user else b""), scoped
            )[0]
        own = keys.keys_of(
            user.digest, user.secret, user.cipher, user.privacy_secret, self._engine_id
        )
        assert own.mac is not None
        body, salt = scoped, b""
        if level & message.PRIVACY and user.cipher is not None and own.privacy is not None:
            self._salt += 1
            salt = privacy.salt_of(user.cipher, self._boots, self._salt)
            body = ber.encode(
                ber.OCTETS,
                privacy.encrypted(user.cipher, own.privacy, self._boots, int(now_s), salt, scoped),
            )
        blank = bytes(keys.MAC_OCTETS[user.digest])
        outer = replace(outer, user=(user.user or "").encode(), mac=blank, salt=salt)
        whole, at = message.written(outer, body)
        mac = keys.mac_of(user.digest, own.mac, whole)
        return whole[:at] + mac + whole[at + len(mac) :]


def _verify(data: bytes, got: message.Received, user: Credentials, own: keys.AgentKeys) -> None:
    if user.digest is None or own.mac is None:
        return
    size = keys.MAC_OCTETS[user.digest]
    blank = data[: got.mac_at] + bytes(size) + data[got.mac_at + size :]
    if len(got.outer.mac) != size or not keys.same(
        keys.mac_of(user.digest, own.mac, blank), got.outer.mac
    ):
        raise Refused("wrong digest")


def _plain(got: message.Received, user: Credentials, own: keys.AgentKeys) -> bytes:
    if user.cipher is None or own.privacy is None:
        return got.body
    outer = got.outer
    try:
        return privacy.decrypted(
            user.cipher, own.privacy, outer.boots, outer.time_s, outer.salt, got.body
        )
    except (ValueError, OverflowError):
        raise ber.BerError("no cipher text") from None
