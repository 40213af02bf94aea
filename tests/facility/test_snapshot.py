"""A frozen image tells of every point what its newest scan told, unless that is stale."""

from __future__ import annotations

import math
import random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from facility.points import (
    BAD_STALE,
    BAD_TIMEOUT,
    Grade,
    Layout,
    PointId,
    PointSpec,
    PointTable,
    Scan,
)
from facility.snapshot import LiveImage


def _by_the_law(table: PointTable, scans: list[Scan], now_s: float) -> tuple[bytes, bytes, bytes]:
    """Values, quality and ages point by point, as the law says it."""
    values, packed = [math.nan] * len(table), [BAD_TIMEOUT] * len(table)
    ages = [math.inf] * len(table)
    for scan in scans:
        start = table.offsets[scan.layout.key]
        for i, (value, grade) in enumerate(zip(scan.values, scan.quality, strict=True)):
            values[start + i], packed[start + i] = float(value), int(grade)
            ages[start + i] = max(now_s - scan.monotonic_s, 0.0)
    for i, spec in enumerate(table.specs):
        if ages[i] > spec.stale_after_s and packed[i] & 0b11 != Grade.BAD:
            values[i], packed[i] = math.nan, BAD_STALE
    return np.array(values).tobytes(), bytes(packed), np.array(ages).tobytes()


@given(st.integers(0, 2**32 - 1))
def test_a_frozen_image_is_what_the_law_says_of_every_point(seed: int) -> None:
    rng = random.Random(seed)
    layouts = [
        Layout(
            f"d{d}",
            "fast",
            tuple(
                PointSpec(PointId(f"d{d}", f"p{i}", "temperature"), 0.0, 1.0, rng.uniform(1.0, 9.0))
                for i in range(rng.randint(1, 4))
            ),
        )
        for d in range(6)
    ]
    table = PointTable.of(layouts)
    image, scans = LiveImage(table), []
    for _ in range(rng.randint(0, 9)):
        layout = rng.choice(layouts)
        n = len(layout)
        grades = [rng.choice([0, 1, BAD_TIMEOUT]) for _ in range(n)]
        values = [math.nan if g == BAD_TIMEOUT else rng.random() for g in grades]
        at_s = rng.uniform(0.0, 10.0)
        quality = np.array(grades, dtype=np.uint8)
        scans.append(Scan(layout, np.array(values), quality, 5, 6, at_s))
        image.update(scans[-1])
    frozen = image.freeze(7, 10.0)
    values_, packed_, ages_ = _by_the_law(table, scans, 10.0)
    assert frozen.values.tobytes() == values_
    assert frozen.quality.tobytes() == packed_
    assert frozen.ages_s.tobytes() == ages_
