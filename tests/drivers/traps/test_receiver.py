"""Traps and informs on loopback, sent by pysnmp; and what a storm, strangers and junk get."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pysnmp.hlapi.v3arch.asyncio import (
    USM_AUTH_HMAC192_SHA256,
    USM_PRIV_CFB128_AES,
    CommunityData,
    ContextData,
    NotificationType,
    ObjectIdentity,
    SnmpEngine,
    UdpTransportTarget,
    UsmUserData,
    send_notification,
)

from drivers.credentials import Credentials
from drivers.snmp import ber
from drivers.traps.names import trap_name, v1_oid
from drivers.traps.reading import NAMED_WITHIN, community_message, notice
from drivers.traps.receiver import SENDER_AT_ONCE, Trap, TrapReceiver, plain_address
from drivers.traps.users import Refused, Users
from facility.clock import SystemClock

pytestmark = [
    pytest.mark.system,
    pytest.mark.filterwarnings("ignore::DeprecationWarning:pysnmp"),
]

ENGINE = bytes.fromhex("8000000005") + b"wattkeep"
USER = Credentials("snmpv3", "watt", "passphrase-1", "sha256", "aes128", "passphrase-2")
LOGINS = (Credentials("community", None, "hall"), USER)
ON_BATTERY = (1, 3, 6, 1, 2, 1, 33, 2, 1)


class Port:
    """A receiver at work, and what it passed on."""

    def __init__(self) -> None:
        self.traps: list[Trap] = []
        self.clock = SystemClock()
        self.receiver = TrapReceiver(
            ("127.0.0.1", 0), LOGINS, self.clock, self.traps.append, engine_id=ENGINE, boots=7
        )
        self.receiver.expect({"127.0.0.1": ("ups-1",)})

    def send(self, *datagrams: bytes) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            for datagram in datagrams:
                sock.sendto(datagram, ("127.0.0.1", self.receiver.port))

    async def settled(self, count: int) -> None:
        """Wait until so many datagrams were judged."""
        async with asyncio.timeout(5.0):
            while self.judged < count:  # noqa: ASYNC110
                await asyncio.sleep(0.005)

    @property
    def judged(self) -> int:
        aside = ("answered", "not answered", "pauses")
        return sum(n for what, n in self.receiver.counts.items() if what not in aside)


@pytest.fixture
async def port() -> AsyncIterator[Port]:
    at = Port()
    task = asyncio.create_task(at.receiver.run())
    async with asyncio.timeout(5.0):
        while not at.receiver.port:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
    yield at
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def notify(port: Port, login: Any, kind: str, oid: tuple[int, ...]) -> str:
    engine = SnmpEngine()
    try:
        target = await UdpTransportTarget.create(
            ("127.0.0.1", port.receiver.port), timeout=1, retries=0
        )
        error, *_ = await send_notification(
            engine, login, target, ContextData(), kind, NotificationType(ObjectIdentity(oid))
        )
        return str(error or "")
    finally:
        engine.close_dispatcher()


def usm(user: str = "watt", secret: str = "passphrase-1") -> UsmUserData:
    return UsmUserData(
        user,
        secret,
        "passphrase-2",
        authProtocol=USM_AUTH_HMAC192_SHA256,
        privProtocol=USM_PRIV_CFB128_AES,
    )


@pytest.mark.parametrize("kind", ["trap", "inform"])
@pytest.mark.parametrize("login", ["v2c", "v3"])
async def test_a_notification_names_its_device_and_itself(
    port: Port, kind: str, login: str
) -> None:
    who = CommunityData("hall") if login == "v2c" else usm()
    assert await notify(port, who, kind, ON_BATTERY) == ""
    await port.settled(1)
    (trap,) = port.traps
    assert (trap.devices, trap.sender) == (("ups-1",), "127.0.0.1")
    assert (trap.oid, trap.name) == (ON_BATTERY, "UPS on battery")
    assert abs(trap.at_ms - port.clock.utc_ms()) < 10_000


async def test_a_trap_of_version_1_has_the_name_that_version_2_gives_it(port: Port) -> None:
    assert (
        await notify(port, CommunityData("hall", mpModel=0), "trap", (1, 3, 6, 1, 6, 3, 1, 1, 5, 1))
        == ""
    )
    await port.settled(1)
    assert port.traps[0].name == "cold start"
    assert trap_name(v1_oid((1, 3, 6, 1, 4, 1, 318), 6, 126)) == "ATS source switched"
    assert trap_name(v1_oid((1, 3, 6, 1, 4, 1, 9), 6, 3)) == "1.3.6.1.4.1.9.0.3"


@pytest.mark.parametrize(
    ("login", "counted"),
    [
        (CommunityData("guess"), "wrong community"),
        (usm("stranger"), "unknown user"),
        (usm("watt", "passphrase-9"), "wrong digest"),
    ],
)
async def test_a_wrong_login_is_counted_and_passed_on_by_nobody(
    port: Port, login: Any, counted: str
) -> None:
    await notify(port, login, "trap", ON_BATTERY)
    await port.settled(1)
    assert port.receiver.counts[counted] == 1
    assert port.traps == []


async def test_an_inform_with_a_wrong_login_is_not_acknowledged(port: Port) -> None:
    assert await notify(port, CommunityData("guess"), "inform", ON_BATTERY) != ""
    assert port.receiver.counts["answered"] == 0


async def test_a_stranger_is_counted_and_not_even_read(port: Port) -> None:
    port.receiver.expect({"192.0.2.1": ("ups-1",)})
    port.send(trap_of(b"hall"))
    await port.settled(1)
    assert port.receiver.counts["unknown sender"] == 1
    assert port.traps == []


async def test_junk_is_counted_and_hurts_nobody(port: Port) -> None:
    port.send(b"", b"junk", bytes(9000), b"\x30\x84\xff\xff\xff\xff", trap_of(b"hall") + b"x")
    port.send(trap_of(b"hall"))
    await port.settled(6)
    assert port.receiver.counts["not a notification"] == 5
    assert len(port.traps) == 1


async def test_a_storm_of_one_device_is_passed_on_now_and_then(port: Port) -> None:
    port.send(*[trap_of(b"hall")] * 100)
    await port.settled(100)
    assert len(port.traps) <= SENDER_AT_ONCE + 1
    assert port.receiver.counts["too many"] >= 88


async def test_a_storm_never_starves_the_loop(port: Port) -> None:
    """Whoever can send may fill the kernel's buffer; the loop keeps its turns all the same."""
    stop, sent, late = False, 0, 0.0
    datagram = trap_of(b"guess")

    def flood() -> int:
        count = 0
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            while not stop:
                sock.sendto(datagram, ("127.0.0.1", port.receiver.port))
                count += 1
                if count >= 20_000:
                    break
        return count

    flooding = asyncio.create_task(asyncio.to_thread(flood))
    loop = asyncio.get_running_loop()
    turns, until_s = 0, loop.time() + 1.0
    while loop.time() < until_s:
        due_s = loop.time() + 0.01
        await asyncio.sleep(0.01)
        late = max(late, loop.time() - due_s)
        turns += 1
    stop = True
    sent = await flooding
    assert sent > port.judged, "not all of them were read"
    assert port.receiver.counts["pauses"] >= 1
    assert port.judged <= 1500
    assert turns > 20


