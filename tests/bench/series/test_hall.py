"""The bench's hall is what the bench says it is."""

from __future__ import annotations

import numpy as np

from facility.store.chunks import Columns, Head, encode
from tests.bench.series.hall import JITTER_MS, START_MS, Hall, scans_of


def test_twenty_thousand_points_a_fifth_of_them_constant_at_most() -> None:
    hall = Hall(1)
    assert hall.points == 20_000 == sum(map(len, hall.layouts))
    assert hall.constants <= 0.2 * hall.points


def test_noise_and_jitter_are_what_the_table_says_and_a_seed_gives_the_same_again() -> None:
    hall, again = Hall(7, devices=1), Hall(7, devices=1)
    times, values = hall.stretch(600)
    for mine, theirs in zip((times, values), again.stretch(600), strict=True):
        assert np.array_equal(mine, theirs)
    specs = [spec for layout in hall.layouts for spec in layout.points]
    power = [i for i, s in enumerate(specs) if s.id.kind == "active_power" and "gpu" in s.id.part]
    spread = np.diff(values[power], axis=1).std(axis=1) / np.sqrt(2)
    assert len(power) == 8
    assert ((spread > 10) & (spread < 20)).all()
    assert (values[power] == np.rint(values[power])).all()
    cold = [i for i, s in enumerate(specs) if s.id.kind == "temperature"]
    spread = np.diff(values[cold], axis=1).std(axis=1) / np.sqrt(2)
    assert (np.abs(spread - 0.1) < 0.03).all()
    energy = [i for i, s in enumerate(specs) if s.id.kind == "energy"]
    assert (np.diff(values[energy], axis=1) >= 0).all()
    assert abs(np.diff(times, axis=1).std() / np.sqrt(2) - JITTER_MS) < 0.5
    assert (np.diff(times, axis=1) > 0).all()
    assert times.min() >= START_MS
    assert times.max() < START_MS + 600_000


def test_every_scan_of_a_stretch_goes_through_a_chunk_unharmed() -> None:
    hall = Hall(3, only="cdu", devices=1)
    times, values = hall.stretch(120)
    seconds = list(scans_of(hall.layouts, times, values))
    assert [scan.source_ms for (scan,) in seconds] == times[0].tolist()
    quality = np.zeros(values.shape, dtype=np.uint8)
    packed = encode(Columns(times[0], times[0], values, quality))
    back = Head(packed.head).columns(packed.body)
    assert np.array_equal(back.values, values)
    assert np.array_equal(back.values[:, 5], seconds[5][0].values)
