"""What follows from a trap: the device is looked at now, and people are told that it spoke up."""

from __future__ import annotations

import asyncio
import hashlib
import ipaddress
import socket
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final

import structlog

from api.hall import Feed
from drivers.address import parse_address
from drivers.collect import Collector
from drivers.credentials import Credentials
from drivers.traps.receiver import Trap, TrapReceiver, plain_address
from facility.clock import Clock
from facility.commands import AlarmEvent, Severity
from facility.config import DeviceConfig, Facility

log = structlog.get_logger(__name__)

KIND: Final = "trap"
#: how long a trap stands among the alarms, seconds; a trap of the same name holds it up
STANDS_S: Final = 60.0
#: traps that stand at once; more are looked after but not shown
MOST: Final = 256
#: of them, of one device: whoever sends ever other names leaves room for the others
MOST_OF_ONE: Final = 16
#: how often names of devices are looked up again, and how often old traps are taken down, seconds
LOOK_UP_S: Final = 300.0
TIDY_S: Final = 2.0

Journalled = Callable[[Iterable[AlarmEvent]], Awaitable[None]]


class Trapping:
    """Hears traps for one hall.

    Attributes:
        port: where it listens now; 0 while it does not.
    """

    def __init__(
        self,
        facility: Facility,
        listen: tuple[str, int],
        logins: Sequence[Credentials],
        collector: Collector,
        feed: Feed,
        journal: Journalled,
        clock: Clock,
    ) -> None:
        """Take what it needs; `run` opens the port."""
        self._devices = facility.devices
        self._collector, self._feed, self._journal = collector, feed, journal
        self._clock = clock
        self._standing: dict[str, tuple[AlarmEvent, float]] = {}
        self._news: list[AlarmEvent] = []
        self._woken = asyncio.Event()
        # A start later than the last is a boot more; see RFC 3414 section 2.2.
        boots = min(clock.utc_ms() // 1000, 2**31 - 2)
        own = hashlib.sha256(facility.site.name.encode()).digest()[:8]
        self._receiver = TrapReceiver(
            listen,
            logins,
            clock,
            self.heard,
            engine_id=bytes.fromhex("8000000005") + own,
            boots=boots,
        )

    @property
    def port(self) -> int:
        """Where it listens now; 0 while it does not."""
        return self._receiver.port

    @property
    def counts(self) -> Counter[str]:
        """Datagrams by what became of them, since the start."""
        return self._receiver.counts

    async def run(self) -> None:
        """Listen until cancelled.

        Raises:
            OSError: the address cannot be listened at.
        """
        self.take_down_old()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._receiver.run())
            tasks.create_task(self._know_senders())
            tasks.create_task(self._tell())

    def take_down_old(self) -> None:
        """End what stood when the service ended; nobody else would."""
        left = [alarm for alarm in self._feed.active_alarms() if alarm.kind == KIND]
        self._news.extend(self._ended(a) for a in left if a.key not in self._standing)

    def heard(self, trap: Trap) -> None:
        """Look at the devices now; what the trap says of them is not believed, only seen."""
        now_s = self._clock.monotonic_s()
        for device in trap.devices:
            self._collector.urgent(device)
            event = AlarmEvent(
                f"{KIND}:{device}:{'.'.join(map(str, trap.oid))}",
                KIND,
                device,
                Severity.INFO,
                True,
                f"{device} sent a trap: {trap.name}. It was looked at at once; "
                "its readings say what is so.",
                trap.at_ms,
            )
            if event.key not in self._standing:
                of_one = sum(e.subject == device for e, _ in self._standing.values())
                if len(self._standing) >= MOST or of_one >= MOST_OF_ONE:
                    continue
                log.info("trap", device=device, name=trap.name, sender=trap.sender)
                self._news.append(event)
                self._woken.set()
            self._standing[event.key] = (event, now_s + STANDS_S)

    def _ended(self, alarm: AlarmEvent) -> AlarmEvent:
        return AlarmEvent(
            alarm.key,
            KIND,
            alarm.subject,
            Severity.INFO,
            False,
            alarm.text,
            self._clock.utc_ms(),
        )

    async def _tell(self) -> None:
        """Put what is new, and what has stood long enough, into the journal."""
        while True:
            now_s = self._clock.monotonic_s()
            over = [key for key, (_, until_s) in self._standing.items() if until_s <= now_s]
            self._news.extend(self._ended(self._standing.pop(key)[0]) for key in over)
            if self._news:
                news, self._news = self._news, []
                self._feed.remember(news)
                try:
                    await self._journal(news)
                except OSError as error:
                    log.warning("traps_not_journalled", events=len(news), error=str(error))
            self._woken.clear()
            try:
                async with asyncio.timeout(TIDY_S):
                    await self._woken.wait()
            except TimeoutError:
                continue

    async def _know_senders(self) -> None:
        # Names may take long, one after the other, when the name server is gone.
        self._receiver.expect(await senders(self._devices, by_name=False))
        while True:
            self._receiver.expect(await senders(self._devices))
            await asyncio.sleep(LOOK_UP_S)


async def senders(
    devices: Mapping[str, DeviceConfig], *, by_name: bool = True
) -> dict[str, tuple[str, ...]]:
    """IP address -> the devices that are there; a name that nobody knows is left out.

    Where SNMP agents are at an address, one of them sent it, and no meter or engine beside them.
    """
    found: dict[str, list[tuple[str, bool]]] = {}
    for name, entry in devices.items():
        try:
            there = parse_address(entry.address)
        except ValueError:
            continue
        for address in await _addresses(there.host, by_name=by_name):
            found.setdefault(address, []).append((name, there.protocol == "snmp"))
    return {
        address: tuple(n for n, agent in those if agent) or tuple(n for n, _ in those)
        for address, those in found.items()
    }


async def _addresses(host: str, *, by_name: bool) -> tuple[str, ...]:
    if not host or host.startswith("/"):
        return ()
    try:
        # As the receiver sees it: IPv4 as itself, IPv6 without a zone.
        return (plain_address(str(ipaddress.ip_address(host))),)
    except ValueError:
        if not by_name:
            return ()
    try:
        answers = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_DGRAM)
    except (OSError, UnicodeError):  # the latter: no name at all
        return ()
    return tuple(dict.fromkeys(str(answer[4][0]).partition("%")[0] for answer in answers))
