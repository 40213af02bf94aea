"""Days as the site's clocks count them."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from hypothesis import given
from hypothesis import strategies as st

from facility.store.rollups import QUARTER_MS, SiteDays, day_edges

HOUR_MS = 3_600_000
ZONES = (
    "UTC",
    "Europe/Berlin",
    "America/St_Johns",
    "America/Havana",
    "America/Asuncion",
    "Asia/Kathmandu",
    "Asia/Beirut",
    "Australia/Lord_Howe",
    "Pacific/Apia",
    "Pacific/Chatham",
    "Africa/Cairo",
)
MOMENTS = st.integers(
    round(datetime(2000, 1, 1, tzinfo=UTC).timestamp()) * 1000,
    round(datetime(2037, 1, 1, tzinfo=UTC).timestamp()) * 1000,
)


def ms(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def test_a_year_in_berlin_has_one_day_of_23_and_one_of_25_hours() -> None:
    edges = day_edges(
        ms("2026-01-01T00:00+01:00"), ms("2027-01-01T00:00+01:00"), ZoneInfo("Europe/Berlin")
    )
    hours = [(b - a) / HOUR_MS for a, b in itertools.pairwise(edges)]
    assert len(hours) == 365
    assert {day: h for day, h in enumerate(hours) if h != 24} == {87: 23, 297: 25}
    assert edges[0] == ms("2026-01-01T00:00+01:00")
    assert edges[-1] == ms("2027-01-01T00:00+01:00")


def test_where_the_clocks_skip_midnight_the_day_begins_when_they_do() -> None:
    begin, end = SiteDays("America/Havana").day_of(ms("2026-03-08T12:00-04:00"))
    assert (begin, end) == (ms("2026-03-08T01:00-04:00"), ms("2026-03-09T00:00-04:00"))


def test_a_day_that_a_zone_left_out_is_no_day() -> None:
    edges = SiteDays("Pacific/Apia").edges(
        ms("2011-12-29T12:00-10:00"), ms("2011-12-31T12:00+14:00")
    )
    assert edges == [
        ms("2011-12-29T00:00-10:00"),
        ms("2011-12-31T00:00+14:00"),
        ms("2012-01-01T00:00+14:00"),
    ]


@given(zone=st.sampled_from(ZONES), begin_ms=MOMENTS, days=st.integers(0, 800))
def test_days_touch_each_other_cover_the_range_and_are_whole_quarters(
    zone: str, begin_ms: int, days: int
) -> None:
    end_ms = begin_ms + days * 86_400_000 + 1
    edges = day_edges(begin_ms, end_ms, ZoneInfo(zone))
    assert edges[0] <= begin_ms < edges[1]
    assert edges[-2] < end_ms <= edges[-1]
    for one, other in itertools.pairwise(edges):
        assert 22.5 * HOUR_MS <= other - one <= 25.5 * HOUR_MS
        assert one % QUARTER_MS == 0
        local = [datetime.fromtimestamp(at / 1000, ZoneInfo(zone)) for at in (one, other - 1)]
        assert local[0].date() == local[1].date()
        before = datetime.fromtimestamp((one - 1) / 1000, ZoneInfo(zone))
        assert before.date() < local[0].date()
