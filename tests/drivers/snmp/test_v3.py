"""SNMPv3: keys and ciphers as others have them, clocks that jump, cards that are clones."""

from __future__ import annotations

import asyncio
import random

import pytest

from drivers.address import Address
from drivers.credentials import Credentials
from drivers.profile.binding import Places
from drivers.snmp import SYS_DESCR, SYS_OBJECT_ID, SnmpTransport
from drivers.snmp.own import OwnReader
from drivers.snmp.reference import ReferenceReader
from drivers.snmp.v3 import keys, message, privacy
from drivers.transport import Links
from facility.points import Flaw
from tests.drivers.snmp.rig import COLUMN, at, integer, numbers, place, table
from tests.drivers.snmp.users import (
    NO_ENGINE,
    NO_USER,
    NOT_IN_TIME,
    USER,
    WRONG_DIGEST,
    Card,
    card,
    stranger,
)
from tests.drivers.wires import links, looked, same

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

ENGINE = bytes.fromhex("000000000000000000000002")
LEVELS = [
    (None, None),
    ("md5", None),
    ("md5", "des"),
    ("sha1", "aes128"),
    ("sha224", "aes128"),
    ("sha256", "aes192"),
    ("sha384", "aes256"),
    ("sha512", "aes256_cisco"),
    ("sha1", "aes256"),
    ("md5", "aes256"),
    ("sha1", "aes256_cisco"),
    ("md5", "aes192_cisco"),
]


def user(digest: str | None, cipher: str | None, name: str = "") -> Credentials:
    called = name or f"{digest}-{cipher}".replace("_", "-")
    return Credentials("snmpv3", called, "auth-passphrase", digest, cipher, "privacy-phrase")


def asking(agent: Card, credentials: Credentials, shared: Links | None = None) -> SnmpTransport:
    address = Address("snmp", "127.0.0.1", agent.port)
    return SnmpTransport(address, shared or links(0.3), credentials)


@pytest.mark.parametrize(
    ("digest", "key"),
    [  # RFC 3414 A.3.1 and A.3.2
        ("md5", "526f5eed9fcce26f8964c2930787d82b"),
        ("sha1", "6695febc9288e36282235fc7151f128497b38f3f"),
    ],
)
def test_keys_are_those_of_the_standards_examples(digest: str, key: str) -> None:
    made = keys.localized(digest, keys.stretched(digest, b"maplesyrup"), ENGINE)
    assert made.hex() == key


@pytest.mark.parametrize("cipher", keys.KEY_OCTETS)
def test_what_is_encrypted_comes_back(cipher: str) -> None:
    key = random.Random(3).randbytes(keys.KEY_OCTETS[cipher])
    salt = privacy.salt_of(cipher, 5, 2**40 + 1)
    for size in (1, 8, 100):
        plain = random.Random(size).randbytes(size)
        secret = privacy.encrypted(cipher, key, 5, 77, salt, plain)
        assert secret[:size] != plain
        assert privacy.decrypted(cipher, key, 5, 77, salt, secret)[:size] == plain


@pytest.mark.parametrize(
    ("credentials", "why"),
    [
        (Credentials("snmpv3", "u", "short", "sha1"), "at least 8"),
        (Credentials("snmpv3", "u", "long-enough", "sha1", "aes128", "short"), "at least 8"),
        (Credentials("snmpv3", "u", "long-enough", "sha3"), "digest 'sha3'"),
        (Credentials("snmpv3", "u", "long-enough", "sha1", "rot13", "long-enough"), "'rot13'"),
        (Credentials("snmpv3", "u", "long-enough", None, "aes128", "long-enough"), "without"),
    ],
)
def test_keys_that_cannot_be_are_refused_before_anything_is_sent(
    credentials: Credentials, why: str
) -> None:
    with pytest.raises(ValueError, match=why):
        SnmpTransport(Address("snmp", "127.0.0.1", 9), links(), credentials)


async def test_every_digest_and_cipher_is_understood_by_another_maker() -> None:
    """Both readers against pysnmp's own agent: the same words at every level."""
    users = [user(digest, cipher) for digest, cipher in LEVELS]
    asked = Places((place(SYS_DESCR), place(SYS_OBJECT_ID), place((1, 3, 6, 1, 2, 1, 9, 9))))
    async with stranger(users) as port:
        address = Address("snmp", "127.0.0.1", port)
        for who in users:
            shared = links(1.0)
            own = SnmpTransport(address, shared, who)
            seen = await own.fetch(asked)
            assert isinstance(seen[0], bytes), (who, own.trouble)
            assert b"PySNMP" in seen[0]
            assert seen[2] is Flaw.REFUSED
            walked = await own.walk((1, 3, 6, 1, 2, 1, 1))
            assert len(walked.names) > 6
            await own.close()
            if who.cipher in ("aes128", "des", None):
                reader = ReferenceReader(address, shared, who)
                reference = SnmpTransport(address, shared, who, reader=reader)
                assert await reference.fetch(asked) == seen
                await reference.close()


