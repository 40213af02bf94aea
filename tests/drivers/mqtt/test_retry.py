"""Pauses between logins: short for an accident, long where somebody has to act."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from drivers.mqtt.retry import LONGEST_CONTESTED_S, LONGEST_PAUSE_S, LONGEST_REFUSED_S, Retry


def test_a_good_link_that_is_lost_is_tried_again_at_once() -> None:
    retry = Retry(random.Random(1))
    for _ in range(10):
        retry.after(held_s=None, refused=False)
    retry.after(held_s=3600.0, refused=False)
    assert retry.after(held_s=3600.0, refused=False) <= 0.25


def test_a_refused_login_is_tried_ever_more_seldom() -> None:
    """Case 42: a wrong password is not cured by trying it a thousand times."""
    retry = Retry(random.Random(1))
    pauses = [retry.after(held_s=None, refused=True) for _ in range(20)]
    assert min(pauses[10:]) >= 0.5 * LONGEST_REFUSED_S


def test_links_cut_right_after_each_login_are_a_fight_over_a_name() -> None:
    retry = Retry(random.Random(1))
    seen = []
    for _ in range(12):
        pause_s = retry.after(held_s=1.0, refused=False)
        seen.append((retry.contested, pause_s))
    assert [contested for contested, _ in seen[:4]] == [False, False, True, True]
    assert seen[-1][1] >= 0.5 * LONGEST_CONTESTED_S


def test_a_broker_that_restarts_often_is_no_rival() -> None:
    retry = Retry(random.Random(1))
    for _ in range(20):
        retry.after(held_s=1.0, refused=False)
        retry.after(held_s=None, refused=False)
        assert not retry.contested


@given(
    links=st.lists(
        st.tuples(st.none() | st.floats(0.0, 1e6), st.booleans()), min_size=1, max_size=60
    )
)
def test_no_history_makes_a_pause_negative_or_endless(
    links: list[tuple[float | None, bool]],
) -> None:
    retry = Retry(random.Random(1))
    for held_s, refused in links:
        pause_s = retry.after(held_s=held_s, refused=refused)
        assert 0.0 < pause_s <= LONGEST_CONTESTED_S
    assert LONGEST_PAUSE_S < LONGEST_REFUSED_S < LONGEST_CONTESTED_S
