"""MQTT's matching rules (MQTT 3.1.1 section 4.7), and the client's addresses."""

from __future__ import annotations

import asyncio
import gc
import os
import random
import ssl
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from drivers.mqtt.addressing import Router, is_pattern, is_topic, matches, split_url
from drivers.mqtt.bus import MqttBus
from facility.clock import SystemClock
from tests.drivers.agent.rig import until

LOOPBACK = ip_address("127.0.0.1")


@pytest.mark.parametrize(
    ("pattern", "topic", "wanted"),
    [
        ("a/b", "a/b", True),
        ("a/b", "a/b/c", False),
        ("a/+", "a/b", True),
        ("a/+", "a", False),
        ("a/+", "a/b/c", False),
        ("a/#", "a/b/c", True),
        ("a/#", "a", True),
        ("#", "a/b", True),
        ("+/+", "/x", True),
        ("/+", "/x", True),
        ("+", "/x", False),
        ("#", "$SYS/uptime", False),
        ("+/uptime", "$SYS/uptime", False),
        ("$SYS/#", "$SYS/uptime", True),
        ("a//b", "a//b", True),
        ("a/+/b", "a//b", True),
    ],
)
def test_examples_of_the_standard(pattern: str, topic: str, wanted: bool) -> None:
    assert matches(pattern, topic) is wanted


LEVELS = st.lists(st.sampled_from(["a", "b", "", "ü", "$x"]), min_size=1, max_size=5)


@given(levels=LEVELS, data=st.data())
def test_a_topic_matches_itself_and_every_loosening_of_itself(
    levels: list[str], data: st.DataObject
) -> None:
    topic = "/".join(levels)
    if not is_topic(topic):
        return
    assert matches(topic, topic)
    if topic.startswith("$"):
        return
    chosen = data.draw(st.lists(st.booleans(), min_size=len(levels), max_size=len(levels)))
    loose = ["+" if wild else level for wild, level in zip(chosen, levels, strict=True)]
    assert is_pattern("/".join(loose))
    assert matches("/".join(loose), topic)
    cut = data.draw(st.integers(0, len(levels)))
    assert matches("/".join([*loose[:cut], "#"]), topic)


def test_a_router_finds_exact_and_wild_handlers() -> None:
    router = Router()
    found: list[str] = []
    router.add("a/b", lambda t, p, r: found.append("exact"))
    router.add("a/+", lambda t, p, r: found.append("wild"))
    router.add("c", lambda t, p, r: found.append("other"))
    for handler in router.route("a/b"):
        handler("a/b", b"", False)
    assert found == ["exact", "wild"]
    assert router.patterns == ("a/b", "a/+", "c")


def test_a_million_topics_of_60_kilobytes_under_a_wildcard_are_not_remembered() -> None:
    router = Router()
    router.add("hall/+/x", lambda topic, payload, retained: None)
    for i in range(50):
        assert len(router.route(f"hall/{i}{'y' * 60_000}/x")) == 1
    assert not router._known


async def test_a_handler_that_fails_with_each_message_does_not_flood_the_log() -> None:
    clock = SystemClock()
    bus = MqttBus("mqtt://127.0.0.1:1", name="w", clock=clock, rng=random.Random(1))

    def broken(topic: str, payload: bytes, retained: bool) -> None:
        raise RuntimeError("a bug")

    bus.subscribe("x", broken)
    with capture_logs() as logs:
        for _ in range(500):
            bus._dispatch("x", b"", False)
    assert [entry["event"] for entry in logs] == ["handler failed"]


@pytest.mark.parametrize(
    ("url", "wanted"),
    [
        ("mqtt://broker", ("broker", 1883, False)),
        ("mqtt://127.0.0.1:41", ("127.0.0.1", 41, False)),
        ("mqtts://broker.example", ("broker.example", 8883, True)),
    ],
)
def test_addresses(url: str, wanted: tuple[str, int, bool]) -> None:
    assert split_url(url) == wanted


@pytest.mark.parametrize("url", ["broker", "http://x", "mqtt://", "mqtt://u:p@x", "mqtt://x/y"])
def test_addresses_that_are_none(url: str) -> None:
    with pytest.raises(ValueError, match=r"mqtt|login"):
        split_url(url)


