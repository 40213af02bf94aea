"""Whatever comes back on the wire: never a crash, never a number that the agent did not send."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from drivers.credentials import Credentials
from drivers.sim import ber as second
from drivers.snmp import ber, pdu
from drivers.snmp.question import Question, variables_of
from drivers.snmp.v3.session import Session
from drivers.snmp.values import recall
from facility.points import Flaw
from tests.drivers.snmp.rig import COLUMN, numbers, same, table
from tests.drivers.snmp.users import USER, Card

OIDS = tuple((*COLUMN, i) for i in range(3))
LEVELS = [
    USER,
    Credentials("snmpv3", "keeper", "auth-passphrase", "sha1"),
    Credentials("snmpv3", "keeper", ""),
]
changes = st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), min_size=1, max_size=4)


def talked(user: Credentials) -> tuple[Session, bytes, int]:
    """A session that knows its agent, the agent's answer to OIDS, and that answer's number."""
    agent, session = Card(user, table(numbers(3))), Session(user, random.Random(1))
    number = pdu.LEAST_ID
    session.unwrap(agent._answer(session.probe(number)), number, 0.0)
    request = pdu.written(pdu.GET, number + 1, Question(OIDS).variables)
    return session, agent._answer(session.wrap(request, number + 1, 0.0)), number + 1


def mangled(data: bytes, how: list[tuple[int, int]], cut: int) -> bytes:
    octets = bytearray(data)
    for at, octet in how:
        octets[at % len(octets)] = octet
    return bytes(octets[: len(octets) - cut])


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(LEVELS), changes, st.sampled_from([0, 0, 0, 1, 7]))
def test_a_changed_answer_of_v3_is_refused_or_says_what_was_said(
    user: Credentials, how: list[tuple[int, int]], cut: int
) -> None:
    session, answer, number = talked(user)
    data = mangled(answer, how, cut)
    try:
        told = session.unwrap(data, number, 1.0)
        answers, _ = Question(OIDS).read(told.plain, told.head.start, told.head.stop)
    except ber.BerError:
        return
    if user.digest is not None and not told.report:
        assert same(answers, (0, 1, 2))
    else:
        assert all(isinstance(a, Flaw | int | str | bytes | float) for a in answers)


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(LEVELS), st.binary(max_size=200))
def test_any_bytes_in_answer_to_v3_are_refused(user: Credentials, data: bytes) -> None:
    session, _, number = talked(user)
    try:
        session.unwrap(data, number, 1.0)
    except ber.BerError:
        return
    raise AssertionError("random bytes were taken for an answer")


@settings(max_examples=300, deadline=None)
@given(changes, st.sampled_from([0, 0, 1, 5, 30]))
def test_every_number_that_is_read_stands_in_the_answer(
    how: list[tuple[int, int]], cut: int
) -> None:
    request = second.Request(b"public", second.GET, pdu.LEAST_ID, 0, 0, ())
    data = mangled(second.response(request, [(oid, numbers(3)[oid]) for oid in OIDS]), how, cut)
    try:
        start, stop = ber.expect(data, 0, len(data), ber.SEQUENCE)
        head = pdu.split(data, start + 11, stop)
        pairs = variables_of(data, head.start, head.stop)
    except ber.BerError:
        return
    for _, value in pairs:
        answer = recall(value)
        if isinstance(answer, int) and not isinstance(answer, Flaw):
            _, first, last = ber.element(value, 0, len(value))
            assert last > first
            signed = value[0] == ber.INTEGER
            assert answer == int.from_bytes(value[first:last], "big", signed=signed)
