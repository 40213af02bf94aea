"""What is measured of our own store, each in its own way."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from facility.points import PointId
from facility.store import Store, open_store
from facility.store.past import Question
from facility.store.rows.chunks import HOUR_MS
from tests.bench.series.hall import START_MS, Hall, scans_of

#: Values are made, untimed, for so many seconds at once.
STRETCH_S = 60
QUEUE_SAMPLES = 4_000_000
DAY_MS = 86_400_000


class BenchClock:
    """The machine's monotonic clock and a wall clock that is told."""

    def __init__(self, ms: int) -> None:
        self.ms = ms

    def utc_ms(self) -> int:
        """As told."""
        return self.ms

    def monotonic_s(self) -> float:
        """The machine's."""
        return time.monotonic()


@dataclass
class Spent:
    """Wall and CPU seconds of this process, and what was done in them."""

    wall_s: float = 0.0
    cpu_s: float = 0.0
    samples: int = 0

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Add what happens inside."""
        began_s, cpu_s = time.perf_counter(), time.process_time()
        yield
        self.wall_s += time.perf_counter() - began_s
        self.cpu_s += time.process_time() - cpu_s

    @property
    def per_s(self) -> float:
        """Samples a second of the wall clock."""
        return self.samples / self.wall_s

    @property
    def cpu_s_per_million(self) -> float:
        """CPU seconds for a million samples."""
        return 1e6 * self.cpu_s / self.samples


@contextmanager
def one_core() -> Iterator[None]:
    """This process, all its threads to come, on one core."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(before)})
    try:
        yield
    finally:
        for thread in os.listdir("/proc/self/task"):
            os.sched_setaffinity(int(thread), before)


def open_bench(url: str, clock: BenchClock) -> Store:
    """A store with room for a stretch."""
    return open_store(url, clock, max_queued_samples=QUEUE_SAMPLES)


def ingest(store: Store, hall: Hall, seconds: int) -> Spent:
    """Put the hall's next seconds and wait until all of them are committed."""
    spent = Spent()
    for start in range(0, seconds, STRETCH_S):
        size = min(STRETCH_S, seconds - start)
        scans = list(scans_of(hall.layouts, *hall.stretch(size)))
        with spent.timed():
            for second in scans:
                for scan in second:
                    store.put(scan)
            store.flush().result()
        spent.samples += size * hall.points
    assert store.stats().dropped_samples == 0
    return spent


def compact(store: Store) -> Spent:
    """Every hour that is over; roll-ups are written with it."""
    spent = Spent()
    with spent.timed():
        done = store.compact(settle_ms=0).result()
    spent.samples = done.samples
    return spent


def stalls(store: Store, hall: Hall, hours_ms: int, clock: BenchClock) -> dict[str, float]:
    """How long a durable write takes while an hour is compacted and scans come as they do."""
    pending = list(scans_of(hall.layouts, *hall.stretch(STRETCH_S)))
    clock.ms = hours_ms
    spans: list[float] = []
    running = store.compact(settle_ms=0)
    began_s = time.perf_counter()
    while not running.done():
        if pending and time.perf_counter() - began_s > STRETCH_S - len(pending):
            for scan in pending.pop(0):
                store.put(scan)
        asked_s = time.perf_counter()
        store.set_meta("bench", str(len(spans))).result()
        spans.append(time.perf_counter() - asked_s)
        time.sleep(0.005)
    done = running.result()
    return {
        "write_stall_ms_p50": 1e3 * float(np.percentile(spans, 50)),
        "write_stall_ms_p99": 1e3 * float(np.percentile(spans, 99)),
        "write_stall_ms_worst": 1e3 * max(spans),
        "write_stall_writes": len(spans),
        "write_stall_compacted_samples": done.samples,
    }


def cool(file: Path) -> None:
    """Let the system forget what it holds of a file."""
    with file.open("rb") as stream:
        os.fsync(stream.fileno())
        os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def day_query(url: str, file: Path, point: PointId, from_ms: int, *, cold: bool = True) -> float:
    """One point, one day of raw samples to numpy, a new store's first question; ms.

    `cold`: the system holds nothing of the file either, so every page comes from the disk.
    """
    spans = []
    for _ in range(5):
        if cold:
            cool(file)
        store = open_bench(url, BenchClock(START_MS + HOUR_MS))
        store.meta("nothing").result()  # opens the connection
        asked_s = time.perf_counter()
        series = store.history(point, from_ms, from_ms + DAY_MS).result()
        spans.append(1e3 * (time.perf_counter() - asked_s))
        assert len(series) == DAY_MS // 1000, len(series)
        store.close()
    return float(np.median(spans))


def rack_week_query(
    store: Store, points: tuple[PointId, ...], from_ms: int, days: int = 7
) -> float:
    """All points of a rack, some days in 15-minute steps; ms, median of five."""
    question = Question(points, from_ms, from_ms + days * DAY_MS, 900.0)
    spans = []
    for _ in range(5):
        asked_s = time.perf_counter()
        answer = store.past(question).result()
        spans.append(1e3 * (time.perf_counter() - asked_s))
        assert all(len(series) == days * 96 for series in answer.series)
    return float(np.median(spans))


def table_bytes(file: Path) -> dict[str, int]:
    """Bytes of chunks with their indexes, and of roll-ups with theirs, in a SQLite file."""
    with sqlite3.connect(file) as connection:
        rows = connection.execute(
            "SELECT s.tbl_name, sum(d.pgsize) FROM dbstat d JOIN sqlite_schema s "
            "ON s.name = d.name GROUP BY s.tbl_name"
        ).fetchall()
    found = {str(name): int(size) for name, size in rows}
    return {
        "chunks": found["chunk"],
        "rollups": found.get("rollup_15m", 0) + found.get("rollup_1d", 0),
    }
