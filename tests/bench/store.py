"""The store against its bars, and against VictoriaMetrics in the same run.

20,000 points at 1 s for one hour (`series/hall.csv`), one rack's 60 points for a week, and a day
of Frontier's cooling loops where `WATTKEEPER_TRACES` names the folder that has it. Ours runs on
one core; PostgreSQL's server and the peer may use the others. `WATTKEEPER_BENCH_SECONDS` makes the
hour shorter, for a quick look: then the bytes of a sample are worse than they are.
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from facility.points import PointId
from facility.store import upgrade
from facility.store.rows.chunks import HOUR_MS
from tests.bench.series.hall import START_MS, Hall, scans_of
from tests.bench.series.postgres import postgres
from tests.bench.series.runs import (
    DAY_MS,
    STRETCH_S,
    BenchClock,
    compact,
    day_query,
    ingest,
    one_core,
    open_bench,
    rack_week_query,
    stalls,
    table_bytes,
)
from tests.bench.series.trace import trace_file, trace_scans
from tests.bench.series.victoria import Bodies, Victoria, victoria

SECONDS = int(os.environ.get("WATTKEEPER_BENCH_SECONDS", "3600"))
DAYS = max(round(7 * SECONDS / 3600), 1)
WEEK_MS = DAYS * DAY_MS
STALL_SECONDS = SECONDS // 6
POSTGRES_SECONDS = SECONDS // 6
SEED = 20_000


def _rack() -> Hall:
    return Hall(SEED + 1, START_MS - WEEK_MS, only="pdu", devices=1)


def measure() -> dict[str, Any]:
    """Every figure of the issue; missing ones are of what is not installed."""
    with tempfile.TemporaryDirectory(prefix="wk-bench-") as name:
        folder = Path(name)
        figures = _sqlite(folder)
        figures |= _trace(folder)
        figures |= _postgres(folder)
        peers = _victoria(folder)
    return {"figures": figures, "peers": peers, "ratios": _ratios(figures, peers)}


def _sqlite(folder: Path) -> dict[str, Any]:
    file = folder / "hall.db"
    url = f"sqlite:///{file}"
    hall = Hall(SEED)
    clock = BenchClock(START_MS + HOUR_MS)
    with one_core():
        upgrade(url)
        store = open_bench(url, clock)
        took = ingest(store, hall, SECONDS)
        made = compact(store)
        store.close()
    sizes = table_bytes(file)
    store = open_bench(url, clock)
    ingest(store, hall, STALL_SECONDS)
    held = stalls(store, hall, START_MS + 2 * HOUR_MS + HOUR_MS, clock)
    rack = _rack()
    week = ingest(store, rack, WEEK_MS // 1000)
    clock.ms = START_MS + HOUR_MS
    week_made = compact(store)
    points = tuple(spec.id for spec in rack.layouts[0].points)
    rack_week_ms = rack_week_query(store, points, START_MS - WEEK_MS, DAYS)
    store.close()
    return {
        "points": hall.points,
        "constant_points": hall.constants,
        "samples": took.samples,
        "sqlite_ingest_samples_per_s": took.per_s,
        "compaction_samples_per_s": made.per_s,
        "bytes_per_sample": sizes["chunks"] / took.samples,
        "bytes_per_sample_with_rollups": (sizes["chunks"] + sizes["rollups"]) / took.samples,
        "cpu_s_per_million_samples": took.cpu_s_per_million + made.cpu_s_per_million,
        **held,
        "rack_week_samples": week.samples,
        "rack_week_compacted": week_made.samples,
        "query_day_ms": day_query(url, file, points[4], START_MS - DAY_MS),
        "query_day_ms_file_in_memory": day_query(
            url, file, points[4], START_MS - DAY_MS, cold=False
        ),
        "query_rack_week_ms": rack_week_ms,
    }


def _trace(folder: Path) -> dict[str, Any]:
    source = trace_file()
    if source is None:
        return {}
    file = folder / "trace.db"
    clock = BenchClock(START_MS + DAY_MS + HOUR_MS)
    upgrade(f"sqlite:///{file}")
    store = open_bench(f"sqlite:///{file}", clock)
    samples = 0
    for scan in trace_scans(source):
        store.put(scan)
        samples += len(scan.layout)
    store.flush().result()
    assert compact(store).samples == samples
    store.close()
    return {
        "frontier_samples": samples,
        "frontier_bytes_per_sample": table_bytes(file)["chunks"] / samples,
    }


def _postgres(folder: Path) -> dict[str, Any]:
    with postgres(folder) as url:
        if url is None:
            return {}
        hall = Hall(SEED)
        with one_core():
            upgrade(url)
            store = open_bench(url, BenchClock(START_MS))
            took = ingest(store, hall, POSTGRES_SECONDS)
            store.close()
        store = open_bench(url, BenchClock(START_MS + HOUR_MS))
        made = compact(store)
        store.close()
    return {
        "postgresql_ingest_samples_per_s": took.per_s,
        "postgresql_compaction_samples_per_s": made.per_s,
    }


def _victoria(folder: Path) -> dict[str, Any]:
    with victoria(folder) as server:
        if server is None:
            return {}
        hall, rack = Hall(SEED), _rack()
        idle_s = server.cpu_s()
        samples = _feed(server, hall, SECONDS)
        server.settle()
        spent_s, disk = server.cpu_s() - idle_s, server.disk_bytes()
        _feed(server, rack, WEEK_MS // 1000)
        server.settle()
        device = rack.layouts[0]
        day_ms = _median_ms(lambda: _day(server, device.points[4].id))
        week_ms = _median_ms(
            lambda: server.buckets(device.device, START_MS - WEEK_MS, START_MS, 900)
        )
    return {
        "victoria_metrics_cpu_s_per_million_samples": 1e6 * spent_s / samples,
        "victoria_metrics_bytes_per_sample": disk / samples,
        "victoria_metrics_query_day_ms": day_ms,
        "victoria_metrics_query_rack_week_ms": week_ms,
    }


def _feed(server: Victoria, hall: Hall, seconds: int) -> int:
    bodies = Bodies(hall.layouts)
    for start in range(0, seconds, STRETCH_S):
        size = min(STRETCH_S, seconds - start)
        server.write(bodies.of(list(scans_of(hall.layouts, *hall.stretch(size)))))
    return seconds * hall.points


def _day(server: Victoria, point: PointId) -> None:
    found = server.raw(point, START_MS - DAY_MS, START_MS)
    assert len(found) == DAY_MS // 1000, len(found)


def _median_ms(ask: Any) -> float:
    spans = []
    for _ in range(5):
        asked_s = time.perf_counter()
        ask()
        spans.append(1e3 * (time.perf_counter() - asked_s))
    return float(np.median(spans))


def _ratios(figures: dict[str, Any], peers: dict[str, Any]) -> dict[str, float]:
    """Ours over the peer's: below 1 is better than it."""
    return {
        f"{name}_over_victoria_metrics": figures[name] / peers[f"victoria_metrics_{name}"]
        for name in (
            "bytes_per_sample",
            "cpu_s_per_million_samples",
            "query_day_ms",
            "query_rack_week_ms",
        )
        if f"victoria_metrics_{name}" in peers
    }
