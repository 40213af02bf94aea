"""What the embedded store takes in and gives back."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from facility.clock import SystemClock
from facility.store import open_store, upgrade
from tests.facility.store.plant import START_MS, layout, scan

DEVICES, POINTS, SECONDS = 20, 100, 60


def measure() -> dict[str, Any]:
    """Samples a second into SQLite until committed, and how fast a point's past comes back."""
    clock = SystemClock()
    layouts = [layout(f"d{i}", POINTS) for i in range(DEVICES)]
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder) / 'bench.db'}"
        upgrade(url)
        store = open_store(url, clock)
        began_s = clock.monotonic_s()
        for second in range(SECONDS):
            values = np.arange(POINTS) + float(second)
            for each in layouts:
                store.put(scan(each, values, at_ms=START_MS + 1000 * second))
        store.close()
        took_s = clock.monotonic_s() - began_s
        store = open_store(url, clock)
        began_s = clock.monotonic_s()
        past = store.history(layouts[0].points[0].id, START_MS, START_MS + 1000 * SECONDS).result()
        read_s = clock.monotonic_s() - began_s
        store.close()
    assert len(past) == SECONDS
    samples = DEVICES * POINTS * SECONDS
    return {
        "figures": {
            "samples": samples,
            "samples_per_s": samples / took_s,
            "history_ms": 1e3 * read_s,
            "history_samples": len(past),
        }
    }
