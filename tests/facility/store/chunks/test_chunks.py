"""A chunk gives back every bit that went in, and says of a column what it holds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from facility.points import BAD_TIMEOUT, Flaw, Grade, quality
from facility.store.chunks import Columns, Head, encode, merged, numbers

NAN = float("nan")
SUSPECT = quality(Grade.SUSPECT, Flaw.IMPLAUSIBLE)
START = 1_796_000_000_000
NUMBERS = st.one_of(
    st.floats(allow_nan=False, width=64),
    st.sampled_from([0.0, -0.0, NAN, 231.4, 0.1 * 3, 1e300, 5e-324, float("inf"), 2.0**53]),
    st.integers(-(2**60), 2**60).map(float),
    st.integers(-9999, 9999).map(lambda q: q / 10),
    st.integers(-9999, 9999).map(lambda q: q * 0.001),
)
ROW = st.one_of(
    NUMBERS.map(lambda v: st.just(v)),
    st.just(NUMBERS),
    st.just(st.integers(-300, 300).map(lambda q: q / 100)),
    st.just(st.integers(-300, 300).map(lambda q: q * 0.1)),
    st.just(st.sampled_from([0.0, 1.0, NAN])),
).flatmap(lambda values: st.lists(values, min_size=1, max_size=40))


@st.composite
def columns(draw: st.DrawFn) -> Columns:
    rows = draw(st.lists(ROW, min_size=1, max_size=5))
    m = min(map(len, rows))
    values = np.array([row[:m] for row in rows], dtype=np.float64)
    grades = draw(
        hnp.arrays(
            np.uint8, values.shape, elements=st.sampled_from([0, 0, 0, SUSPECT, BAD_TIMEOUT])
        )
    )
    steps = draw(st.lists(st.integers(1, 3000), min_size=m, max_size=m))
    late = draw(st.lists(st.integers(-(2**40), 2**40), min_size=m, max_size=m))
    times = START + np.cumsum(np.array(steps, dtype=np.int64))
    return Columns(times, times + np.array(late, dtype=np.int64), values, grades)


def same(one: Columns, other: Columns) -> bool:
    return (
        np.array_equal(one.times_ms, other.times_ms)
        and np.array_equal(one.received_ms, other.received_ms)
        and np.array_equal(one.quality, other.quality)
        and np.array_equal(np.isnan(one.values), np.isnan(other.values))
        and np.array_equal(
            np.where(np.isnan(one.values), 0, one.values.view(np.int64)),
            np.where(np.isnan(other.values), 0, other.values.view(np.int64)),
        )
    )


@settings(max_examples=200)
@given(of=columns())
def test_every_bit_comes_back_whole_and_point_by_point(of: Columns) -> None:
    packed = encode(of)
    head = Head(packed.head)
    assert (head.points, head.scans) == of.values.shape
    assert (packed.scans, packed.first_ms, packed.last_ms) == (
        len(of),
        of.times_ms[0],
        of.times_ms[-1],
    )
    assert same(head.columns(packed.body), of)
    for point in reversed(range(head.points)):
        one = Columns(of.times_ms, of.received_ms, of.values[[point]], of.quality[[point]])
        assert same(head.columns(packed.body, [point]), one)


@settings(max_examples=150)
@given(of=columns())
def test_the_summary_is_the_plainest_reckoning(of: Columns) -> None:
    summary = Head(encode(of).head).summary
    for i, (values, grades) in enumerate(zip(of.values, of.quality, strict=True)):
        used = values[(grades & 0b11 == 0) & np.isfinite(values)]
        assert summary.good[i] == (grades & 0b11 == 0).sum()
        assert summary.suspect[i] == (grades & 0b11 == 1).sum()
        assert summary.used[i] == len(used)
        with np.errstate(over="ignore"):
            assert summary.total[i] == pytest.approx(used.sum(), rel=1e-9, abs=1e-3, nan_ok=True)
        found = [summary.low[i], summary.high[i], summary.first[i], summary.last[i]]
        if len(used):
            assert found == [used.min(), used.max(), used[0], used[-1]]
        else:
            assert np.isnan(found).all()


@given(earlier=columns(), later=columns())
def test_of_two_scans_at_one_time_the_later_told_stays(earlier: Columns, later: Columns) -> None:
    k = min(len(earlier.values), len(later.values))
    told = [
        Columns(c.times_ms, c.received_ms, c.values[:k], c.quality[:k]) for c in (earlier, later)
    ]
    by_time = {int(at): c.values[:, i].tolist() for c in told for i, at in enumerate(c.times_ms)}
    got = merged(*told)
    assert got.times_ms.tolist() == sorted(by_time)
    expected = np.array([by_time[at] for at in sorted(by_time)]).T
    assert np.array_equal(got.values, expected, equal_nan=True)
    assert same(merged(got, Columns.none(k)), got)
    assert same(merged(Columns.none(k), got), got)


def hour(values: np.ndarray[tuple[int, int], np.dtype[np.float64]]) -> Columns:
    m = values.shape[1]
    times = START + 1000 * np.arange(m)
    return Columns(times, times, values, np.zeros(values.shape, dtype=np.uint8))


def test_decimal_steps_cost_what_their_noise_is_worth() -> None:
    rng = np.random.default_rng(1)
    steps = np.rint(350 + rng.normal(0, 1, (4, 3600)))
    for form, values in (
        (numbers.WHOLE, steps),
        (numbers.WHOLE | 1, steps / 10),
        (numbers.WHOLE | numbers.TIMES | 1, steps * 0.1),
        (numbers.WHOLE | 3, steps / 1000),
    ):
        packed = encode(hour(values))
        assert len(packed.body) / values.size < 0.36  # sd 1 step: 2.05 bits are 0.256 bytes
        assert {f for f, _ in numbers.pack(values, None)} == {form}


def test_a_constant_costs_next_to_nothing_and_a_gap_does_not_change_that() -> None:
    values = np.full((50, 3600), 21.7)
    plain = encode(hour(values))
    assert len(plain.body) == 50 * 8
    values[:, 1000:1100] = NAN
    gap = hour(values)
    gap.quality[:, 1000:1100] = BAD_TIMEOUT
    packed = encode(gap)
    assert len(packed.body) == 50 * 8
    assert len(packed.head) < len(plain.head) + 120
    assert same(Head(packed.head).columns(packed.body), gap)


@pytest.mark.parametrize("cut", [0, 5, 22, 40, -1])
def test_damaged_bytes_are_refused_and_never_become_numbers(cut: int) -> None:
    packed = encode(hour(np.arange(40.0).reshape(4, 10) ** 2))
    with pytest.raises(ValueError, match="chunk"):
        Head(packed.head[:cut]).columns(packed.body)
    with pytest.raises(ValueError, match="chunk"):
        Head(packed.head).columns(packed.body[:cut])
    with pytest.raises(ValueError, match="newer"):
        Head(b"\x02" + packed.head[1:])


@settings(max_examples=200)
@given(at=st.integers(0, 10_000), change=st.integers(1, 255), in_head=st.booleans())
def test_a_flipped_byte_is_seen_wherever_it_is(at: int, change: int, in_head: bool) -> None:
    packed = encode(hour(np.arange(40.0).reshape(4, 10) ** 2))
    told = [bytearray(packed.head), bytearray(packed.body)]
    harmed = told[0 if in_head else 1]
    harmed[at % len(harmed)] ^= change
    with pytest.raises(ValueError, match="chunk"):
        Head(bytes(told[0])).columns(bytes(told[1]))


def test_a_chunk_without_scans_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        encode(Columns.none(3))
