"""Parsers on bytes that nobody vouches for: never a crash, never a number from nonsense."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from drivers.sim import ber as second
from drivers.snmp import ber, pdu
from drivers.snmp.community import V1, V2C, Envelope
from drivers.snmp.question import Question, grouped, variables_of
from drivers.snmp.v3 import message
from drivers.snmp.values import COUNTER64, GAUGE32, encoded, recall, value_of
from facility.points import Flaw
from tests.drivers.snmp.rig import same

OIDS = tuple((1, 3, 6, 1, 4, 1, 9, 1, i) for i in range(6))
NUMBER_TAGS = (0x02, 0x41, 0x42, 0x43, 0x46, 0x47)
BODIES = [b"\x05", b"\x00\xff", b"\x80", b"\x01\x02\x03\x04", b"", b"\x7f"]
oids = st.builds(
    lambda head, tail: (*head, *tail),
    st.sampled_from([(1, 3), (0, 39), (2, 100), (2, 5)]),
    st.lists(st.integers(0, 2**32 - 1), max_size=20),
)


def answer_of(*bodies: bytes, number: int = pdu.LEAST_ID, status: int = 0) -> bytes:
    """An answer to OIDS by the other BER of the house."""
    request = second.Request(b"public", second.GET, number, 0, 0, ())
    variables = [
        (oid, second.Value(second.INTEGER, body)) for oid, body in zip(OIDS, bodies, strict=False)
    ]
    return second.response(request, variables, status)


@given(oids)
def test_both_halves_of_the_house_write_object_identifiers_alike(oid: ber.Oid) -> None:
    whole = ber.encode_oid(oid)
    assert whole == second.element(second.OID, second.of_oid(oid))
    _, start, stop = ber.element(whole, 0, len(whole))
    assert ber.arcs(whole[start:stop]) == oid == second.oid(whole[start:stop])


@given(st.integers(-(2**63), 2**64 - 1))
def test_both_halves_of_the_house_read_each_others_integers(number: int) -> None:
    whole = ber.encode_integer(number)
    assert second.integer(whole[2:]) == number
    assert int.from_bytes(second.of_integer(number), "big", signed=True) == number


@given(st.integers(-(2**31), 2**31 - 1))
def test_integers_are_written_in_the_fewest_octets(number: int) -> None:
    body = ber.encode_integer(number)[2:]
    assert len(body) == 1 or not (body[0] in (0, 0xFF) and (body[0] ^ body[1]) < 0x80)


@settings(max_examples=300)
@given(st.binary(max_size=80))
def test_the_agents_parser_survives_any_bytes(data: bytes) -> None:
    try:
        request = second.parse(data)
    except second.BerError:
        return
    assert request.kind in (second.GET, second.GET_NEXT, second.SET, second.GET_BULK)


@settings(max_examples=500)
@given(st.integers(0, 255), st.binary(max_size=12))
def test_any_element_is_a_value_or_a_flaw(tag: int, body: bytes) -> None:
    answer = value_of(tag, body)
    assert isinstance(answer, Flaw | int | bytes | str | float)
    assert recall(ber.encode(tag, body)) == answer or answer != answer
    if isinstance(answer, int) and not isinstance(answer, Flaw):
        assert tag in NUMBER_TAGS
        assert body


@pytest.mark.parametrize("tag", NUMBER_TAGS)
def test_a_number_without_a_single_octet_is_undecodable(tag: int) -> None:
    assert value_of(tag, b"") is Flaw.UNDECODABLE


@pytest.mark.parametrize(
    ("tag", "body", "answer"),
    [
        (0x02, b"\xff", -1),
        (0x02, b"\xff" * 8, -1),
        (0x02, b"\x01" * 9, Flaw.UNDECODABLE),
        (GAUGE32, b"\xff\xff\xff\xff", 2**32 - 1),
        (GAUGE32, b"\x00\xff\xff\xff\xff", 2**32 - 1),
        (GAUGE32, b"\x01\x00\x00\x00\x00", Flaw.UNDECODABLE),
        (COUNTER64, b"\x00" + b"\xff" * 8, 2**64 - 1),
        (COUNTER64, b"\x01" * 9, Flaw.UNDECODABLE),
        (0x05, b"", Flaw.UNDECODABLE),
        (0x80, b"", Flaw.REFUSED),
        (0x81, b"", Flaw.REFUSED),
        (0x82, b"", Flaw.REFUSED),
        (0x04, b"", b""),
        (0x06, b"\x2b\x06\x01", "1.3.6.1"),
        (0x06, b"\x2b\x86", Flaw.UNDECODABLE),
        (0x44, b"\x9f\x78\x04\x42\xf6\x00\x00", 123.0),
        (0x44, b"\x9f\x78\x04\x42", b"\x9f\x78\x04\x42"),
        (0x40, b"\x7f\x00\x00\x01", b"\x7f\x00\x00\x01"),
        (0x40, b"\x7f", Flaw.UNDECODABLE),
        (0x09, b"\x80\x01\x01", Flaw.UNDECODABLE),
    ],
)
def test_each_type_says_what_it_can(tag: int, body: bytes, answer: object) -> None:
    assert same((value_of(tag, body),), (answer,))


@pytest.mark.parametrize(
    ("syntax", "raw", "whole"),
    [
        ("integer", -1, "0201ff"),
        ("integer", 2**31, None),
        ("integer", 1.5, None),
        ("integer", float("nan"), None),
        ("integer", "7", None),
        ("gauge32", 2**32 - 1, "420500ffffffff"),
        ("gauge32", -1, None),
        ("counter64", 2**64 - 1, "460900ffffffffffffffff"),
        ("octets", "on", "04026f6e"),
        ("octets", 1, None),
        ("oid", "1.3.6.1", "06032b0601"),
        ("oid", "hello", None),
        ("oid", "9.9", None),
    ],
)
def test_what_a_type_cannot_hold_is_not_written(
    syntax: str, raw: int | float | str, whole: str | None
) -> None:
    assert encoded(syntax, raw) == (None if whole is None else bytes.fromhex(whole))


@pytest.mark.parametrize("version", [V1, V2C])
@given(data=st.binary(max_size=120))
@example(data=b"\x30\x84\xff\xff\xff\xff")
@example(data=b"\x30\x80\x02\x01\x01")
def test_an_envelope_takes_any_bytes_or_says_that_they_are_none(version: int, data: bytes) -> None:
    with pytest.raises(ber.BerError):
        Envelope(version, "public").unwrap(data)


@given(st.binary(max_size=120))
def test_a_v3_message_is_read_or_refused(data: bytes) -> None:
    with pytest.raises(ber.BerError):
        message.read(data)


@settings(max_examples=300)
@given(st.binary(max_size=60))
def test_a_list_of_variables_is_read_or_refused(data: bytes) -> None:
    try:
        pairs = variables_of(data, 0, len(data))
    except ber.BerError:
        return
    for name, value in pairs:
        assert name[0] == ber.OID
        recall(value)


@settings(max_examples=400, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 200), st.integers(0, 255)), min_size=1, max_size=3),
    st.integers(0, 200),
)
def test_a_mangled_answer_reads_the_same_by_its_form_and_piece_by_piece(
    changes: list[tuple[int, int]], cut: int
) -> None:
    """What the pattern takes, it reads as the strict parser does."""
    envelope = Envelope(V2C, "public")
    good = answer_of(*BODIES)
    quick = Question(OIDS)
    head = envelope.unwrap(good)
    quick.read(good, head.start, head.stop)  # from now on by its form
    octets = bytearray(good)
    for at, octet in changes:
        octets[at % len(octets)] = octet
    data = bytes(octets[: len(octets) - cut] if cut % 3 == 0 else octets)
    try:
        head = envelope.unwrap(data)
        strict = Question(OIDS).read(data, head.start, head.stop)
    except ber.BerError:
        return
    answers, came = quick.read(data, head.start, head.stop)
    assert came == strict[1]
    assert same(answers, strict[0])


def test_the_form_of_an_answer_is_learnt_and_values_may_change_their_lengths() -> None:
    envelope, asked = Envelope(V2C, "public"), Question(OIDS)
    for bodies in (BODIES, [b"\x00\x80"] * 6, [b"\x01\x02\x03"] * 6, [b"\x09"] * 6):
        data = answer_of(*bodies)
        head = envelope.unwrap(data)
        answers, came = asked.read(data, head.start, head.stop)
        assert came == 6
        assert same(answers, (value_of(ber.INTEGER, body) for body in bodies))


def test_answers_are_taken_by_their_names_in_whatever_order_they_come() -> None:
    asked = Question(OIDS)
    request = second.Request(b"public", second.GET, 1 << 25, 0, 0, ())
    pairs = [(oid, second.Value(second.INTEGER, bytes((i,)))) for i, oid in enumerate(OIDS)]
    data = second.response(request, pairs[::-1][:-1])
    head = Envelope(V2C, "public").unwrap(data)
    answers, came = asked.read(data, head.start, head.stop)
    assert came == 0  # few, and not the first ones: that is no answer cut short
    assert same(answers, (Flaw.UNDECODABLE, 1, 2, 3, 4, 5))


def test_questions_are_cut_so_that_their_answers_fit_a_frame() -> None:
    names = [(1, 3, 6, 1, 4, 1, 318, 1, 1, 26, 9, 4, 3, 1, 6, i) for i in range(200)]
    groups = grouped(names, 64)
    assert [oid for g in groups for oid in g.oids] == names
    assert all(len(g.oids) <= 64 and len(g.variables) < 1400 for g in groups)
    assert grouped((), 64) == ()
