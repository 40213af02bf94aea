"""`wattkeeper poll` on SNMP agents of every version, by both readers."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future
from typing import Any

import pytest

from api.commands.poll import poll
from drivers.sim import ber
from tests.drivers.snmp.rig import Respond, Wire, integer, table, text
from tests.drivers.snmp.users import USER, Card

pytestmark = [
    pytest.mark.system,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

RPDU2 = (1, 3, 6, 1, 4, 1, 318, 1, 1, 26)
VALUES = {
    (1, 3, 6, 1, 2, 1, 1, 1, 0): text("APC Web/SNMP Management Card"),
    (1, 3, 6, 1, 2, 1, 1, 2, 0): ber.Value(
        ber.OID, ber.of_oid((1, 3, 6, 1, 4, 1, 318, 1, 3, 4, 6))
    ),
    (*RPDU2, 4, 3, 1, 5, 1): integer(27),
    (*RPDU2, 6, 3, 1, 1, 1): integer(1),
    (*RPDU2, 6, 3, 1, 5, 1): integer(13),
    (*RPDU2, 6, 3, 1, 6, 1): integer(231),
    (*RPDU2, 6, 3, 1, 7, 1): integer(27),
}
Serve = Callable[[Callable[[], asyncio.DatagramProtocol]], int]


@pytest.fixture(scope="module")
def serve() -> Iterator[Serve]:
    """Puts an agent on a port, on a loop in a thread of its own: `poll` brings its own loop."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    transports: list[asyncio.DatagramTransport] = []

    def run(job: Awaitable[Any]) -> Any:
        made: Future[Any] = asyncio.run_coroutine_threadsafe(job, loop)  # type: ignore[arg-type]
        return made.result(10.0)

    def start(make: Callable[[], asyncio.DatagramProtocol]) -> int:
        transport, _ = run(loop.create_datagram_endpoint(make, local_addr=("127.0.0.1", 0)))
        transports.append(transport)
        return int(transport.get_extra_info("sockname")[1])

    yield start
    for transport in transports:
        loop.call_soon_threadsafe(transport.close)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(10.0)
    loop.close()


def document(
    port: int, capsys: pytest.CaptureFixture[str], auth: str | None = None, reader: str = "own"
) -> dict[str, Any]:
    target = f"snmp://127.0.0.1:{port}"
    assert poll("auto", target, auth, None, True, None, True, reader) == 0
    printed: dict[str, Any] = json.loads(capsys.readouterr().out)
    return printed


def power_of(printed: dict[str, Any]) -> list[float]:
    return [r["value"] for r in printed["readings"] if r["kind"] == "active_power"][:1]


def user_in(monkeypatch: pytest.MonkeyPatch, **changed: str) -> None:
    login = {
        "kind": "snmpv3",
        "user": str(USER.user),
        "digest": str(USER.digest),
        "secret": USER.secret,
        "cipher": str(USER.cipher),
        "privacy_secret": USER.privacy_secret,
    }
    monkeypatch.setenv("POLL_AUTH", json.dumps(login | changed))


@pytest.mark.parametrize("reader", ["own", "reference"])
def test_every_version_is_polled_by_both_readers(
    reader: str,
    serve: Serve,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    port = serve(lambda: Wire(table(VALUES)))
    assert power_of(document(port, capsys, reader=reader)) == [270.0]
    monkeypatch.setenv("POLL_AUTH", '{"kind": "community_v1", "secret": "public"}')
    v1 = serve(lambda: Wire(refusing()))
    assert power_of(document(v1, capsys, "POLL_AUTH", reader)) == [270.0]
    user_in(monkeypatch)
    v3 = serve(lambda: Card(USER, table(VALUES)))
    assert power_of(document(v3, capsys, "POLL_AUTH", reader)) == [270.0]


def refusing() -> Respond:
    """As v1 agents are: one absent variable fails the whole request."""
    answer = table(VALUES)

    def respond(request: ber.Request) -> bytes | None:
        for index, (name, _, _) in enumerate(request.variables, start=1):
            if request.kind == ber.GET and name not in VALUES:
                echo = [(n, ber.Value(t, b)) for n, t, b in request.variables]
                return ber.response(request, echo, 2, index)
        return answer(request)

    return respond


def test_a_wrong_passphrase_is_named(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    port = serve(lambda: Card(USER, table(VALUES)))
    user_in(monkeypatch, secret="another-phrase")
    for profile in ("auto", "pdu/apc-rpdu2"):
        target = f"snmp://127.0.0.1:{port}"
        assert poll(profile, target, "POLL_AUTH", None, True, None, False) == 1
        assert "wrong digest: another passphrase" in capsys.readouterr().err


def test_an_unknown_reader_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert poll("auto", "snmp://127.0.0.1", None, None, True, None, True, "guess") == 2
    assert "one of own, reference" in capsys.readouterr().err


def test_an_agent_that_tells_getbulk_something_else_is_shown(
    serve: Serve, capsys: pytest.CaptureFixture[str]
) -> None:
    """Case 22: the check that commissioning prints."""
    answer = table(VALUES)

    def fickle(request: ber.Request) -> bytes | None:
        column = (*RPDU2, 6, 3, 1, 6)
        if request.kind == ber.GET_BULK and request.variables[0][0] == column:
            rows = [((*column, 1), integer(0)), ((*RPDU2, 6, 3, 1, 7, 1), integer(27))]
            return ber.response(request, rows)
        return answer(request)

    port = serve(lambda: Wire(fickle))
    told = {c["check"]: c for c in document(port, capsys)["checks"]}["GET = GETBULK"]
    assert told["ok"] is False
    assert "6.3.1.6.1 is 231 and 0" in told["detail"]
    port = serve(lambda: Wire(answer))
    told = {c["check"]: c for c in document(port, capsys)["checks"]}["GET = GETBULK"]
    assert (told["ok"], told["detail"]) == (True, "they say the same")
