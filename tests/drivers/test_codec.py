"""Laws of the codec: exact both ways, and no number from nonsense."""

from __future__ import annotations

import math
import struct
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drivers.catalog import profiles
from drivers.profile import ModbusWhere
from drivers.profile.binding import BoundPoint, bind
from drivers.profile.codec import (
    bytes_to_registers,
    decode,
    encode,
    registers_to_bytes,
    sentinel_raw,
    text_of,
)
from facility.points import Flaw, Grade, flaw_of, grade_of
from tests.drivers.wires import point_of

TYPES = ("u16", "s16", "u32", "s32", "u64", "s64", "f32", "f64")
ORDERS = st.sampled_from(("big", "little"))
RANGES = {
    "u16": (0, 2**16 - 1),
    "s16": (-(2**15), 2**15 - 1),
    "u32": (0, 2**32 - 1),
    "s32": (-(2**31), 2**31 - 1),
    "u64": (0, 2**53),
    "s64": (-(2**53), 2**53),
}


@st.composite
def register_points(draw: st.DrawFn) -> BoundPoint:
    at = {
        "address": draw(st.integers(0, 100)),
        "type": draw(st.sampled_from(TYPES)),
        "word_order": draw(ORDERS),
        "byte_order": draw(ORDERS),
    }
    return point_of(
        at=at,
        kind="temperature",
        scale=draw(st.sampled_from((1.0, 0.1, 0.01, 10.0, -0.1))),
        offset=draw(st.sampled_from((0.0, -273.15, 40.0))),
        unit=draw(st.sampled_from(("degC", "degF"))),
    )


@settings(max_examples=150)
@given(register_points(), st.floats(-59.0, 199.0))
def test_what_is_encoded_reads_back_within_half_a_count(point: BoundPoint, value: float) -> None:
    raw = encode(point, value)
    if raw is None:  # a u16 cannot hold every temperature at every scale
        assert point.at.where.type in ("u16", "s16", "u32", "u64")  # type: ignore[union-attr]
        return
    back = decode(point, raw)
    count = abs(point.entry.scale * point.factors[0])
    assert grade_of(back.quality) is not Grade.BAD
    assert abs(back.value - value) <= 0.5 * count + 1e-4
    if not point.at.where.type.startswith("f"):  # type: ignore[union-attr]
        assert encode(point, back.value) == raw  # floats may differ in the last place


def test_minus_zero_goes_out_as_zero() -> None:
    assert encode(point_of(at={"address": 0, "type": "f32"}, kind="temperature"), -0.0) == (0, 0)


@settings(max_examples=100)
@given(st.sampled_from(sorted(RANGES)), ORDERS, ORDERS, st.data())
def test_integers_are_exact_in_every_word_and_byte_order(
    kind: str, words: str, order: str, data: st.DataObject
) -> None:
    number = data.draw(st.integers(*RANGES[kind]))
    at = {"address": 0, "type": kind, "word_order": words, "byte_order": order}
    point = point_of(at=at, kind="state", sentinels=[])
    raw = encode(point, float(number))
    assert raw is not None
    assert isinstance(raw, tuple)
    assert decode(point, raw).raw is not None
    where = ModbusWhere.model_validate(at)
    assert bytes_to_registers(where, registers_to_bytes(where, raw)) == raw
    assert (math.isnan(back := decode(point, raw).value)) or back == number


def test_word_and_byte_orders_by_name() -> None:
    value = struct.pack(">f", 230.5)
    a, b, c, d = value
    shapes = {
        ("big", "big"): (a << 8 | b, c << 8 | d),
        ("little", "big"): (c << 8 | d, a << 8 | b),
        ("big", "little"): (b << 8 | a, d << 8 | c),
        ("little", "little"): (d << 8 | c, b << 8 | a),
    }
    for (words, order), registers in shapes.items():
        at = {"address": 0, "type": "f32", "word_order": words, "byte_order": order}
        assert decode(point_of(at=at, kind="voltage"), registers).value == 230.5


