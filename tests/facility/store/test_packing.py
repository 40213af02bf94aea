"""A packed scan comes back bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from facility.points import ByteArray, FloatArray
from facility.store.rows.packing import (
    ALL_GOOD,
    DEFLATED,
    NARROW,
    SHORT,
    WHOLE,
    pack,
    pack_all,
    unpack,
    unpack_all,
)

FLOATS = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True, width=64),
    st.floats(allow_nan=True, allow_infinity=True, width=32),
    st.sampled_from([0.0, -0.0, float("nan"), 231.4, 1e300, 5e-324]),
)


@settings(max_examples=150)
@given(data=st.data(), n=st.integers(0, 300), good=st.booleans())
def test_every_scan_survives_packing_bit_for_bit(data: st.DataObject, n: int, good: bool) -> None:
    values = data.draw(hnp.arrays(np.float64, n, elements=FLOATS))
    quality = (
        np.zeros(n, dtype=np.uint8)
        if good
        else data.draw(hnp.arrays(np.uint8, n, elements=st.integers(0, 47)))
    )
    back, grades = unpack(pack(values, quality), n)
    assert np.array_equal(back.view(np.int64), values.view(np.int64))
    assert np.array_equal(grades, quality)


SCAN = st.integers(0, 60).flatmap(
    lambda n: st.tuples(
        st.one_of(
            hnp.arrays(np.float64, n, elements=FLOATS),
            hnp.arrays(np.float64, n, elements=st.integers(-40_000, 40_000).map(lambda q: q / 10)),
            hnp.arrays(np.float64, n, elements=st.integers(-90, 2**31).map(lambda q: q * 0.01)),
        ),
        hnp.arrays(np.uint8, n, elements=st.sampled_from([0, 0, 0, 2, 47])),
    )
)


@settings(max_examples=100)
@given(scans=st.lists(SCAN, max_size=6))
def test_a_batch_packs_each_scan_as_if_it_were_alone(
    scans: list[tuple[FloatArray, ByteArray]],
) -> None:
    packed = pack_all([v for v, _ in scans], [q for _, q in scans])
    assert packed == [pack(values, quality) for values, quality in scans]
    for data, (values, quality) in zip(packed, scans, strict=True):
        back, grades = unpack(data, len(values))
        assert np.array_equal(back.view(np.int64), values.view(np.int64))
        assert np.array_equal(grades, quality)


@settings(max_examples=60)
@given(data=st.data(), n=st.integers(1, 20), m=st.integers(0, 8))
def test_scans_of_one_layout_are_unpacked_together(data: st.DataObject, n: int, m: int) -> None:
    mixed = st.one_of(FLOATS, st.integers(-9, 9).map(float), st.just(float("nan")))
    values = data.draw(hnp.arrays(np.float64, (m, n), elements=mixed))
    quality = data.draw(hnp.arrays(np.uint8, (m, n), elements=st.sampled_from([0, 2])))
    back, grades = unpack_all(pack_all(list(values), list(quality)), n)
    assert np.array_equal(back.view(np.int64), values.view(np.int64))
    assert np.array_equal(grades, quality)


def test_the_cheapest_form_is_taken() -> None:
    exact = np.arange(16.0)
    zeros = np.zeros(16, dtype=np.uint8)
    for values, width in (
        (exact, 2),
        (exact * 1e5, 4),
        ((exact * 10 + 1) / 10, 2.5),
        (exact * 0.1, 2.5),  # 0.30000000000000004; half a byte says that 1.0 is no 10 * 0.1
        (np.append(exact[1:] / 10, np.nan), 2.5),
        (np.append(exact[1:] * 0.01, 81234.5), 4.5),
        (exact + 2.0**-9, 4),
        (exact + np.pi, 8),
    ):
        assert len(pack(values, zeros)) == 1 + round(16 * width)
    assert pack(exact, zeros)[0] == WHOLE | SHORT | ALL_GOOD
    assert pack(exact + 2.0**-9, zeros)[0] == NARROW | ALL_GOOD
    assert pack(exact + np.pi, zeros + 2)[0] == 0
    repetitive = pack(np.full(200, np.pi), np.zeros(200, dtype=np.uint8))
    assert repetitive[0] & DEFLATED
    assert len(repetitive) < 100


def test_a_scan_packed_by_the_first_release_is_read() -> None:
    values = np.array([1.5, -0.0, np.nan])
    good = bytes((1 | 2,)) + values.astype("<f4").tobytes()
    assert np.array_equal(unpack(good, 3)[0], values, equal_nan=True)
    mixed = bytes((0,)) + np.array([0.1, 2.0]).tobytes() + bytes((0, 2))
    back, grades = unpack(mixed, 2)
    assert back.tolist() == [0.1, 2.0]
    assert grades.tolist() == [0, 2]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x03",
        b"\x03abc",
        b"\x07not deflated",
        b"\xff" + b"a" * 8,
        b"\x12" + b"a" * 8,
        b"\x62abc",
        b"\x02" + b"a" * 9,
    ],
)
def test_damaged_bytes_are_refused_and_never_become_numbers(data: bytes) -> None:
    with pytest.raises(ValueError, match="packed scan"):
        unpack(data, 1)
