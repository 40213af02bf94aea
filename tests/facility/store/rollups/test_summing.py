"""Buckets of a layout's scans against the plainest reckoning."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from facility.points import BAD_TIMEOUT, Flaw, FloatArray, Grade, quality
from facility.store.rollups import QUARTER_MS, CounterRule, rise, summarise

SUSPECT = quality(Grade.SUSPECT, Flaw.IMPLAUSIBLE)
BEGIN_MS = 1_796_000_400_000
RULE = CounterRule(10.0)
NAN = float("nan")


def test_only_good_samples_are_summed_and_a_bucket_without_any_is_unknown() -> None:
    times_ms = BEGIN_MS + np.array([0, 1000, 2000, QUARTER_MS])
    values = np.array([[1.0], [2.0], [900.0], [NAN]])
    grades = np.array([[0], [0], [SUSPECT], [BAD_TIMEOUT]], dtype=np.uint8)
    got = summarise(times_ms, values, grades, QUARTER_MS, {})
    assert got.starts_ms.tolist() == [BEGIN_MS, BEGIN_MS + QUARTER_MS]
    assert got.count.tolist() == [3, 1]
    assert got.good.tolist() == [[2], [0]]
    assert got.suspect.tolist() == [[1], [0]]
    assert (got.total[0], got.minimum[0], got.maximum[0]) == (3.0, 1.0, 2.0)
    assert (got.first[0], got.last[0]) == (1.0, 2.0)
    for unknown in (got.total, got.minimum, got.maximum, got.first, got.last):
        assert np.isnan(unknown[1, 0])
    assert np.isnan(got.inside).all()


def test_nothing_makes_no_bucket() -> None:
    got = summarise(np.zeros(0, dtype=np.int64), np.zeros((0, 3)), None, QUARTER_MS, {})
    assert len(got.starts_ms) == 0
    assert got.total.shape == (0, 3)


@settings(max_examples=60)
@given(
    times_s=st.lists(st.integers(0, 3599), min_size=1, max_size=30, unique=True).map(sorted),
    data=st.data(),
)
def test_buckets_equal_brute_force(times_s: list[int], data: st.DataObject) -> None:
    shape = (len(times_s), 2)
    values: FloatArray = data.draw(
        arrays.arrays(np.float64, shape, elements=st.one_of(st.floats(-1e6, 1e6), st.just(NAN)))
    )
    grades = data.draw(
        arrays.arrays(np.uint8, shape, elements=st.sampled_from([0, 0, SUSPECT, BAD_TIMEOUT]))
    )
    times_ms = BEGIN_MS + 1000 * np.array(times_s, dtype=np.int64)
    got = summarise(times_ms, values, grades, QUARTER_MS, {1: RULE})
    for i, start_ms in enumerate(got.starts_ms.tolist()):
        rows = [r for r, at in enumerate(times_ms) if start_ms <= at < start_ms + QUARTER_MS]
        assert got.count[i] == len(rows) > 0
        for column in (0, 1):
            good = [r for r in rows if grades[r, column] == 0 and np.isfinite(values[r, column])]
            seen = values[good, column]
            assert got.good[i, column] == len(good)
            assert got.suspect[i, column] == sum(grades[r, column] == SUSPECT for r in rows)
            if not good:
                assert np.isnan(got.total[i, column])
                continue
            assert got.total[i, column] == pytest.approx(sum(seen), rel=1e-9, abs=1e-6)
            assert (got.minimum[i, column], got.maximum[i, column]) == (min(seen), max(seen))
            assert (got.first[i, column], got.last[i, column]) == (seen[0], seen[-1])
        if good:
            assert (got.first_ms[i, 1], got.last_ms[i, 1]) == (
                times_ms[good[0]],
                times_ms[good[-1]],
            )
            assert got.inside[i, 1] == rise(RULE, times_ms[good], values[good, 1])
    assert got.count.sum() == len(times_s)
