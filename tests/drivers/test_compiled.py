"""What is worked out for a whole layout equals what the codec says of each of its points."""

from __future__ import annotations

import math
import random
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drivers.catalog import profiles
from drivers.profile.binding import Binding, BoundPoint, Places, bind
from drivers.profile.codec import Answer, Decoded, decode
from drivers.profile.compiled import Decoder, added
from drivers.profile.rows import words_of
from facility.points import Flaw
from tests.drivers.wires import binding_of

TYPES = ("u16", "s16", "u32", "s32", "u64", "s64", "f32", "f64", "bit", "text")
#: raws that meters send for nothing, and those at the edges of what floats can tell apart
EDGES = (-1, 0, 1, 2, 99, 32767, 65535, 2**31 - 1, 2**32 - 1, 2**53, 2**53 + 1, 2**64 - 1, 2**64)
WORDS = st.one_of(st.integers(0, 0xFFFF), st.sampled_from((0, 1, 0x7F80, 0x7FC0, 0x8000, 0xFFFF)))
FLAWS = st.sampled_from(list(Flaw)[1:])


def by_the_codec(binding: Binding, places: Places, answers: Sequence[Answer]) -> list[Decoded]:
    """The reference: point by point."""
    told = dict(zip(places.at, answers, strict=True))
    layout = binding.layouts[0]
    seen = [
        decode(
            point,
            told[point.at],
            told[point.digits] if point.digits else None,
            told[point.unit_at] if point.unit_at else None,
        )
        for point in binding.points[layout.key]
    ]
    return [*seen, *(added([seen[i] for i in s.members]) for s in binding.sums[layout.key])]


def places_of(points: Sequence[BoundPoint]) -> Places:
    return Places.of(at for point in points for at in point.places)


def check(binding: Binding, looks: Sequence[Sequence[Answer]]) -> None:
    """Look after look with one decoder, so that nothing may be left over from the last."""
    layout = binding.layouts[0]
    points = binding.points[layout.key]
    places = places_of(points)
    decoder = Decoder(points, binding.sums[layout.key], places)
    for answers in looks:
        values, grades = decoder(answers)
        wanted = by_the_codec(binding, places, answers)
        assert values.dtype == np.float64
        assert grades.dtype == np.uint8
        assert [struct.pack("d", v) if v == v else None for v in values.tolist()] == [
            struct.pack("d", d.value) if d.value == d.value else None for d in wanted
        ]
        assert grades.tolist() == [d.quality for d in wanted]


@st.composite
def entries(draw: st.DrawFn, part: str, at: dict[str, Any], protocol: str) -> dict[str, Any]:
    kind = draw(st.sampled_from(("temperature", "active_power", "state", "leak", "energy")))
    entry: dict[str, Any] = {
        "part": part,
        "kind": kind,
        "at": {protocol: at},
        "scale": draw(st.sampled_from((1.0, 0.1, 0.01, 10.0, -0.1, 1e-3, 0.5))),
        "offset": draw(st.sampled_from((0.0, -273.15, 40.0, 0.25))),
        "sentinels": draw(
            st.lists(st.one_of(st.sampled_from(EDGES), st.sampled_from(("NULL", "-1"))), max_size=3)
        ),
    }
    if draw(st.integers(0, 4)) == 0:
        entry["absolute"] = True
    if kind == "temperature":
        entry["unit"] = draw(st.sampled_from(("degC", "degF")))
    if kind == "active_power":
        entry["plausible"] = ["0 kW", draw(st.sampled_from(("1 kW", "40 kW")))]
    if kind == "state" and draw(st.booleans()):
        entry["codes"] = {-1: 5, 0: 0, 1: 2, 99: 7, 2**53 + 1: 3}
    return entry


@st.composite
def modbus_looks(draw: st.DrawFn) -> tuple[Binding, list[list[Answer]]]:
    points, address = [], 0
    for i in range(draw(st.integers(1, 6))):
        kind = draw(st.sampled_from(TYPES))
        at: dict[str, Any] = {
            "address": address,
            "type": kind,
            "word_order": draw(st.sampled_from(("big", "little"))),
            "byte_order": draw(st.sampled_from(("big", "little"))),
        }
        if kind == "text":
            at["length"] = draw(st.integers(1, 3))
        if kind == "bit" and draw(st.booleans()):
            at["function"] = "coil"
        elif kind == "bit":
            at["bit"] = draw(st.integers(0, 15))
        if kind == "u16" and draw(st.booleans()):
            at["bits"] = (draw(st.integers(0, 7)), draw(st.integers(8, 15)))
        entry = draw(entries(f"sensor.{i}", at, "modbus"))
        if draw(st.integers(0, 3)) == 0:
            entry["digits"] = {"modbus": {"address": 900, "type": "u16"}}
        points.append(entry)
        address += 10
    binding = binding_of(*points)
    places = places_of(binding.points[binding.layouts[0].key])
    looks: list[list[Answer]] = []
    for _ in range(draw(st.integers(1, 3))):
        answers: list[Answer] = []
        for at_ in places.at:
            count = at_.count  # type: ignore[union-attr]
            plain = st.lists(WORDS, min_size=count, max_size=count).map(tuple)
            small = st.integers(0, 4).map(lambda n, c=count: (0,) * (c - 1) + (n,))  # type: ignore[misc]
            hostile = st.one_of(
                FLAWS, st.lists(st.integers(-1, 70000), max_size=5).map(tuple), st.integers()
            )
            answers.append(draw(st.one_of(plain, plain, small, small, hostile)))
        looks.append(answers)
    return binding, looks


