"""Readings that are not what they say: one alarm of their device."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controllers.alarms.doubts import FROZEN, INCONSISTENT, SUBSTITUTED, doubt_conditions
from tests.controllers.rig import Hall
from tests.controllers.toy import Toy, site_of, small_hall


@pytest.mark.parametrize(
    ("packed", "said"),
    [
        (INCONSISTENT, "contradict each other"),
        (FROZEN, "stand still while their neighbours move"),
        (SUBSTITUTED, "come from another device or source than the file means"),
    ],
)
def test_a_device_of_the_wrong_profile_raised_no_alarm(packed: int, said: str) -> None:
    h = Hall(Toy(site_of(small_hall()), cap_w=300.0))
    h.run(20)
    snapshot = h.toy.snapshot()
    assert doubt_conditions(h.site, snapshot) == []
    told = snapshot.quality.copy()
    told[h.site.device_points["pdu-r01-a"]] = packed
    (alarm,) = doubt_conditions(h.site, replace(snapshot, quality=told))
    assert alarm.key == "readings_doubtful:pdu-r01-a"
    assert said in alarm.text
    # Physics was looked at several times; a second source may be gone in a moment.
    assert alarm.on_delay_s == (None if packed == SUBSTITUTED else 0.0)
