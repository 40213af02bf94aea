from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field, make_dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from facility.commands import Ack, Command, Mode, Outcome, Override
from facility.exact import decode, digest, dumps, encode, shape
from facility.points import FloatArray, PointId


@dataclass(frozen=True)
class Sample:
    number: float
    maybe: float | None
    pair: tuple[int, str]
    many: tuple[float, ...]
    named: Mapping[str, int]
    mode: Mode
    vector: FloatArray = field(compare=False)


@given(st.floats(), st.lists(st.floats(), max_size=5))
def test_floats_and_arrays_survive_to_the_last_bit(number: float, many: list[float]) -> None:
    sample = Sample(
        number, None, (1, "x"), tuple(many), {"a": 1}, Mode.AUTO, np.array(many, dtype=np.float64)
    )
    text = dumps(sample)
    back = decode(Sample, json.loads(text))
    # NaN payloads are one NaN to Python's text form; every other bit pattern is kept.
    if number == number:
        assert struct.pack("<d", back.number) == struct.pack("<d", number)
    else:
        assert back.number != back.number
    assert back.vector.tobytes() == sample.vector.tobytes()
    assert digest(back) == digest(sample)


def test_commands_acks_and_overrides_come_back_equal() -> None:
    command = Command(PointId("n", "total", "power_cap"), 0.1 + 0.2, 1, 2, 3, 2.0, "why", True)
    ack = Ack(command, Outcome.CLAMPED, 0.3, "", 9)
    lease = Override("o", command.point, 1.0, "kim", "test", 0, 1)
    assert decode(tuple[Ack, ...], json.loads(dumps((ack,)))) == (ack,)
    assert decode(Override, json.loads(dumps(lease))) == lease


def test_equal_values_have_equal_digests_and_others_have_not() -> None:
    a, b = {"x": 1.0, "y": (1, 2)}, {"y": [1, 2], "x": 1.0}
    assert digest(a) == digest(b)
    assert digest({"x": 1.0}) != digest({"x": np.nextafter(1.0, 2.0)})


@pytest.mark.parametrize("bad", [object(), {"a": object()}, object])
def test_what_is_no_data_cannot_be_recorded(bad: object) -> None:
    with pytest.raises(TypeError):
        encode(bad)


@pytest.mark.parametrize(
    ("kind", "data"), [(int, "1"), (Mode, "maybe"), (tuple[int, str], [1]), (Sample, {"x": 1})]
)
def test_wrong_data_is_refused(kind: object, data: object) -> None:
    with pytest.raises((TypeError, ValueError, KeyError)):
        decode(kind, data)


FIELDS = [("watts", float), ("mode", Mode), ("many", tuple[int, ...])]


def test_the_shape_of_the_same_fields_is_the_same_and_of_any_other_another() -> None:
    kept = make_dataclass("Kept", FIELDS)
    assert shape(kept) == shape(make_dataclass("Kept", FIELDS))
    others = [
        make_dataclass("Kept", FIELDS[:-1]),
        make_dataclass("Kept", [*FIELDS, ("more", str)]),
        make_dataclass("Kept", [("power", float), *FIELDS[1:]]),
        make_dataclass("Kept", [*FIELDS[:-1], ("many", tuple[float, ...])]),
    ]
    assert len({shape(kind) for kind in (kept, *others)}) == 5


def test_a_change_deep_inside_changes_the_shape_outside() -> None:
    one, two = make_dataclass("Inner", FIELDS), make_dataclass("Inner", FIELDS[:-1])
    outer = [make_dataclass("Outer", [("held", Mapping[str, kind | None])]) for kind in (one, two)]
    assert shape(outer[0]) != shape(outer[1])
