"""A device is silent when none of its points can be read, however many layouts it has."""

from __future__ import annotations

import random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from controllers.alarms.reach import _silent
from facility.points import BAD_TIMEOUT
from tests.controllers.toy import Toy, site_of, small_hall


@given(st.integers(0, 2**32 - 1))
def test_the_silent_devices_are_those_of_which_every_point_is_bad(seed: int) -> None:
    site, rng = site_of(small_hall()), random.Random(seed)
    snapshot = Toy(site).snapshot()
    for _, indexes in site.device_points.items():
        bad = rng.choice([0, 1, len(indexes) - 1, len(indexes)])
        snapshot.quality[rng.sample(indexes.tolist(), bad)] = BAD_TIMEOUT
    wanted = [
        device
        for device, indexes in site.device_points.items()
        if bool(((snapshot.quality[indexes] & 0b11) == np.uint8(2)).all())
    ]
    assert _silent(site, snapshot) == wanted
