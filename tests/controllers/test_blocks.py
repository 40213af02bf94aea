from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from controllers.blocks import Delayed, Extremes, above, dwelt, low_pass, slew

numbers = st.floats(-1e6, 1e6)
steps = st.floats(0.0, 1e3)


@given(numbers, numbers, steps, steps)
def test_slew_never_overshoots_nor_exceeds_its_rate(
    present: float, target: float, up: float, down: float
) -> None:
    moved = slew(present, target, up, down)
    assert present - down <= moved <= present + up
    assert min(present, target) <= moved <= max(present, target)


def test_dwell_counts_from_the_last_event() -> None:
    assert dwelt(None, 0.0, 600.0)
    assert not dwelt(100.0, 699.0, 600.0)
    assert dwelt(100.0, 700.0, 600.0)


def test_hysteresis_clears_only_below_the_clear_limit() -> None:
    assert not above(31.9, False, 32.0, 30.0)
    assert above(32.0, False, 32.0, 30.0)
    assert above(30.5, True, 32.0, 30.0)
    assert not above(29.9, True, 32.0, 30.0)
    assert above(float("nan"), True, 32.0, 30.0)
    assert not above(float("nan"), False, 32.0, 30.0)


def test_delays_hold_back_a_flicker_in_both_directions() -> None:
    state = Delayed()
    for now, raw, want in (
        (0.0, True, False),
        (2.0, False, False),
        (3.0, True, False),
        (6.0, True, True),
        (7.0, False, True),
        (8.0, True, True),
        (9.0, False, True),
        (19.0, False, False),
    ):
        state = state.step(raw, now, 3.0, 10.0)
        assert state.on is want, now


def test_a_low_pass_starts_at_its_first_value_and_keeps_it_over_gaps() -> None:
    empty = np.array([np.nan, 100.0, 100.0])
    out = low_pass(empty, np.array([50.0, np.nan, 200.0]), 12.0, 12.0)
    assert out[0] == 50.0
    assert out[1] == 100.0
    assert abs(out[2] - (100.0 + 100.0 * (1.0 - np.exp(-1.0)))) < 1e-9


@given(st.lists(st.tuples(st.floats(0.1, 30.0), numbers), min_size=1, max_size=60))
def test_sliding_extremes_hold_every_value_of_the_window(
    events: list[tuple[float, float]],
) -> None:
    window = Extremes.empty(6, 1)
    now, seen = 0.0, []
    for dt, value in events:
        now += dt
        seen.append((now, value))
        window = window.take(np.array([value]), now, 10.0, least=True)
        recent = [v for t, v in seen if now - t < 50.0]
        assert window.least()[0] <= min(recent)
        assert window.least()[0] in [v for t, v in seen if now - t <= 70.0]


LOOKS = st.lists(
    st.tuples(
        st.sampled_from([0.0, 0.5, 1.0, 2.5, 9.0]),
        st.lists(st.sampled_from([math.nan, -1.0, 0.0, 2.0, 5.0]), min_size=3, max_size=3),
    ),
    max_size=12,
)


@given(LOOKS, st.integers(1, 4), st.booleans())
def test_a_sliding_extreme_is_that_of_the_buckets_of_its_window(
    looks: list[tuple[float, list[float]]], buckets: int, least: bool
) -> None:
    window, now_s = Extremes.empty(buckets, 3), 5.0
    seen: dict[int, list[np.ndarray]] = {}
    newest = 0
    for wait_s, values in looks:
        now_s += wait_s
        newest = int((now_s - 5.0 - looks[0][0]) // 1.0)
        seen.setdefault(newest, []).append(np.array(values))
        window = window.take(np.array(values), now_s, 1.0, least=least)
        found = window.least() if least else window.greatest()
        inside = [v for at, vs in seen.items() if at > newest - buckets for v in vs]
        pick = np.fmin if least else np.fmax
        np.testing.assert_array_equal(found, pick.reduce([np.full(3, np.nan), *inside]))
    forgotten = window.forget(np.array([True, False, False]))
    assert np.isnan(forgotten.least()[0])
    np.testing.assert_array_equal(forgotten.least()[1:], window.least()[1:])
