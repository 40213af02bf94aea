"""The same hours of past weeks by the clock on the wall, summer time or not."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

from api.service.past import WEEKS, windows
from controllers.maintenance.forecast import STEP_S

OSLO = ZoneInfo("Europe/Oslo")


def test_the_wall_clock_counts_when_summer_time_has_ended_between() -> None:
    """Winter time began on 2026-10-25: the weeks before it are seven days and an hour away."""
    at = datetime(2026, 11, 6, 2, 0, tzinfo=OSLO)
    found = windows(round(at.timestamp() * 1000), 7200.0, OSLO)
    assert len(found) == WEEKS
    for week, (since_ms, until_ms) in enumerate(found, start=1):
        local = datetime.fromtimestamp(since_ms / 1000, OSLO)
        assert (local.weekday(), local.hour, local.minute) == (at.weekday(), 2, 0), week
        assert until_ms - since_ms == 7_200_000
    assert found[0][0] - found[1][0] != found[1][0] - found[2][0]


def test_a_short_window_is_a_whole_quarter_and_a_long_one_no_more_than_a_week() -> None:
    """Of work from Sunday to Tuesday only the Sunday was looked at."""
    at = round(datetime(2026, 12, 4, 2, 7, tzinfo=OSLO).timestamp() * 1000)
    since_ms, until_ms = windows(at, 60.0, OSLO)[0]
    assert since_ms % round(STEP_S * 1000) == 0
    assert until_ms - since_ms == round(STEP_S * 1000)
    since_ms, until_ms = windows(at, 600.0, OSLO)[0]
    assert until_ms - since_ms == 2 * round(STEP_S * 1000)
    since_ms, until_ms = windows(at - 7 * 60_000, 3 * 86_400.0, OSLO)[0]
    assert until_ms - since_ms == 3 * 86_400_000
    since_ms, until_ms = windows(at - 7 * 60_000, 10 * 86_400.0, OSLO)[0]
    assert until_ms - since_ms == 7 * 86_400_000