def test_a_keepalive_that_hides_a_dead_link_is_refused() -> None:
    with pytest.raises(ValueError, match="half-open"):
        MqttBus("mqtt://x", name="a", clock=SystemClock(), rng=random.Random(1), keepalive_s=60)


async def test_a_link_that_stops_forwarding_is_given_up_within_two_keepalives() -> None:
    """A peer that accepts, then says nothing more, as a half-open link looks from here."""
    clock = SystemClock()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(b"\x20\x02\x00\x00")  # CONNACK: accepted
        await writer.drain()
        try:
            await asyncio.sleep(60)
        finally:
            writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    bus = MqttBus(
        f"mqtt://127.0.0.1:{port}", name="a", clock=clock, rng=random.Random(1), keepalive_s=1
    )
    await bus.start()
    await until(lambda: bus.connected)
    began_s = clock.monotonic_s()
    await until(lambda: not bus.connected)
    assert clock.monotonic_s() - began_s < 3.5
    await bus.close()
    server.close()


def open_sockets() -> int:
    """Descriptors of this process; 0 where the system does not tell."""
    gc.collect()
    try:
        return len(os.listdir("/proc/self/fd"))
    except FileNotFoundError:
        return 0


class Hasty(random.Random):
    """No pause between attempts."""

    def uniform(self, a: float, b: float) -> float:
        return 0.001


@pytest.mark.parametrize(
    "tries", [60, pytest.param(1_000, marks=pytest.mark.soak)], ids=["some", "a thousand"]
)
async def test_refused_logins_leave_no_socket_behind(tries: int) -> None:
    """Case 42: hbmqtt#188: a socket leaked for each wrong password."""
    refused = 0
    heard: list[bytes] = []

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal refused
        heard.append(await reader.read(200))
        writer.write(b"\x20\x02\x00\x05")  # CONNACK: not authorised
        await writer.drain()
        writer.close()
        refused += 1

    server = await asyncio.start_server(refuse, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]

    bus = MqttBus(
        f"mqtt://127.0.0.1:{port}",
        name="a",
        clock=SystemClock(),
        rng=Hasty(1),
        user="u",
        password="wrong",
    )
    await bus.start()
    await until(lambda: refused >= 5)
    before = open_sockets()
    await until(lambda: refused >= tries, within_s=120.0)
    assert open_sockets() <= before + 3
    assert b"\x00\x01u\x00\x05wrong" in heard[0]  # user and password, MQTT 3.1.1 section 3.1.3
    assert not bus.connected
    await bus.close()
    server.close()


async def test_brokers_that_never_answer_leave_no_socket_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("drivers.mqtt.link.CONNECT_S", 0.05)
    tried = 0

    async def ignore(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal tried
        tried += 1
        await reader.read()
        writer.close()

    server = await asyncio.start_server(ignore, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    bus = MqttBus(f"mqtt://127.0.0.1:{port}", name="a", clock=SystemClock(), rng=Hasty(1))
    await bus.start()
    await until(lambda: tried >= 3)
    before = open_sockets()
    await until(lambda: tried >= 15)
    assert open_sockets() <= before + 4
    await bus.close()
    server.close()


def certificate(folder: Path) -> tuple[Path, Path]:
    """A self-signed certificate of 127.0.0.1, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(LOOPBACK)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    (folder / "cert.pem").write_bytes(made.public_bytes(pem))
    form, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    (folder / "key.pem").write_bytes(key.private_bytes(pem, form, plain))
    return folder / "cert.pem", folder / "key.pem"


async def test_mqtts_connects_to_whom_it_trusts_and_to_nobody_else(tmp_path: Path) -> None:
    cert, key = certificate(tmp_path)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(cert, key)

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(200)
        writer.write(b"\x20\x02\x00\x00")
        await reader.read()
        writer.close()

    server = await asyncio.start_server(accept, "127.0.0.1", 0, ssl=context)
    url = f"mqtts://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    clock = SystemClock()
    stranger = MqttBus(url, name="a", clock=clock, rng=random.Random(1))
    friend = MqttBus(
        url,
        name="b",
        clock=clock,
        rng=random.Random(2),
        tls=ssl.create_default_context(cafile=cert),
    )
    await stranger.start()
    await friend.start()
    await until(lambda: friend.connected)
    assert not stranger.connected
    await stranger.close()
    await friend.close()
    server.close()
