"""Why gufo-snmp does not read for us (docs/adr/0016): what it makes of bytes that agents do send.

These tests hold the reasons. If one fails with a newer gufo-snmp, a reason has gone.
"""

from __future__ import annotations

import socket
from collections.abc import Callable

import pytest
from gufo.snmp._fast import SnmpV2cClientSocket

from drivers.sim import ber
from drivers.snmp.community import V2C, Envelope
from drivers.snmp.question import Question, Reply
from facility.points import Flaw
from tests.drivers.snmp.rig import COLUMN, echoed, integer, numbers, same, table

ASKED = ((*COLUMN, 1), (*COLUMN, 2))
Answer = Callable[[ber.Request], bytes]


def by_gufo(answer: Answer) -> dict[str, object]:
    """What gufo-snmp makes of an answer to a GET of ASKED."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as agent:
        agent.bind(("127.0.0.1", 0))
        client = SnmpV2cClientSocket(f"127.0.0.1:{agent.getsockname()[1]}", "public", 0, 0, 0, 0)
        client.send_get_many([".".join(map(str, oid)) for oid in ASKED])
        data, sender = agent.recvfrom(65535)
        agent.sendto(answer(ber.parse(data)), sender)
        found: dict[str, object] = client.recv_get_many()
        return found


def by_us(answer: Answer) -> Reply:
    """What our own reader makes of it."""
    question = Question(ASKED)
    variables = tuple((oid, ber.NULL, b"") for oid in ASKED)
    data = answer(ber.Request(b"public", ber.GET, 1 << 25, 0, 0, variables))
    head = Envelope(V2C, "public").unwrap(data)
    answers, came = question.read(data, head.start, head.stop)
    return Reply(answers, (), came, head.status, head.blamed)


def numbered(first: ber.Value, second: ber.Value) -> Answer:
    return lambda request: ber.response(request, list(zip(ASKED, (first, second), strict=True)))


def test_both_read_a_healthy_answer_alike() -> None:
    answer = table(numbers(3))
    assert list(by_gufo(answer).values()) == list(by_us(answer).answers) == [1, 2]  # type: ignore[arg-type]


def test_it_reads_a_number_without_a_single_octet_as_zero() -> None:
    answer = numbered(ber.Value(ber.INTEGER, b""), ber.Value(0x42, b""))
    assert list(by_gufo(answer).values()) == [0, 0]
    assert same(by_us(answer).answers, (Flaw.UNDECODABLE, Flaw.UNDECODABLE))


def test_it_takes_the_numbers_beside_an_error_for_values() -> None:
    def failing(request: ber.Request) -> bytes:
        return ber.response(request, [(oid, integer(7)) for oid in ASKED], 5, 1)

    assert list(by_gufo(failing).values()) == [7, 7]
    assert (by_us(failing).status, by_us(failing).blamed) == (5, 1)


def test_it_cannot_tell_too_big_from_an_agent_that_has_nothing() -> None:
    assert by_gufo(lambda request: echoed(request, 1, 0)) == {}
    assert by_gufo(numbered(ber.Value(0x81), ber.Value(0x81))) == {}
    assert by_us(lambda request: echoed(request, 1, 0)).status == 1


def test_one_value_that_is_wrong_costs_it_the_whole_answer() -> None:
    answer = numbered(ber.Value(0x40, b"\x7f"), integer(5))
    with pytest.raises(Exception, match="invalid tag format"):
        by_gufo(answer)
    assert same(by_us(answer).answers, (Flaw.UNDECODABLE, 5))


def test_it_panics_over_an_empty_pair(capfd: pytest.CaptureFixture[str]) -> None:
    """The panic is no `Exception`, so that it would pass every handler of a reader's loop."""

    def shortened(request: ber.Request) -> bytes:
        head = ber.element(ber.INTEGER, ber.of_integer(request.id)) + b"\x02\x01\x00" * 2
        pdu = ber.element(ber.RESPONSE, head + ber.element(ber.SEQUENCE, b"\x30\x00"))
        return ber.element(ber.SEQUENCE, b"\x02\x01\x01\x04\x06public" + pdu)

    with pytest.raises(BaseException, match="index out of bounds") as caught:
        by_gufo(shortened)
    assert not isinstance(caught.value, Exception)
    assert "panicked" in capfd.readouterr().err
