"""The UDP port that hears traps: bounded in what it reads, believes and passes on.

Cheap things come first: who sent it, how much came lately, then the message. A storm is left in
the kernel's buffer and dropped there; it takes a few percent of a core at most, and polling, which
is what we rely on, goes on meanwhile.
"""

from __future__ import annotations

import asyncio
import hmac
import socket
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import structlog

from drivers.credentials import Credentials
from drivers.snmp import ber
from drivers.traps.limits import Allowance
from drivers.traps.names import Oid, trap_name
from drivers.traps.reading import (
    MAX_OCTETS,
    Notice,
    community_answer,
    community_message,
    notice,
    version_of,
)
from drivers.traps.users import Refused, Users
from facility.clock import Clock

log = structlog.get_logger(__name__)

#: datagrams that are read a second, from all senders together, and at once
READ_PER_S: Final = 500.0
READ_AT_ONCE: Final = 200.0
#: notices that are passed on a second from one sender, and at once
SENDER_PER_S: Final = 2.0
SENDER_AT_ONCE: Final = 10.0
#: how long the port is left alone when that much has come, seconds
PAUSE_S: Final = 0.1
#: datagrams read before the loop gets its turn
BATCH: Final = 32
#: what the kernel may hold for us, octets
BUFFER_OCTETS: Final = 262_144


@dataclass(frozen=True, slots=True)
class Trap:
    """A notice of a known device.

    Attributes:
        devices: those of the facility file at the sender's address, at least one.
        name: what it is called; its number where nobody names it.
    """

    devices: tuple[str, ...]
    sender: str
    oid: Oid
    name: str
    at_ms: int


OnTrap = Callable[[Trap], None]


class TrapReceiver:
    """Listens; calls `on_trap` for each notice that is to be believed.

    Attributes:
        counts: what came, by what became of it: `passed`, `unknown sender`, `wrong community`,
            `unknown user`, `wrong digest`, `too old`, `not a notification`, `too many`,
            `pauses` and the like; since the start.
    """

    def __init__(
        self,
        listen: tuple[str, int],
        logins: Iterable[Credentials],
        clock: Clock,
        on_trap: OnTrap,
        *,
        engine_id: bytes,
        boots: int,
    ) -> None:
        """Prepare.

        Args:
            listen: address and UDP port; port 0 takes any.
            logins: communities and SNMPv3 users that may notify us.
            clock: of the process.
            on_trap: must not block or raise.
            engine_id: ours, see `drivers.traps.users.Users`.
            boots: more than at the last start.
        """
        known = tuple(logins)
        self._listen, self._clock, self._on_trap = listen, clock, on_trap
        self._communities = {
            0: [c.secret.encode() for c in known if c.kind == "community_v1"],
            1: [c.secret.encode() for c in known if c.kind == "community"],
        }
        # Many cards send v1 traps whatever they are polled with; the secret is the same.
        self._communities[0] += self._communities[1]
        self._users = Users((c for c in known if c.kind == "snmpv3"), engine_id, boots)
        self._devices: Mapping[str, tuple[str, ...]] = {}
        self._allowances: dict[str, Allowance] = {}
        self._reading = Allowance(READ_PER_S, READ_AT_ONCE, clock.monotonic_s())
        self._socket: socket.socket | None = None
        self.counts: Counter[str] = Counter()

    @property
    def port(self) -> int:
        """Where it listens now; 0 before it does."""
        return 0 if self._socket is None else int(self._socket.getsockname()[1])

    def expect(self, devices: Mapping[str, tuple[str, ...]]) -> None:
        """Name the known senders: IP address -> devices of the facility file."""
        self._devices = devices
        self._allowances = {
            sender: allowance for sender, allowance in self._allowances.items() if sender in devices
        }

    async def run(self) -> None:
        """Listen until cancelled.

        Raises:
            OSError: the address cannot be listened at.
        """
        loop = asyncio.get_running_loop()
        host, port = self._listen
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_DGRAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = found[0]
        sock = socket.socket(family, kind, protocol)
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_OCTETS)
            sock.bind(address)
            self._socket = sock
            log.info("traps_heard_at", address=host, port=self.port)
            loop.add_reader(sock.fileno(), self._readable, loop, sock)
            await asyncio.Event().wait()
        finally:
            self._socket = None
            loop.remove_reader(sock.fileno())
            sock.close()

    def _readable(self, loop: asyncio.AbstractEventLoop, sock: socket.socket) -> None:
        now_s = self._clock.monotonic_s()
        for _ in range(BATCH):
            if not self._reading.take(now_s):
                self.counts["pauses"] += 1
                loop.remove_reader(sock.fileno())
                loop.call_later(PAUSE_S, self._resume, loop, sock)
                return
            try:
                data, sender = sock.recvfrom(MAX_OCTETS + 1)
            except (BlockingIOError, InterruptedError):
                return
            except OSError:
                continue  # a refusal of an earlier answer, told to us late
            self._take(sock, data, sender, now_s)

    def _resume(self, loop: asyncio.AbstractEventLoop, sock: socket.socket) -> None:
        if self._socket is sock:
            loop.add_reader(sock.fileno(), self._readable, loop, sock)

    def _take(
        self, sock: socket.socket, data: bytes, sender: tuple[str, int], now_s: float
    ) -> None:
        host = plain_address(sender[0])
        devices = self._devices.get(host)
        if devices is None:
            self.counts["unknown sender"] += 1
            return
        if len(data) > MAX_OCTETS:
            self.counts["not a notification"] += 1
            return
        try:
            said, answer = self._understood(data, now_s)
        except Refused as refusal:
            self.counts[str(refusal)] += 1
            return
        except ber.BerError:
            self.counts["not a notification"] += 1
            return
        if answer:
            self._send(sock, answer, sender)
        if said is not None:
            self._pass_on(said, devices, host, now_s)

    def _understood(self, data: bytes, now_s: float) -> tuple[Notice | None, bytes]:
        version = version_of(data)
        if version == 3:
            heard = self._users.hear(data, now_s)
            return heard.notice, heard.answer
        version, community, at, end = community_message(data)
        if not any(hmac.compare_digest(community, known) for known in self._communities[version]):
            raise Refused("wrong community")
        said = notice(data, at, end)
        return said, community_answer(version, community, said.answer) if said.answer else b""

    def _send(self, sock: socket.socket, answer: bytes, sender: tuple[str, int]) -> None:
        try:
            sock.sendto(answer, sender)
            self.counts["answered"] += 1
        except OSError:
            self.counts["not answered"] += 1

    def _pass_on(self, said: Notice, devices: tuple[str, ...], host: str, now_s: float) -> None:
        allowance = self._allowances.get(host)
        if allowance is None:
            allowance = self._allowances[host] = Allowance(SENDER_PER_S, SENDER_AT_ONCE, now_s)
        if not allowance.take(now_s):
            self.counts["too many"] += 1
            return
        self.counts["passed"] += 1
        self._on_trap(Trap(devices, host, said.oid, trap_name(said.oid), self._clock.utc_ms()))


def plain_address(host: str) -> str:
    """An address as a facility file has it: IPv4 that came over an IPv6 socket, without a zone."""
    return host.removeprefix("::ffff:").partition("%")[0]
