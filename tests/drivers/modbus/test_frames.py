"""Frames and answers: what is whole is taken, whatever the pieces; nonsense is never a number."""

from __future__ import annotations

import random
import resource
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drivers.modbus.framing import Frame, Framing, Garbled, Mbap, Rtu, crc16
from drivers.modbus.pdu import (
    echoes,
    exception_of,
    read_request,
    words_of,
    write_request,
)
from drivers.profile.plan import Block, ModbusFunction
from tests.drivers.modbus.lines import echoed

functions = st.sampled_from(("coil", "discrete", "holding", "input"))


def blocks(function: ModbusFunction) -> st.SearchStrategy[Block]:
    most = 2000 if function in ("coil", "discrete") else 125
    return st.builds(Block, st.just(function), st.integers(0, 65535), st.integers(1, most))


@st.composite
def answers(draw: st.DrawFn) -> tuple[Block, bytes]:
    block = draw(functions.flatmap(blocks))
    return block, echoed(read_request(block))


def whole(framing: Framing, unit: int, pdu: bytes) -> bytes:
    return framing.wrap(7, unit, pdu)


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from((Mbap, Rtu)),
    st.lists(st.tuples(st.integers(0, 255), answers()), min_size=1, max_size=3),
    st.randoms(use_true_random=False),
)
def test_frames_come_out_whole_in_whatever_pieces_they_come_in(
    kind: type[Mbap] | type[Rtu], sent: list[tuple[int, tuple[Block, bytes]]], rng: random.Random
) -> None:
    framing = kind()
    data = b"".join(whole(framing, unit, pdu) for unit, (_, pdu) in sent)
    seen: list[Frame] = []
    while data:
        size = rng.randint(1, len(data))
        seen.extend(framing.feed(data[:size]))
        data = data[size:]
    assert [(f.unit, f.pdu) for f in seen] == [(unit, pdu) for unit, (_, pdu) in sent]


@settings(max_examples=150, deadline=None)
@given(st.sampled_from((Mbap, Rtu)), st.lists(st.binary(max_size=40), max_size=6))
def test_random_bytes_are_frames_or_garbled_and_are_not_kept_for_ever(
    kind: type[Mbap] | type[Rtu], pieces: list[bytes]
) -> None:
    framing = kind()
    for piece in pieces:
        try:
            for frame in framing.feed(piece):
                assert 0 <= frame.unit <= 255
                assert len(frame.pdu) >= 1
        except Garbled:
            framing.reset()
        assert len(framing._held) <= 300


@settings(max_examples=150, deadline=None)
@given(functions.flatmap(blocks), st.binary(max_size=300))
def test_random_bytes_are_no_answer_unless_they_have_its_very_shape(
    block: Block, data: bytes
) -> None:
    words = words_of(block, data)
    if words is not None:
        assert len(words) == block.count
        assert data[0] == read_request(block)[0]
        assert len(data) == 2 + data[1]


@settings(max_examples=100, deadline=None)
@given(answers(), st.data())
def test_a_truncated_or_lengthened_answer_is_none(
    pair: tuple[Block, bytes], data: st.DataObject
) -> None:
    block, answer = pair
    assert words_of(block, answer) is not None
    assert words_of(block, answer[: data.draw(st.integers(0, len(answer) - 1))]) is None
    assert words_of(block, answer + b"\0") is None


@settings(max_examples=100, deadline=None)
@given(answers(), st.integers(0, 255), st.data())
def test_no_flipped_bit_gets_past_the_checksum(
    pair: tuple[Block, bytes], unit: int, data: st.DataObject
) -> None:
    framing = Rtu()
    frame = bytearray(framing.wrap(0, unit, pair[1]))
    bit = data.draw(st.integers(0, 8 * len(frame) - 1))
    frame[bit // 8] ^= 1 << bit % 8
    try:
        seen = framing.feed(bytes(frame))
    except Garbled:
        return
    assert all(f.pdu != pair[1] for f in seen)
    assert not seen  # waits for the rest of what it now takes for a longer frame


def test_the_checksum_is_the_one_of_the_standard() -> None:
    """Modbus over Serial Line V1.02, the frame 02 07 has the checksum 41 12."""
    assert crc16(bytes((0x02, 0x07))).to_bytes(2, "little") == bytes((0x41, 0x12))


@pytest.mark.parametrize(
    ("table", "words", "function", "pdu"),
    [
        ("coil", (1,), None, "05 00 09 ff 00"),
        ("coil", (0,), None, "05 00 09 00 00"),
        ("holding", (7,), None, "06 00 09 00 07"),
        ("holding", (7,), 16, "10 00 09 00 01 02 00 07"),
        ("holding", (7, 8), None, "10 00 09 00 02 04 00 07 00 08"),
    ],
)
def test_a_write_is_spelled_as_the_standard_says(
    table: str, words: tuple[int, ...], function: int | None, pdu: str
) -> None:
    request = write_request(table, 9, words, function)
    assert request == bytes.fromhex(pdu)
    assert echoes(request, request[:5])
    assert not echoes(request, request[:4] + b"\xee")


def test_an_exception_belongs_to_its_function() -> None:
    request = read_request(Block("holding", 0, 1))
    assert exception_of(request, bytes((0x83, 2))) == 2
    assert exception_of(request, bytes((0x84, 2))) is None
    assert exception_of(request, bytes((0x83, 2, 0))) is None


def test_a_head_that_lies_about_itself_is_garbled() -> None:
    for protocol, length in ((1, 5), (0, 1), (0, 255), (0, 65535)):
        with pytest.raises(Garbled):
            Mbap().feed(struct.pack(">HHHB", 1, protocol, length, 1))


@pytest.mark.parametrize("kind", [Mbap, Rtu])
def test_a_flood_of_small_frames_takes_no_longer_for_each_than_a_few(
    kind: type[Mbap] | type[Rtu],
) -> None:
    """Each frame copied all that came after it: a quarter of a megabyte stopped everything."""

    def cpu_s(count: int) -> float:
        data = whole(kind(), 1, bytes((0x83, 2))) * count
        began_s = resource.getrusage(resource.RUSAGE_SELF).ru_utime
        assert len(kind().feed(data)) == count
        return resource.getrusage(resource.RUSAGE_SELF).ru_utime - began_s

    assert cpu_s(200_000) < 2.0  # some 0.4 s; over 30 s when each frame is paid for by the rest