@pytest.mark.parametrize("pattern", [0x7FC00000, 0xFFC00000, 0x7F800000, 0xFF800000, 0x7F800001])
def test_no_float_pattern_without_a_value_becomes_a_number(pattern: int) -> None:
    point = point_of(at={"address": 0, "type": "f32"}, kind="voltage")
    seen = decode(point, (pattern >> 16, pattern & 0xFFFF))
    assert math.isnan(seen.value)
    assert flaw_of(seen.quality) is Flaw.UNDECODABLE


def test_a_sentinel_is_compared_before_scaling_and_per_point() -> None:
    point = point_of(
        at={"address": 0, "type": "s16"}, kind="temperature", scale=0.1, sentinels=[32768]
    )
    block = [53, 56, 0x8000, 54, 0x8000]
    seen = [decode(point, (word,)) for word in block]
    assert [s.value for s in seen if grade_of(s.quality) is Grade.GOOD] == pytest.approx(
        [5.3, 5.6, 5.4]
    )
    assert [flaw_of(s.quality) for s in seen].count(Flaw.SENTINEL) == 2
    other = point_of(at={"address": 0, "type": "s16"}, kind="active_power", sentinels=[])
    assert decode(other, (0xFFFF,)).value == -1.0


def test_all_ones_in_a_u16_times_a_tenth_is_not_6553_5() -> None:
    point = point_of(kind="active_power", scale=0.1, unit="kW", sentinels=[-1])
    seen = decode(point, (0xFFFF,))
    assert math.isnan(seen.value)
    assert flaw_of(seen.quality) is Flaw.SENTINEL


@settings(max_examples=200)
@given(
    register_points(),
    st.one_of(
        st.lists(st.integers(-5, 70000), max_size=6).map(tuple),
        st.binary(max_size=8),
        st.text(max_size=8),
        st.floats(),
        st.integers(),
        st.sampled_from(list(Flaw)[1:]),
    ),
)
def test_nonsense_is_a_flaw_and_never_raises(point: BoundPoint, raw: object) -> None:
    seen = decode(point, raw)  # type: ignore[arg-type]
    assert math.isnan(seen.value) == (grade_of(seen.quality) is Grade.BAD)
    assert not math.isinf(seen.value)


@settings(max_examples=200)
@given(
    st.one_of(
        st.text(max_size=12), st.binary(max_size=12), st.floats(), st.integers(), st.booleans()
    )
)
def test_snmp_and_json_nonsense_is_a_flaw_and_never_raises(raw: object) -> None:
    point = point_of("snmp", kind="current", sentinels=[-1, "NULL"])
    seen = decode(point, raw)  # type: ignore[arg-type]
    assert math.isnan(seen.value) == (grade_of(seen.quality) is Grade.BAD)
    assert not math.isinf(seen.value)


@pytest.mark.parametrize("text", [b"nan", b"inf", b"-Infinity", b"", b"NULL", b"1,5", b"1e999"])
def test_texts_that_are_no_number_stay_none(text: bytes) -> None:
    seen = decode(point_of("snmp", kind="current"), text)
    assert math.isnan(seen.value)


def test_a_number_in_a_text_is_read() -> None:
    assert decode(point_of("snmp", kind="current"), b" 1.25 ").value == 1.25
    sentinel = point_of("snmp", kind="temperature", sentinels=["notsupported"])
    assert flaw_of(decode(sentinel, b"notsupported ").quality) is Flaw.SENTINEL


def test_an_implausible_value_is_kept_and_suspect() -> None:
    point = point_of(kind="voltage", plausible=["0 V", "600 V"])
    seen = decode(point, (2300,))
    assert seen.value == 2300.0
    assert (grade_of(seen.quality), flaw_of(seen.quality)) == (Grade.SUSPECT, Flaw.IMPLAUSIBLE)


DIGITS = {"digits": {"snmp": {"oid": "1.3.6.1.9"}}}


@pytest.mark.parametrize(("digits", "value"), [(3, 0.680), (1, 68.0), (0, 680.0)])
def test_digits_are_the_devices_own(digits: int, value: float) -> None:
    point = point_of("snmp", kind="current", **DIGITS)
    assert decode(point, 680, digits).value == pytest.approx(value)
    assert encode(point, value, digits) == 680


