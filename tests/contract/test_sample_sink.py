"""Every SampleSink takes scans at once and, when it cannot keep up, drops the oldest and counts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from facility.clock import SystemClock
from facility.ports import SampleSink
from facility.store import Store, open_store
from tests.facility.store.plant import START_MS, SteppedClock, layout, scan

PDU = layout()


@pytest.fixture(params=["inline", "threads"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    inline = request.param == "inline"
    clock = SteppedClock() if inline else SystemClock()
    opened = open_store(
        f"sqlite:///{tmp_path / 'hall.db'}", clock, inline=inline, max_queued_samples=4 * 1000
    )
    yield opened
    opened.close()


def test_what_is_put_can_be_read_back_unchanged(store: Store) -> None:
    sink: SampleSink = store
    for second in range(10):
        values = [float(second), 0.1, float("nan"), -1.0]
        sink.put(scan(PDU, values, [0, 1, 2, 0], at_ms=START_MS + second * 1000))
    store.flush().result(10)
    got = store.history(PDU.points[0].id, START_MS, START_MS + 10_000).result(10)
    assert got.mean.tolist() == [float(n) for n in range(10)]
    newest = store.latest([p.id for p in PDU.points]).result(10)
    assert [s.value for s in newest] == [9.0, 0.1, None, -1.0]
    assert [s.quality for s in newest] == [0, 1, 2, 0]


def test_scans_of_no_points_and_of_many_are_taken(store: Store) -> None:
    sink: SampleSink = store
    empty, wide = layout("none", points=0), layout("wide", points=900)
    sink.put(scan(empty, []))
    sink.put(scan(wide, [0.1 * i for i in range(900)]))
    store.flush().result(10)
    last = store.latest([wide.points[899].id]).result(10)[0]
    assert last.value == 0.1 * 899
    assert store.counts().result(10).samples == 900
