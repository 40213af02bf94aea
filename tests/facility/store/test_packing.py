"""A packed scan comes back bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from facility.store.rows.packing import ALL_GOOD, DEFLATED, NARROW, pack, unpack

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


def test_the_cheapest_form_is_taken() -> None:
    exact = np.arange(16.0)
    zeros = np.zeros(16, dtype=np.uint8)
    assert pack(exact, zeros)[0] == NARROW | ALL_GOOD
    assert len(pack(exact, zeros)) == 1 + 16 * 4
    assert pack(exact + 0.1, zeros)[0] == ALL_GOOD
    assert pack(exact + 0.1, zeros + 2)[0] == 0
    repetitive = pack(np.full(200, 0.1), np.zeros(200, dtype=np.uint8))
    assert repetitive[0] & DEFLATED
    assert len(repetitive) < 100


@pytest.mark.parametrize(
    "data", [b"", b"\x03", b"\x03abc", b"\x07not deflated", b"\xff" + b"a" * 8, b"\x02" + b"a" * 9]
)
def test_damaged_bytes_are_refused_and_never_become_numbers(data: bytes) -> None:
    with pytest.raises(ValueError, match="packed scan"):
        unpack(data, 1)