async def test_an_old_trap_sent_again_is_known_as_one() -> None:
    captured: list[bytes] = []

    class Tap(asyncio.DatagramProtocol):
        def datagram_received(self, data: bytes, addr: Any) -> None:
            captured.append(data)

    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(Tap, local_addr=("127.0.0.1", 0))
    engine = SnmpEngine()
    address = transport.get_extra_info("sockname")
    target = await UdpTransportTarget.create(address, timeout=1, retries=0)
    notification = NotificationType(ObjectIdentity(ON_BATTERY))
    await send_notification(engine, usm(), target, ContextData(), "trap", notification)
    async with asyncio.timeout(5.0):
        while not captured:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    engine.close_dispatcher()
    transport.close()
    users = Users((USER,), ENGINE, 7)
    heard = users.hear(captured[0], 1000.0)
    assert heard.notice is not None
    assert (heard.notice.oid, heard.answer) == (ON_BATTERY, b"")
    with pytest.raises(Refused, match="too old"):
        users.hear(captured[0], 1400.0)
    for i in range(0, len(captured[0]), 7):
        spoiled = captured[0][:i] + bytes((captured[0][i] ^ 0x41,)) + captured[0][i + 1 :]
        with contextlib.suppress(Refused, ber.BerError):
            assert users.hear(spoiled, 1000.0).notice is None, f"octet {i}"


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=120), st.integers(0, 100), st.integers(0, 255))
def test_no_datagram_is_a_crash(junk: bytes, at: int, octet: int) -> None:
    whole = trap_of(b"hall")
    spoiled = whole[: at % len(whole)] + bytes((octet,)) + whole[at % len(whole) + 1 :]
    users = Users((USER,), ENGINE, 7)
    for data in (junk, spoiled, whole[: at % len(whole)], whole + junk):
        with contextlib.suppress(ber.BerError):
            notice(data, *community_message(data)[2:])
        with contextlib.suppress(ber.BerError, Refused):
            users.hear(data, 5.0)


def test_an_address_is_written_as_the_file_has_it() -> None:
    assert plain_address("::ffff:10.3.1.11") == "10.3.1.11"
    assert plain_address("fe80::1%eth0") == "fe80::1"


async def test_a_storm_of_huge_lists_is_not_read_variable_by_variable(port: Port) -> None:
    """500 a second of 700 variables each took half a core, from whoever forged an address."""
    port.send(trap_of(b"guessed", before=400), trap_of(b"hall", before=400))
    port.send(trap_of(b"hall", before=NAMED_WITHIN - 2), trap_of(b"hall"))
    await port.settled(4)
    counts = {"wrong community": 1, "not a notification": 1, "passed": 2}
    assert {what: port.receiver.counts[what] for what in counts} == counts


def trap_of(community: bytes, before: int = 0) -> bytes:
    """A trap of version 2c, by hand, with so many variables more before its name."""
    other = (ber.encode_oid((1, 3, 6, 1, 4, 1, 1)), ber.encode_integer(0))
    pairs = (
        *[other] * before,
        (ber.encode_oid((1, 3, 6, 1, 2, 1, 1, 3, 0)), ber.encode_integer(1, 0x43)),
        (ber.encode_oid((1, 3, 6, 1, 6, 3, 1, 1, 4, 1, 0)), ber.encode_oid(ON_BATTERY)),
    )
    variables = b"".join(ber.encode(ber.SEQUENCE, name + value) for name, value in pairs)
    body = b"".join(ber.encode_integer(n) for n in (5, 0, 0))
    said = ber.encode(0xA7, body + ber.encode(ber.SEQUENCE, variables))
    head = ber.encode_integer(1) + ber.encode(ber.OCTETS, community)
    return ber.encode(ber.SEQUENCE, head + said)