@pytest.mark.parametrize("digits", [None, Flaw.TIMEOUT, Flaw.REFUSED, -1, 99, b"x", "3"])
def test_without_digits_there_is_no_value(digits: object) -> None:
    point = point_of("snmp", kind="current", **DIGITS)
    assert math.isnan(decode(point, 680, digits).value)  # type: ignore[arg-type]


def test_a_unit_switch_is_read_in_the_same_look() -> None:
    switch = {"at": {"snmp": {"oid": "1.3.6.1.8"}}, "codes": {0: "degC", 1: "degF"}}
    point = point_of("snmp", kind="temperature", scale=0.1, unit_from=switch)
    assert decode(point, 680, None, 1).value == pytest.approx(20.0)
    assert decode(point, 200, None, 0).value == pytest.approx(20.0)
    assert encode(point, 20.0, 0, 1) == 680
    for missing in (None, 7, Flaw.TIMEOUT):
        assert math.isnan(decode(point, 680, None, missing).value)


def test_a_code_that_nobody_named_is_undecodable() -> None:
    point = point_of(kind="state", codes={0: 0, 4: 2})
    assert decode(point, (4,)).value == 2.0
    assert encode(point, 2.0) == (4,)
    assert flaw_of(decode(point, (3,)).quality) is Flaw.UNDECODABLE
    assert encode(point, 1.0) is None


def test_a_bit_of_a_register() -> None:
    point = point_of(at={"address": 0, "type": "bit", "bit": 3}, kind="leak")
    assert decode(point, (0b1000,)).value == 1.0
    assert decode(point, (0b0111,)).value == 0.0
    assert encode(point, 1.0) == (0b1000,)


def test_encoding_never_writes_what_reads_as_no_value() -> None:
    point = point_of(at={"address": 0, "type": "u16"}, kind="active_power", sentinels=[65535])
    assert encode(point, 65535.0) is None
    assert encode(point, 70000.0) is None
    assert encode(point, math.nan) is None
    assert sentinel_raw(point) == (65535,)


def test_an_identity_text_is_cut_and_cleaned() -> None:
    point = point_of("snmp")
    text = b"APC (MB:v4.1.0 PF:v6.4.0 MN:AP8959EU3 HR:02)\x00\x07"
    assert text_of(text, point.at, "MN:", " ") == "AP8959EU3"
    assert text_of(text, point.at, "SN: ", " ") is None
    assert text_of(Flaw.TIMEOUT, point.at) is None


def _bound(profile: str, kind: str) -> BoundPoint:
    found = bind(profiles()[profile], "d").all()
    return next(bound for bound in found if bound.spec.id.kind == kind)


@pytest.mark.parametrize("raw", [True, False, "1_000", "٣", "0x10", "1e", "+", ".", "", "5 6"])
def test_true_and_fancy_digits_are_no_temperature(raw: bool | str) -> None:
    decoded = decode(_bound("sensor/json-mqtt", "temperature"), raw)
    assert math.isnan(decoded.value)
    assert flaw_of(decoded.quality) is Flaw.UNDECODABLE


@pytest.mark.parametrize("text", ["1" * 65_000 + "x", "1" * 32_000 + "." + "1" * 32_000 + "x"])
def test_64_kilobytes_of_digits_do_not_stop_the_loop(text: str) -> None:
    """A number that is none after all was tried in every way it could be cut: over a minute."""
    began_s = time.thread_time()
    assert math.isnan(decode(_bound("sensor/json-mqtt", "temperature"), text).value)
    assert time.thread_time() - began_s < 1.0


@pytest.mark.parametrize(("raw", "value"), [(" 21.5 ", 21.5), ("+5", 5.0), (".5", 0.5)])
def test_a_number_written_plainly_is_read(raw: str, value: float) -> None:
    assert decode(_bound("sensor/json-mqtt", "temperature"), raw).value == value


def test_a_leak_may_be_true() -> None:
    decoded = decode(_bound("sensor/json-mqtt", "leak"), True)
    assert (decoded.value, grade_of(decoded.quality)) == (1.0, Grade.GOOD)
