"""A day of Frontier's 25 cooling loops at 15 s, where the file lies (it is not ours to publish).

`WATTKEEPER_TRACES` names its folder. Columns: `time_s`, watts of each loop, wet bulb.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from facility.points import Layout, PointId, PointSpec, Scan
from tests.bench.series.hall import START_MS

NAME = "frontier-day-25cdu-15s.csv"


def trace_file() -> Path | None:
    """The file, or None where the variable names none."""
    folder = os.environ.get("WATTKEEPER_TRACES")
    found = Path(folder) / NAME if folder else None
    return found if found is not None and found.is_file() else None


def trace_scans(file: Path) -> Iterator[Scan]:
    """Every row as one scan of one device."""
    with file.open() as stream:
        names = stream.readline().strip().split(",")[1:]
        table = np.loadtxt(stream, delimiter=",")
    points = tuple(
        PointSpec(
            PointId("trace", name, "temperature" if name.endswith("_c") else "heat"), -1e9, 1e9
        )
        for name in names
    )
    layout = Layout("trace", "slow", points)
    good = np.zeros(len(points), dtype=np.uint8)
    for row in table:
        at_ms = START_MS + round(1000 * row[0])
        yield Scan(layout, row[1:].copy(), good, at_ms, at_ms, at_ms / 1000.0)
