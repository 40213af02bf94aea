"""Clocks of devices that jump, stand, drift; and queues, which look much like them."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from drivers.mqtt.freshness import Freshness, SourceClock
from tests.drivers.agent.rig import START_MS

OF_NOW = {Freshness.FRESH, Freshness.SKEWED}


def heard(messages: Iterable[tuple[float, float]]) -> list[Freshness]:
    """What each (second at which it came, second that it tells) is worth, good for 5 s."""
    clock, found = SourceClock(5.0), []
    for came_s, told_s in messages:
        clock.hear(
            START_MS + int(1000 * told_s), START_MS + int(1000 * came_s), came_s, changed=True
        )
        found.append(clock.judge(came_s))
    return found


def test_values_that_queue_for_a_steady_minute_never_pass_for_values_of_now() -> None:
    """After an outage a gateway sends what it kept at the rate at which new values come in."""
    well = [(float(i), float(i)) for i in range(20)]
    found = heard(well + [(80.0 + i, 20.0 + i) for i in range(300)])
    assert set(found[:20]) == {Freshness.FRESH}
    assert found[20] is Freshness.OLD
    assert not OF_NOW & set(found[20:])
    caught_up = heard([*well, *((80.0 + i, 20.0 + 2 * i) for i in range(60)), (140.0, 140.0)])
    assert caught_up[-1] is Freshness.FRESH


def test_a_queue_that_grows_by_a_tenth_is_not_a_clock_that_drifts() -> None:
    found = heard((float(i), 0.9 * i) for i in range(600))
    assert not OF_NOW & set(found[200:])


def test_a_clock_that_drifts_for_weeks_is_believed() -> None:
    found = heard((float(i), 0.9995 * i) for i in range(40_000))
    assert set(found) == OF_NOW
    assert found[-1] is Freshness.SKEWED


@pytest.mark.parametrize("jump_s", [-3_600.0, 3_600.0, -1e9, 1e9])
def test_a_clock_that_is_set_anew_is_believed_again(jump_s: float) -> None:
    found = heard((float(i), i + (jump_s if i >= 20 else 0.0)) for i in range(60))
    assert found[19] is Freshness.FRESH
    assert found[-1] is Freshness.SKEWED
    back = heard((float(i), i + (jump_s if i == 20 else 0.0)) for i in range(60))
    assert back[-1] is Freshness.FRESH


def test_a_clock_that_stands_while_values_change_is_unsure_and_not_old_for_ever() -> None:
    told_s = -1.7e9  # 1971, as a clock without a battery has it
    assert set(heard((float(i), told_s) for i in range(60))) == {Freshness.UNSURE}