NUMBERS = st.one_of(
    st.integers(-300, 3000),
    st.sampled_from(EDGES),
    st.sampled_from([-edge for edge in EDGES]),
    st.floats(-300.0, 3000.0),
)
HOSTILE = st.one_of(
    FLAWS,
    st.booleans(),
    st.floats(),
    st.integers(),
    st.integers(10**300, 10**320),
    st.text(max_size=5),
    st.binary(max_size=5),
    st.sampled_from(("NULL", b"-1", " 21.5 ", b"12", "1e999")),
    st.lists(st.integers(0, 65535), max_size=2).map(tuple),
)


@st.composite
def snmp_looks(draw: st.DrawFn) -> tuple[Binding, list[list[Answer]]]:
    points = []
    has_sum = draw(st.booleans())
    for i in range(draw(st.integers(1, 6))):
        entry = draw(entries(f"sensor.{i}", {"oid": f"1.3.6.1.4.{i}"}, "snmp"))
        if draw(st.booleans()):
            entry["digits"] = {"snmp": {"oid": f"1.3.6.1.5.{i % 2}"}}
        if entry["kind"] == "temperature" and draw(st.booleans()):
            switch = {"at": {"snmp": {"oid": "1.3.6.1.8"}}, "codes": {0: "degC", 1: "degF"}}
            entry["unit_from"] = switch
        points.append(entry)
    more: dict[str, Any] = {}
    if has_sum:
        line = {"oid": "1.3.6.1.7", "index": ["row"]}
        row = {"part": "line.*", "kind": "active_power", "table": "lines", "at": {"snmp": line}}
        points.append(row | {"sentinels": [-1]})
        more["tables"] = {"lines": {"rows": 3}}
        more["sums"] = [{"part": "total", "kind": "active_power", "of": "line"}]
    binding = binding_of(*points, protocol="snmp", **more)
    places = places_of(binding.points[binding.layouts[0].key])
    settings_too = st.sampled_from((0, 1, 2, 3))
    answer = st.one_of(NUMBERS, NUMBERS, NUMBERS, settings_too, settings_too, HOSTILE)
    looks = [[draw(answer) for _ in places.at] for _ in range(draw(st.integers(1, 3)))]
    return binding, looks


@settings(max_examples=150)
@given(modbus_looks())
def test_registers_read_together_are_what_each_reads_alone(
    case: tuple[Binding, list[list[Answer]]],
) -> None:
    check(*case)


@settings(max_examples=150)
@given(snmp_looks())
def test_numbers_read_together_are_what_each_reads_alone(
    case: tuple[Binding, list[list[Answer]]],
) -> None:
    check(*case)


@pytest.mark.parametrize("name", sorted(profiles()))
def test_every_shipped_profile_decodes_alike(name: str) -> None:
    profile, rng = profiles()[name], random.Random(name)
    found: dict[str, tuple[int | str, ...]] = {}
    for table, described in profile.tables.items():
        words = words_of(described.walk.index) if described.walk else ()
        named = "-".join("a" if word == "text" else "1" for word in words)
        found[table] = (named,) if "text" in words else (1, 2, 3)
    binding = bind(profile, "d", found=found)
    for layout in binding.layouts[:1]:
        places = places_of(binding.points[layout.key])
        check(binding, [[_any_raw(at, rng) for at in places.at] for _ in range(6)])


def _any_raw(at: Any, rng: random.Random) -> Answer:
    if rng.random() < 0.1:
        return rng.choice(list(Flaw)[1:])
    if hasattr(at, "count"):
        most = rng.choice((3, 500, 65535))
        return tuple(rng.randint(0, most) for _ in range(at.count))
    kinds: tuple[Answer, ...] = (rng.randint(-1, 5), rng.randint(0, 70000), rng.random(), "OK")
    return rng.choice((*kinds, b"12.5"))


def test_settings_that_change_are_heard_at_once() -> None:
    switch = {"at": {"snmp": {"oid": "1.3.6.1.8"}}, "codes": {0: "degC", 1: "degF"}}
    at = {"snmp": {"oid": "1.3.6.1.1"}}
    point = {"part": "inlet", "kind": "temperature", "at": at, "scale": 0.1, "unit_from": switch}
    binding = binding_of(point, protocol="snmp")
    check(binding, [[680, 1], [680, 1], [200, 0], [200, True], [200, 1.0], [200, Flaw.TIMEOUT]])


def test_true_is_no_number_although_it_equals_one() -> None:
    at = {"snmp": {"oid": "1.3.6.1.1"}}
    binding = binding_of({"part": "inlet", "kind": "temperature", "at": at}, protocol="snmp")
    values, _ = Decoder(binding.all(), (), places_of(binding.all()))([True])
    assert math.isnan(values[0])