@pytest.mark.parametrize("make", [OwnReader, ReferenceReader])
async def test_both_readers_get_walk_and_set_as_a_user(make: type[OwnReader]) -> None:
    values = {(*COLUMN, i): integer(i) for i in range(5)}
    async with card(Card(USER, table(values))) as agent:
        shared = links(1.0)
        address = Address("snmp", "127.0.0.1", agent.port)
        snmp = SnmpTransport(address, shared, USER, reader=make(address, shared, USER))
        assert same(await snmp.fetch(Places((at(3), at(9)))), (3, Flaw.REFUSED))
        assert (await snmp.walk(COLUMN)).answers == (0, 1, 2, 3, 4)
        await snmp.close()


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (Credentials("snmpv3", "nobody", "auth-passphrase", "sha256"), "user"),
        (Credentials("snmpv3", "keeper", "other-passphrase", "sha256"), "passphrase"),
        (Credentials("snmpv3", "keeper", "auth-passphrase", "sha512"), "digest"),
    ],
)
async def test_wrong_keys_are_named_and_are_not_silence(wrong: Credentials, why: str) -> None:
    async with card(Card(USER, table(numbers(3)))) as agent:
        snmp = asking(agent, wrong)
        assert (await looked(snmp, [at(1)]))[at(1)] is Flaw.REFUSED
        assert why in snmp.trouble
        await snmp.close()


async def test_an_agent_that_restarts_is_good_in_the_very_next_cycle() -> None:
    """Case 35: Uninett/nav#2884, etingof/pysnmp#388."""
    async with card(Card(USER, table(numbers(3)))) as agent:
        snmp = asking(agent, USER)
        assert (await looked(snmp, [at(2)]))[at(2)] == 2
        agent.restart()
        assert (await looked(snmp, [at(2)]))[at(2)] == 2
        assert agent.reports == [NO_ENGINE, NOT_IN_TIME]
        await snmp.close()


async def test_a_clock_that_jumps_back_after_a_lost_boots_counter_is_followed() -> None:
    async with card(Card(USER, table(numbers(3)), boots=900, time_s=10**6)) as agent:
        snmp = asking(agent, USER)
        assert (await looked(snmp, [at(2)]))[at(2)] == 2
        agent.boots, agent.time_s = 1, 3
        assert (await looked(snmp, [at(2)]))[at(2)] == 2
        await snmp.close()


async def test_a_card_that_was_replaced_by_another_is_good_in_the_next_cycle() -> None:
    async with card(Card(USER, table(numbers(3)))) as agent:
        snmp = asking(agent, USER)
        assert (await looked(snmp, [at(2)]))[at(2)] == 2
        agent.engine_id = b"\x80\x00\x1f\x88\x04another"
        assert (await looked(snmp, [at(2)]))[at(2)] == 2
        await snmp.close()


async def test_the_same_user_with_other_keys_on_another_device_is_no_wrong_digest() -> None:
    """Case 33: ten looks at two agents, one user name, different keys, all at once."""
    other = Credentials("snmpv3", "keeper", "second-passphrase", "sha1", "aes128", "second-phrase")
    async with (
        card(Card(USER, table(numbers(3)))) as first,
        card(Card(other, table(numbers(3)), engine_id=b"\x80\x00\x1f\x88\x04next")) as second,
    ):
        shared = links(1.0)
        devices = [asking(first, USER, shared), asking(second, other, shared)]
        for _ in range(5):
            seen = await asyncio.gather(*(looked(snmp, [at(1)]) for snmp in devices))
            assert [answers[at(1)] for answers in seen] == [1, 1]
        assert WRONG_DIGEST not in first.reports + second.reports
        for snmp in devices:
            await snmp.close()


async def test_cloned_cards_with_one_engine_id_keep_their_own_clocks() -> None:
    """Case 34: easysnmp/easysnmp#146, splunk-connect-for-snmp#1280: clocks an hour apart."""
    async with (
        card(Card(USER, table(numbers(3)), time_s=100)) as first,
        card(Card(USER, table(numbers(3)), time_s=4000, boots=9)) as second,
    ):
        shared = links(1.0)
        devices = [asking(first, USER, shared), asking(second, USER, shared)]
        for _ in range(4):
            seen = await asyncio.gather(*(looked(snmp, [at(1)]) for snmp in devices))
            assert [answers[at(1)] for answers in seen] == [1, 1]
        assert first.reports == second.reports == [NO_ENGINE]
        for snmp in devices:
            await snmp.close()


async def test_an_answer_that_was_changed_on_its_way_is_no_answer() -> None:
    async with card(Card(USER, table(numbers(3)))) as agent:
        snmp = asking(agent, USER)
        assert (await looked(snmp, [at(2)]))[at(2)] == 2
        agent.tamper = lambda data: data[:-1] + bytes((data[-1] ^ 1,))
        assert (await looked(snmp, [at(2)]))[at(2)] is Flaw.TIMEOUT
        await snmp.close()


@pytest.mark.parametrize("level", [message.AUTH, 0])
async def test_an_answer_less_protected_than_the_question_is_no_answer(level: int) -> None:
    async with card(Card(USER, table(numbers(3)))) as agent:
        snmp = asking(agent, USER)
        assert (await looked(snmp, [at(2)]))[at(2)] == 2
        agent.answer_level = level
        assert (await looked(snmp, [at(2)]))[at(2)] is Flaw.TIMEOUT
        await snmp.close()


async def test_an_old_answer_played_again_is_no_answer() -> None:
    async with card(Card(USER, table(numbers(3)))) as agent:
        snmp = asking(agent, USER)
        heard: list[bytes] = []

        def keep(data: bytes) -> bytes:
            heard.append(data)
            return data

        agent.tamper = keep
        assert (await looked(snmp, [at(2)]))[at(2)] == 2
        agent.tamper = lambda _data: heard[-1]
        assert (await looked(snmp, [at(2)]))[at(2)] is Flaw.TIMEOUT
        await snmp.close()


async def test_an_agent_that_complains_of_the_probes_user_instead_of_its_engine_is_known() -> None:
    async with card(Card(USER, table(numbers(3)))) as agent:
        agent.unknown_engine = NO_USER
        snmp = asking(agent, USER)
        assert (await looked(snmp, [at(2)]))[at(2)] == 2
        await snmp.close()
