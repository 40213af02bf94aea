"""Pages over HTTP on loopback: bounded in size, time and redirects, whatever the server does."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import gzip
import ipaddress
import json
import ssl
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from api.commands.poll import poll
from drivers.address import parse_address
from drivers.catalog import build_device
from drivers.credentials import Credentials
from drivers.profile import PrometheusWhere
from drivers.profile.binding import Places, PrometheusAt
from drivers.prometheus.http import MAX_BYTES
from drivers.prometheus.transport import PrometheusTransport
from drivers.sim.serve_prometheus import serve_prometheus
from drivers.sim.source import Instruments
from drivers.transport import Links
from facility.clock import SystemClock
from facility.config import DeviceConfig
from facility.points import Flaw, flaw_of
from tests.drivers.prometheus.test_dcgm import board
from tests.drivers.prometheus.test_engines import ENGINE
from tests.drivers.wires import links, same

pytestmark = pytest.mark.system

PLACES = Places.of([PrometheusAt(PrometheusWhere.model_validate({"metric": "m"}))])
Answerer = Callable[[bytes], bytes | None]


def page(body: bytes = b"m 1\n", status: str = "200 OK", **headers: str) -> bytes:
    """A whole answer; header names with _ for -."""
    given = {"content_type": "text/plain; version=0.0.4", "content_length": str(len(body))}
    lines = (f"{k.replace('_', '-')}: {v}" for k, v in (given | headers).items() if v)
    return f"HTTP/1.1 {status}\r\n".encode() + "\r\n".join((*lines, "\r\n")).encode() + body


class Server:
    """Answers each request with what the test says; None hangs up."""

    def __init__(self, answer: Answerer) -> None:
        self.answer, self.heads = answer, list[bytes]()
        self.connections = 0
        self.port = 0
        self._server: asyncio.Server | None = None

    async def start(self, context: ssl.SSLContext | None = None) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=context)
        self.port = self._server.sockets[0].getsockname()[1]

    def stop(self) -> None:
        assert self._server is not None
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                self.heads.append(head)
                answer = self.answer(head)
                if answer is None:
                    break
                if not answer:
                    await asyncio.sleep(30.0)
                writer.write(answer)
                await writer.drain()
                if b"content-length" not in answer and b"chunked" not in answer:
                    break
        writer.close()


@contextlib.asynccontextmanager
async def serving(
    answer: Answerer,
    credentials: Credentials | None = None,
    path: str = "/metrics",
    timeout_s: float = 0.5,
) -> AsyncIterator[tuple[Server, PrometheusTransport]]:
    server = Server(answer)
    await server.start()
    address = parse_address(f"http://127.0.0.1:{server.port}{path}")
    wire = PrometheusTransport(address, links(timeout_s), credentials)
    try:
        yield server, wire
    finally:
        await wire.close()
        server.stop()


async def test_a_page_is_read_over_one_connection_and_no_more() -> None:
    async with serving(lambda _: page()) as (server, wire):
        for _ in range(5):
            assert list(await wire.fetch(PLACES)) == [1.0]
        assert (server.connections, wire.requests, wire.trouble) == (1, 5, "")
        assert b"GET /metrics HTTP/1.1" in server.heads[0]


@pytest.mark.parametrize(
    ("answer", "flaw", "words"),
    [
        (page(status="404 Not Found"), Flaw.REFUSED, "404"),
        (page(status="401 Unauthorized"), Flaw.REFUSED, "401"),
        (page(status="503 Service Unavailable"), Flaw.DEVICE_FAULT, "503"),
        (page(status="429 Too Many Requests"), Flaw.DEVICE_FAULT, "429"),
        (page(b"<html>", content_type="text/html"), Flaw.UNDECODABLE, "text/html"),
        (page(b"m 1", content_length=""), Flaw.UNDECODABLE, "cut short"),
        (page(b"m 1\n", content_length="400", connection="close"), Flaw.TIMEOUT, "no answer"),
        (page(b"m 1\n", content_type="application/openmetrics-text"), Flaw.UNDECODABLE, "cut"),
        (page(gzip.compress(b"m 1\n")[:-3], content_encoding="gzip"), Flaw.UNDECODABLE, "packed"),
        (page(b"m 1\n", content_encoding="br"), Flaw.UNDECODABLE, "packed"),
        (page(b"m 1\n", content_encoding="gzip"), Flaw.UNDECODABLE, "not HTTP"),
        (page(b"x" * (MAX_BYTES + 1)), Flaw.UNDECODABLE, "too long"),
        (page(gzip.compress(b" " * 20_000_000, 1), content_encoding="gzip"), Flaw.UNDECODABLE, ""),
        (b"SSH-2.0-OpenSSH_9\r\n\r\n", Flaw.UNDECODABLE, "not HTTP"),
        (b"", Flaw.TIMEOUT, "no answer"),
        (None, Flaw.UNDECODABLE, "disconnected"),
    ],
    ids=range(16),
)
async def test_what_is_no_page_is_no_number(answer: bytes | None, flaw: Flaw, words: str) -> None:
    patience_s = 0.1 if flaw is Flaw.TIMEOUT else 0.5
    async with serving(lambda _: answer, timeout_s=patience_s) as (_, wire):
        assert list(await wire.fetch(PLACES)) == [flaw]
        assert words in wire.trouble


async def test_packed_and_chunked_pages_are_read() -> None:
    packed = gzip.compress(b"m 2\n")
    chunked = b"4\r\nm 3\n\r\n0\r\n\r\n"
    answers = [
        page(packed, content_encoding="gzip"),
        page(chunked, transfer_encoding="chunked", content_length=""),
        page(b"m 4\n", content_length=""),
        page(b"m 5", content_length="3"),
        page(b"m 6\n# EOF\n", content_type="application/openmetrics-text; version=1.0.0"),
    ]
    async with serving(lambda _: answers.pop(0)) as (_, wire):
        for number in (2.0, 3.0, 4.0, 5.0, 6.0):
            assert list(await wire.fetch(PLACES)) == [number]


async def test_a_redirect_on_the_same_server_is_followed_and_remembered() -> None:
    """vLLM sends /metrics on to /metrics/."""

    def answer(head: bytes) -> bytes:
        if b"GET /metrics/ " in head:
            return page(b"m 7\n")
        return page(b"", "307 Temporary Redirect", location="/metrics/")

    async with serving(answer) as (server, wire):
        assert list(await wire.fetch(PLACES)) == [7.0]
        assert list(await wire.fetch(PLACES)) == [7.0]
        assert len(server.heads) == 3


@pytest.mark.parametrize(
    "location",
    ["http://127.0.0.2:80/metrics", "https://127.0.0.1/metrics", "//evil.invalid/", "/metrics", ""],
)
async def test_a_redirect_elsewhere_or_in_a_circle_ends(location: str) -> None:
    """Our login is for this server alone."""
    login = Credentials("password", None, "secret")
    async with serving(lambda _: page(b"", "302 Found", location=location), login) as (server, w):
        assert same(await w.fetch(PLACES), [Flaw.REFUSED])
        assert len(server.heads) <= 3


@pytest.mark.parametrize(
    ("login", "header"),
    [
        (Credentials("password", None, "token"), b"bearer token"),
        (
            Credentials("password", "me", "pass"),
            b"basic " + base64.b64encode(b"me:pass").lower(),
        ),
    ],
)
async def test_a_login_goes_along(login: Credentials, header: bytes) -> None:
    async with serving(lambda _: page(), login) as (server, wire):
        await wire.fetch(PLACES)
        assert header in server.heads[0].lower()


async def test_a_server_that_hung_up_between_two_looks_is_asked_again() -> None:
    """uvicorn closes an idle connection; a look that comes just then is not lost."""
    answers: list[bytes | None] = [page(b"m 1\n"), None, page(b"m 2\n")]
    async with serving(lambda _: answers.pop(0)) as (_, wire):
        assert list(await wire.fetch(PLACES)) == [1.0]
        assert list(await wire.fetch(PLACES)) == [2.0]


async def test_a_page_behind_a_query_keeps_it() -> None:
    """A llama.cpp router wants ?model=."""
    async with serving(lambda _: page(), path="/metrics?model=a%2Fb") as (server, wire):
        await wire.fetch(PLACES)
        assert b"GET /metrics?model=a%2Fb HTTP" in server.heads[0]


async def test_nobody_there_is_a_timeout_and_left_alone_for_a_while() -> None:
    wire = PrometheusTransport(parse_address("http://127.0.0.1:9"), links(0.1))
    assert same(await wire.fetch(PLACES), [Flaw.TIMEOUT])
    assert same(await wire.fetch(PLACES), [Flaw.TIMEOUT])
    assert wire.requests == 1
    await wire.close()


async def test_a_closed_transport_that_is_asked_again_connects_again() -> None:
    async with serving(lambda _: page()) as (_, wire):
        assert list(await wire.fetch(PLACES)) == [1.0]
        await wire.close()
        assert list(await wire.fetch(PLACES)) == [1.0]


async def test_https_is_believed_with_the_authority_that_the_address_names(tmp_path: Path) -> None:
    certificate, key = authority(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server = Server(lambda _: page(b"m 8\n"))
    await server.start(context)
    shared = links(0.5)
    url = f"https://127.0.0.1:{server.port}/metrics"
    ours = PrometheusTransport(parse_address(f"{url}#ca={certificate}"), shared)
    strange = PrometheusTransport(parse_address(url), shared)
    broken = PrometheusTransport(parse_address(f"{url}#ca={tmp_path}/none.pem"), shared)
    assert list(await ours.fetch(PLACES)) == [8.0]
    assert b"#" not in server.heads[0]
    assert same(await strange.fetch(PLACES), [Flaw.TIMEOUT])
    assert "certificate" in strange.trouble.lower()
    assert same(await broken.fetch(PLACES), [Flaw.TIMEOUT])
    for wire in (ours, strange, broken):
        await wire.close()
    server.stop()


def authority(folder: Path) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 that signs itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "test")])
    now = datetime.now(UTC)
    names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(names, critical=False)
        .sign(key, hashes.SHA256())
    )
    certificate, secret = folder / "ca.pem", folder / "key.pem"
    certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    plain = serialization.NoEncryption()
    form = serialization.PrivateFormat.PKCS8
    secret.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, plain))
    return certificate, secret


@pytest.mark.parametrize(
    "text",
    ["http://", "http://h:0", "http://u:p@h/", "http://h#ca=x", "https://h#x=y", "http://h/a b"],
)
def test_an_address_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_address(text)


async def test_an_impersonated_engine_reads_as_its_plant_says() -> None:
    config = DeviceConfig(profile="engine/vllm", address="http://vllm:8000")
    plant = Instruments.of("d", {"total:tokens_generated": 755757.0, "total:kv_cache": 0.25})
    served = await serve_prometheus(plant, {"d": config})
    clock = SystemClock()
    device = build_device(config, "d", served["d"], {}, clock, None, Links(clock))
    (layout,) = device.layouts
    scan = await device.read(layout)
    seen = {f"{s.id.part}:{s.id.kind}": v for s, v in zip(layout.points, scan.values, strict=True)}
    assert seen["total:tokens_generated"] == 755757.0
    assert seen["total:kv_cache"] == 0.25
    # What its plant does not know is not on the page, let alone as a number.
    absent = [f for k, f in zip(seen, scan.quality.tolist(), strict=True) if k.endswith("waiting")]
    assert [flaw_of(q) for q in absent] == [Flaw.REFUSED]
    plant.health["d"] = "garbage"
    garbled = await device.read(layout)
    assert ((garbled.quality & 3) == 2).all()
    await device.close()
    served.close()


async def polled(
    profile: str, body: bytes, capsys: pytest.CaptureFixture[str]
) -> dict[str, object]:
    server = Server(lambda _: page(body))
    await server.start()
    target = f"http://127.0.0.1:{server.port}/metrics"
    code = await asyncio.to_thread(poll, profile, target, None, None, True, None, True)
    server.stop()
    assert code == 0
    return dict(json.loads(capsys.readouterr().out))


async def test_poll_reads_an_engine(capsys: pytest.CaptureFixture[str]) -> None:
    told = await polled("engine/vllm", ENGINE, capsys)
    assert told["device"]["vendor"] == "vLLM"  # type: ignore[index]
    assert told["device"]["model"] == "m"  # type: ignore[index]
    values = {f"{r['part']}:{r['kind']}": r["value"] for r in told["readings"]}  # type: ignore[attr-defined]
    assert values["total:tokens_generated"] == 1000.0
    assert "computed:tokens_prompt" not in values


async def test_poll_finds_the_boards_of_a_node(capsys: pytest.CaptureFixture[str]) -> None:
    body = b"".join(
        board(i, "DCGM_FI_DEV_POWER_USAGE", 100.0 + i) + board(i, "DCGM_FI_DEV_GPU_TEMP", 50 + i)
        for i in range(4)
    )
    told = await polled("gpu/dcgm-exporter", body, capsys)
    values = {f"{r['part']}:{r['kind']}": r["value"] for r in told["readings"]}  # type: ignore[attr-defined]
    assert values["total:active_power"] == 406.0
    assert values["gpu.3:temperature"] == 53.0
    assert told["device"]["model"] == "NVIDIA H100"  # type: ignore[index]


async def test_poll_says_why_there_is_no_page(capsys: pytest.CaptureFixture[str]) -> None:
    """SGLang without --enable-metrics has none."""
    server = Server(lambda _: page(status="404 Not Found"))
    await server.start()
    target = f"http://127.0.0.1:{server.port}"
    code = await asyncio.to_thread(poll, "engine/sglang", target, None, None, True, None, False)
    server.stop()
    assert code == 1
    assert "404" in capsys.readouterr().err
