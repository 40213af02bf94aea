"""Numbers in registers that one scale cannot tell: fields, offset codes, odd texts, sentinels."""

from __future__ import annotations

import math
import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from drivers.profile.codec import decode, encode, text_of
from facility.clock import LoopClock
from facility.points import Flaw, Grade, flaw_of, grade_of
from tests.drivers.modbus.lines import Line, device, flaws, links, read
from tests.drivers.wires import binding_of, in_virtual_time, point_of


def test_a_field_of_a_register_is_taken_out_of_its_neighbours() -> None:
    """Bits 4 to 7 of a word."""
    point = point_of(kind="level", unit="%", at={"address": 0, "type": "u16", "bits": [4, 7]})
    assert decode(point, (0xABCD,)).value == pytest.approx(0.12)
    assert decode(point, (0xAB0D,)).value == 0.0
    wide = point_of(at={"address": 0, "type": "u32", "bits": [12, 19]})
    assert decode(wide, (0x000A, 0xB000)).value == 0xAB


@given(st.integers(0, 15), st.integers(0, 15), st.integers(0, 0xFFFF))
def test_a_field_reads_back_what_it_would_be_sent_as(a: int, b: int, word: int) -> None:
    first, last = min(a, b), max(a, b)
    point = point_of(at={"address": 0, "bits": [first, last]})
    value = word & ((1 << last - first + 1) - 1)
    raw = encode(point, float(value))
    assert raw is not None
    assert decode(point, raw).value == value
    assert encode(point, float(1 << last - first + 1)) is None


def test_a_sentinel_of_a_field_is_compared_with_the_field() -> None:
    point = point_of(at={"address": 0, "bits": [8, 15]}, sentinels=[255])
    assert flaw_of(decode(point, (0xFF12,)).quality) is Flaw.SENTINEL
    assert decode(point, (0x12FF,)).value == 0x12


def test_an_offset_code_is_a_scale_and_an_offset_both_ways() -> None:
    """3000 + value / step: 25.5 degC is 3255, 75 % is 3075."""
    setpoint = point_of(
        kind="supply_setpoint",
        unit="degC",
        scale=0.1,
        offset=-300.0,
        write={"min": "15 degC", "max": "45 degC", "step": "0.1 K"},
    )
    assert decode(setpoint, (3255,)).value == pytest.approx(25.5)
    assert encode(setpoint, 25.5) == (3255,)
    fan = point_of(kind="speed", unit="%", scale=1.0, offset=-3000.0)
    assert decode(fan, (3075,)).value == pytest.approx(0.75)
    assert encode(fan, 0.75) == (3075,)


@settings(max_examples=60)
@given(st.integers(150, 450))
def test_every_step_of_an_offset_code_survives_the_way_there_and_back(tenths: int) -> None:
    point = point_of(kind="supply_setpoint", unit="degC", scale=0.1, offset=-300.0)
    assert encode(point, tenths / 10.0) == (3000 + tenths,)


