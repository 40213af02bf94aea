"""A point of several layouts at one time: the newest layout's sample counts, whoever asks."""

from __future__ import annotations

from facility.points import Layout, PointId, PointSpec
from facility.store import open_store
from facility.store.past import Question
from facility.store.rows.chunks import HOUR_MS, hour_of
from tests.facility.store.plant import START_MS, SteppedClock, scan

HOUR = hour_of(START_MS) + HOUR_MS
A, B = (PointId("d", f"x.{i}", "active_power") for i in range(2))


def layout_of(poll_class: str, *points: PointId) -> Layout:
    return Layout("d", poll_class, tuple(PointSpec(p, -1e9, 1e9) for p in points))


LAYOUTS = (layout_of("slow", B), layout_of("fast", A, B), layout_of("late", A, B))


def test_which_layout_counted_changed_with_the_points_asked_for_and_with_compaction() -> None:
    clock = SteppedClock(HOUR + 2 * HOUR_MS)
    store = open_store("sqlite://", clock, inline=True)
    # The third has no sample at the time of the other two.
    for n, (layout, at_ms) in enumerate(zip(LAYOUTS, (HOUR, HOUR, HOUR + 1000), strict=True)):
        store.put(scan(layout, [float(n)] * len(layout), at_ms=at_ms))
        store.flush().result()
    for _ in range(2):
        assert store.history(B, HOUR, HOUR + HOUR_MS).result().mean.tolist() == [1.0, 2.0]
        for points in ((B,), (A, B), (B, A)):
            for step_s in (900.0, None):
                question = Question(points, HOUR, HOUR + 900_000, step_s)
                series = {s.point: s for s in store.past(question).result().series}
                assert series[B].first[0] == 1.0, (points, step_s)
                assert series[B].last[-1] == 2.0
        store.compact(settle_ms=0).result()
    store.close()
