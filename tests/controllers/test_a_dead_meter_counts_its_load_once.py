"""A meter that died keeps its last reading until it is stale: its load must not count twice."""

from __future__ import annotations

from controllers.loads import SETTLE_BUCKETS, _settle_s
from tests.controllers.toy import site_of, small_hall


def test_what_settles_outlasts_the_last_reading_of_a_dead_meter() -> None:
    site = site_of(small_hall())
    meters = site.feed_meter[site.feed_meter >= 0]
    stale_s = float(site.table.stale_after_s[meters].max())
    # The newest bucket may only just have begun.
    assert (SETTLE_BUCKETS - 1) * _settle_s(site) > stale_s