@pytest.mark.parametrize(
    ("more", "registers"),
    [
        ({}, (0x4344, 0x552D)),
        ({"byte_order": "little"}, (0x4443, 0x2D55)),
        ({"chars": "low", "length": 4}, (0x0043, 0x0044, 0x0055, 0x002D)),
        ({"chars": "high", "length": 4}, (0x4300, 0x4400, 0x5500, 0x2D00)),
        ({"chars": "low", "length": 4}, (0x2043, 0x2044, 0x2055, 0x202D)),
    ],
)
def test_a_text_is_read_from_whichever_byte_it_stands_in(
    more: dict[str, Any], registers: tuple[int, ...]
) -> None:
    """Case 19: influxdata/telegraf#14748."""
    point = point_of(at={"address": 0, "type": "text", "length": 2} | more)
    assert text_of(registers, point.at) == "CDU-"


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("f32", struct.pack(">f", 12345.5)),
        ("f64", struct.pack(">d", 12345.5)),
        ("u64", struct.pack(">Q", 12_345)),
        ("s64", struct.pack(">q", -12_345)),
        ("s32", struct.pack(">i", -12_345)),
    ],
)
@pytest.mark.parametrize("words", ["big", "little"])
@pytest.mark.parametrize("octets", ["big", "little"])
def test_every_order_of_words_and_bytes_is_one_number(
    kind: str, data: bytes, words: str, octets: str
) -> None:
    """ABCD, CDAB, BADC and DCBA, and the same for 64 bits."""
    pairs = [data[i : i + 2] for i in range(0, len(data), 2)]
    if octets == "little":
        pairs = [p[::-1] for p in pairs]
    if words == "little":
        pairs.reverse()
    point = point_of(
        kind="reactive_power",
        at={"address": 0, "type": kind, "word_order": words, "byte_order": octets},
    )
    raw = tuple(int.from_bytes(p, "big") for p in pairs)
    value = decode(point, raw).value
    assert abs(value) in (12345.5, 12345.0)
    assert encode(point, value) == raw


@pytest.mark.parametrize(
    "at",
    [
        {"address": 0, "type": "s16", "bits": [0, 3]},
        {"address": 0, "bits": [3, 0]},
        {"address": 0, "bits": [0, 16]},
        {"address": 0, "chars": "low"},
    ],
)
def test_a_place_that_makes_no_sense_is_refused(at: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        point_of(at=at)


@pytest.mark.parametrize(
    ("at", "function"),
    [
        ({"address": 0, "bits": [0, 3]}, None),
        ({"address": 0, "type": "u32"}, 6),
        ({"address": 0, "function": "coil", "type": "bit"}, 6),
    ],
)
def test_a_write_that_makes_no_sense_is_refused(at: dict[str, Any], function: int | None) -> None:
    write = {"min": "0 W", "max": "9 W", "step": "1 W"} | (
        {"function": function} if function else {}
    )
    with pytest.raises(ValidationError):
        point_of(kind="power_cap", at=at, write=write)


def test_what_is_not_available_in_a_block_is_no_number_and_spoils_no_neighbour() -> None:
    """Case 11: home-assistant/core#69656, #139628, 0xAHA/Growatt_ModbusTCP#380."""
    words = [53, 56, 0x8000, 54, 0x8000, 0xFFFF, 0x7FC0, 0, 0xFFC0, 0, 0x7F80, 0, 0xFF80, 0]

    def one(part: int, address: int, kind: str, **more: object) -> dict[str, Any]:
        at = {"modbus": {"address": address, "type": kind}}
        return {"part": f"outlet.{part}", "kind": "reactive_power", "at": at} | more

    binding = binding_of(
        *(one(i, i, "s16", sentinels=[0x8000]) for i in range(5)),
        one(5, 5, "u16", scale=0.1, sentinels=[0xFFFF]),
        *(one(a, a, "f32") for a in (6, 8, 10, 12)),
    )

    async def main(clock: LoopClock) -> None:
        def answers(unit: int, pdu: bytes) -> list[tuple[float, int, bytes]]:
            first, count = struct.unpack(">HH", pdu[1:5])
            data = struct.pack(f">{count}H", *words[first : first + count])
            return [(0.01, unit, bytes((3, len(data))) + data)]

        box = device(binding, Line(answers), links(clock), clock)
        scan = await read(box)
        good = [i for i, q in enumerate(scan.quality) if grade_of(int(q)) is Grade.GOOD]
        assert good == [0, 1, 3]
        assert [scan.values[i] for i in good] == [53.0, 56.0, 54.0]
        assert all(math.isnan(v) for i, v in enumerate(scan.values) if i not in good)
        assert flaws(scan)[2] is flaws(scan)[4] is flaws(scan)[5] is Flaw.SENTINEL

    in_virtual_time(main)
