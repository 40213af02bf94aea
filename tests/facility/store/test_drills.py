"""Drills are kept as they go on, and what they prove ends after 30 days."""

from __future__ import annotations

from dataclasses import replace

from facility.drills import PROVES_MS, Drill, shedding, spread
from facility.store import Store
from tests.facility.store.plant import START_MS

RUNNING = Drill("d1", "pdu-b", "ada", "yearly", START_MS)


def done(number: str, p99: float, ended_ms: int = START_MS + 9000) -> Drill:
    report = {"shed_s": {"p50": 0.9, "p99": p99, "max": p99}}
    return Drill(number, "pdu-b", "ada", "yearly", START_MS, ended_ms, "done", report)


def test_a_drill_is_written_again_as_it_goes_on(store: Store) -> None:
    store.save_drill(RUNNING).result()
    assert store.drills().result() == [RUNNING]
    store.save_drill(done("d1", 1.5)).result()
    later = replace(RUNNING, id="d2", started_ms=START_MS + 60_000)
    store.save_drill(later).result()
    assert store.drills().result() == [later, done("d1", 1.5)]
    assert store.drills(limit=1).result() == [later]


def test_the_slowest_drill_of_30_days_times_one_and_a_half_counts() -> None:
    drills = [done("d1", 4.0), done("d2", 6.0), RUNNING]
    found = shedding(drills, START_MS + 10_000)
    assert found is not None
    assert (found.shed_s, found.drills, found.lease_s) == (9.0, 2, 3.5)


def test_no_shed_counts_as_faster_than_five_seconds() -> None:
    found = shedding([done("d1", 0.5)], START_MS + 10_000)
    assert found is not None
    assert (found.shed_s, found.lease_s) == (5.0, 1.5)


def test_old_aborted_failed_and_future_drills_prove_nothing() -> None:
    drill = done("d1", 2.0)
    assert shedding([drill], drill.ended_ms + PROVES_MS - 1 if drill.ended_ms else 0) is not None
    assert shedding([drill], START_MS + 9000 + PROVES_MS) is None
    assert shedding([drill], START_MS) is None
    assert shedding([replace(drill, state="aborted")], START_MS + 10_000) is None
    assert shedding([replace(drill, state="failed")], START_MS + 10_000) is None
    assert shedding([], START_MS) is None


def test_the_p99_is_a_time_that_was_measured() -> None:
    assert spread([3.0, 1.0, 2.0]) == {"p50": 2.0, "p99": 3.0, "max": 3.0}
    assert spread([]) is None


def test_the_log_told_numpys_types_of_a_drill_instead_of_seconds() -> None:
    assert repr(spread([0.5812, 0.2])) == "{'p50': 0.581, 'p99': 0.581, 'max': 0.581}"
