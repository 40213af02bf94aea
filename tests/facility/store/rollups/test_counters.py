"""What a counter counted, whatever happened to it."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from facility.store.rollups import CounterRule, bound, difference, rise

#: A feed of 36 kW counts at most 10 Wh a second.
FEED = CounterRule(fastest_per_s=10.0, resolution=100.0)
ROUND = CounterRule(fastest_per_s=10.0, wraps_at=65_536.0)


def counted(rule: CounterRule, values: list[float], every_s: float = 10.0) -> float:
    times_ms = (np.arange(len(values)) * every_s * 1000).astype(np.int64)
    return rise(rule, times_ms, np.array(values, dtype=np.float64))


def test_a_plain_rise_is_the_last_minus_the_first() -> None:
    assert counted(FEED, [1000.0, 1010.0, 1010.0, 1025.0]) == 25.0


def test_less_than_two_readings_count_nothing() -> None:
    assert counted(FEED, []) == 0.0
    assert counted(FEED, [1000.0]) == 0.0


def test_a_restarted_counter_counts_from_nothing() -> None:
    assert counted(FEED, [900_000.0, 900_010.0, 5.0, 20.0]) == 10.0 + 5.0 + 15.0


def test_a_counter_that_was_cleared_and_shows_more_than_it_can_have_counted_adds_nothing() -> None:
    assert counted(FEED, [900_000.0, 900_010.0, 80_000.0, 80_010.0]) == 20.0


def test_a_wrap_counts_the_way_through_it_and_not_from_nothing() -> None:
    assert counted(ROUND, [65_500.0, 65_530.0, 24.0, 40.0]) == 30.0 + 30.0 + 16.0
    assert difference(ROUND, 65_530.0, 24.0, 10.0) == 30.0


def test_a_fall_too_far_from_the_wrap_is_a_restart() -> None:
    assert difference(ROUND, 30_000.0, 24.0, 10.0) == 24.0


@pytest.mark.parametrize("wrong", [0.0, 4.2e9, 12.0, 999.0])
def test_one_wrong_reading_among_right_ones_costs_nothing(wrong: float) -> None:
    assert counted(FEED, [1000.0, 1010.0, wrong, 1030.0, 1040.0]) == 40.0


def test_a_counter_set_anew_continues_from_there_and_the_jump_is_no_energy() -> None:
    assert counted(FEED, [1000.0, 1010.0, 7e6, 7e6 + 10.0]) == 20.0


def test_a_register_that_is_refreshed_each_minute_loses_nothing_at_full_load() -> None:
    values = [600.0 * (second // 60) for second in range(0, 600, 5)]
    assert counted(CounterRule(10.0), values, every_s=5.0) == values[-1]


def test_a_coarse_counter_of_a_small_feed_loses_nothing() -> None:
    small = CounterRule(fastest_per_s=0.5, resolution=1000.0)
    assert counted(small, [5000.0, 5000.0, 6000.0, 6000.0, 7000.0]) == 2000.0


def test_no_difference_is_more_than_rated_power_times_time() -> None:
    most = bound(FEED, 10.0)
    assert difference(FEED, 0.0, most, 10.0) == most
    assert difference(FEED, 0.0, most + 1.0, 10.0) == 0.0


READINGS = st.lists(st.floats(0, 70_000), max_size=30)


@given(values=READINGS, wraps=st.booleans())
def test_whatever_is_read_the_sum_is_never_negative_nor_more_than_the_rating_allows(
    values: list[float], wraps: bool
) -> None:
    rule = ROUND if wraps else FEED
    assert 0.0 <= counted(rule, values) <= max(len(values) - 1, 0) * bound(rule, 20.0)


@given(steps=st.lists(st.floats(0, 100), min_size=1, max_size=60), start=st.floats(0, 65_535))
def test_what_was_really_counted_is_found_through_any_number_of_wraps(
    steps: list[float], start: float
) -> None:
    values = (start + np.append(0.0, np.cumsum(steps))) % 65_536.0
    assert counted(ROUND, values.tolist()) == pytest.approx(sum(steps), abs=1e-6)


def plainly(rule: CounterRule, times_s: list[float], values: list[float]) -> float:
    """The rules said one reading at a time."""
    kept = []
    for i, value in enumerate(values):
        if 0 < i < len(values) - 1:
            before, after = values[i - 1], values[i + 1]
            most = bound(rule, times_s[i + 1] - times_s[i - 1])
            if before <= after <= before + most and not before <= value <= after:
                continue
        kept.append(i)
    return sum(
        difference(rule, values[a], values[b], times_s[b] - times_s[a])
        for a, b in itertools.pairwise(kept)
    )


@given(values=READINGS, wraps=st.booleans())
def test_the_sum_is_that_of_the_plainest_reckoning(values: list[float], wraps: bool) -> None:
    rule = ROUND if wraps else FEED
    times_s = [10.0 * i for i in range(len(values))]
    assert counted(rule, values) == pytest.approx(plainly(rule, times_s, values), abs=1e-6)


@pytest.mark.parametrize(
    ("values", "wraps_at", "counted"),
    [
        ([15508.5, 0.0, 15508.6], None, 0.1),
        ([9_998_990.0, 12.0], 9_999_000.0, 22.0),
        ([92.0, 91.0, 92.0], None, 0.0),
        ([92.0, 91.0, 91.0, 92.0], None, 1.0),
        ([4_294_967_290.0, 5.0], 2.0**32, 11.0),
        ([5.0, 4_294_967_290.0, 6.0], None, 1.0),
        ([15508.5, 0.0, 0.0, 0.0, 15508.6], None, 0.0),
    ],
    ids=["zero", "9,999,000 Wh", "one back", "one back held", "2^32", "underflow", "zeros"],
)
def test_a_counter_that_reads_zero_steps_back_or_wraps_oddly_counts_no_nonsense(
    values: list[float], wraps_at: float | None, counted: float
) -> None:
    """Case 43: sem-community#782, dbus-fronius#18, Growatt_ModbusTCP#417."""
    rule = CounterRule(4.0, 1.0, wraps_at)
    times_ms = np.arange(len(values), dtype=np.int64) * 10_000
    assert rise(rule, times_ms, np.array(values)) == pytest.approx(counted)
    assert difference(rule, 92.0, 91.0, 10.0) == 0.0
