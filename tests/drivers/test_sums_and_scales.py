"""Sums over phases that stand side by side, and scales that a device tells as divisors."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pydantic import ValidationError

from drivers.catalog import profiles
from drivers.profile import PointEntry, Profile, SnmpWhere
from drivers.profile.binding import SnmpAt, bind
from drivers.profile.codec import decode
from facility.points import Flaw, flaw_of


def side_by_side(*polls: str) -> Profile:
    """Three phases whose powers stand in columns of their own."""
    at = "1.3.6.1.4.1.2011.6.174.1.4.100.1.{}.1"
    points = [
        {
            "part": f"output.{i}",
            "kind": "active_power",
            "poll": poll,
            "at": {"snmp": {"oid": at.format(7 + i)}},
        }
        for i, poll in enumerate(polls, 1)
    ]
    return Profile.model_validate(
        {
            "profile": "x/y",
            "title": "x",
            "source": "x",
            "protocol": "snmp",
            "verified": "document",
            "classes": {
                "fast": {"period": "1 s", "stale_after": "5 s"},
                "slow": {"period": "9 s", "stale_after": "60 s"},
            },
            "points": points,
            "sums": [{"part": "total", "kind": "active_power", "of": "output"}],
        }
    )


def test_phases_that_stand_side_by_side_add_up_like_rows() -> None:
    binding = bind(side_by_side("fast", "fast", "fast"), "d")
    (sums,) = binding.sums.values()
    assert [s.members for s in sums] == [(0, 1, 2)]


def test_a_sum_over_two_poll_classes_is_refused() -> None:
    with pytest.raises(ValidationError, match="several poll classes"):
        side_by_side("fast", "slow")


def test_a_divisor_that_a_device_tells_divides() -> None:
    where = {"snmp": {"oid": "1.3.6.1.2.1.1.9.1"}}
    entry = PointEntry.model_validate({"part": "total", "kind": "current", "at": where})
    profile = profiles()["ups/rfc1628"]
    column = (1, 3, 6, 1, 2, 1, 1, 9, 2)
    told = bind(profile, "d").all()[0]
    scale = SnmpAt(SnmpWhere(oid=column), column)
    point = replace(told, entry=entry, digits=scale, factors=(1.0, 0.0), divisor_scale=True)
    assert decode(point, 108, 10).value == pytest.approx(10.8)
    assert decode(point, 108, 1).value == 108.0
    for odd in (0, -10, 10**13):
        assert flaw_of(decode(point, 108, odd).quality) is Flaw.UNDECODABLE
