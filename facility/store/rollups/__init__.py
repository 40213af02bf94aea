"""Roll-ups: what a quarter of an hour and a day of the site were, kept for years.

The arithmetic here is pure; `facility.store.rows.rollups` writes and reads the rows.
"""

from __future__ import annotations

from facility.store.rollups.counters import CounterRule, bound, default_rule, difference, rise
from facility.store.rollups.edges import QUARTER_MS, SiteDays, day_edges
from facility.store.rollups.rules import PointRules, RetentionDays, default_rules
from facility.store.rollups.summing import Buckets, summarise

__all__ = [
    "QUARTER_MS",
    "Buckets",
    "CounterRule",
    "PointRules",
    "RetentionDays",
    "SiteDays",
    "bound",
    "day_edges",
    "default_rule",
    "default_rules",
    "difference",
    "rise",
    "summarise",
]
