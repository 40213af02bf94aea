"""The loop is woken by what a loss looks like on one meter: nothing left, or suddenly much more."""

from __future__ import annotations

import math

import numpy as np
import pytest

from api.service.tripwire import Tripwire
from facility.points import Layout, PointId, PointSpec, Scan

LAYOUT = Layout("pdu", "fast", (PointSpec(PointId("pdu", "total", "active_power"), 0.0, 1e6),))


def scan(watts: float) -> Scan:
    quality = np.array([2 if math.isnan(watts) else 0], dtype=np.uint8)
    return Scan(LAYOUT, np.array([watts]), quality, 0, 0, 0.0)


@pytest.mark.parametrize(
    ("after", "wakes"),
    [(100.0, False), (120.0, False), (60.0, False), (190.0, True), (0.0, True), (math.nan, True)],
)
def test_a_step_wakes_and_a_ripple_does_not(after: float, wakes: bool) -> None:
    wire = Tripwire()
    assert not wire.touched_by(scan(100.0))
    assert wire.touched_by(scan(after)) is wakes


def test_a_meter_that_comes_back_from_nothing_wakes_nobody() -> None:
    wire = Tripwire()
    wire.touched_by(scan(math.nan))
    assert not wire.touched_by(scan(100.0))
