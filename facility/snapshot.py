"""The live image of the plant, and frozen copies of it.

Collectors write scans into the image by slice; the control cycle freezes it. Everything that
decides works on a `Snapshot`, never on the image.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from facility.points import (
    BAD_STALE,
    BAD_TIMEOUT,
    ByteArray,
    Flaw,
    FloatArray,
    Grade,
    IntArray,
    PointId,
    PointTable,
    Scan,
    flaw_of,
    grade_of,
)


@dataclass(frozen=True, slots=True)
class Reading:
    """One point as people see it; a view on a snapshot.

    Attributes:
        value: canonical unit, None when there is none (never 0 for missing).
        age_s: since it was received; None if it never was.
    """

    point: PointId
    value: float | None
    unit: str
    grade: Grade
    flaw: Flaw
    age_s: float | None
    received_ms: int | None

    @property
    def good(self) -> bool:
        """Whether the value may be acted on without a margin for doubt."""
        return self.grade is Grade.GOOD


@dataclass(frozen=True)
class Snapshot:
    """A frozen copy of the image.

    Attributes:
        number: counts from 1 within a run.
        last_scan: number of the last scan in it; with `number` it makes a run replayable.
        now_ms, now_s: the moment of freezing, UTC ms and monotonic seconds.
        values, quality: float64[N], uint8[N] over the point table; staleness already applied.
        ages_s: float64[N]; inf if never received.
    """

    table: PointTable
    number: int
    last_scan: int
    now_ms: int
    now_s: float
    values: FloatArray
    quality: ByteArray
    ages_s: FloatArray
    received_ms: IntArray

    def reading(self, point: PointId) -> Reading | None:
        """One point, or None if the site does not have it."""
        i = self.table.index.get(point)
        if i is None:
            return None
        value, age = float(self.values[i]), float(self.ages_s[i])
        seen = math.isfinite(age)
        return Reading(
            point,
            value if math.isfinite(value) else None,
            self.table.specs[i].kind.unit,
            grade_of(int(self.quality[i])),
            flaw_of(int(self.quality[i])),
            age if seen else None,
            int(self.received_ms[i]) if seen else None,
        )

    def good(self, indexes: IntArray) -> FloatArray:
        """Values at `indexes`, NaN where not GOOD or where the index is -1."""
        out = np.where(indexes >= 0, self.values[indexes], np.nan)
        return np.where((indexes >= 0) & ((self.quality[indexes] & 0b11) == 0), out, np.nan)

    def usable(self, indexes: IntArray) -> FloatArray:
        """Values at `indexes`, NaN where BAD or where the index is -1 (SUSPECT is kept)."""
        out = np.where(indexes >= 0, self.values[indexes], np.nan)
        bad = (self.quality[indexes] & 0b11) == int(Grade.BAD)
        return np.where((indexes >= 0) & ~bad, out, np.nan)


class LiveImage:
    """The newest value of every point; written by collectors, frozen by the cycle."""

    def __init__(self, table: PointTable) -> None:
        n = len(table)
        self.table = table
        self.scans_seen = 0
        self._number = 0
        self._values = np.full(n, np.nan)
        self._quality = np.full(n, BAD_TIMEOUT, dtype=np.uint8)
        self._received_ms = np.zeros(n, dtype=np.int64)
        self._received_s = np.full(n, -np.inf)
        self._silent = {layout.key for layout in table.layouts}

    @property
    def complete(self) -> bool:
        """Whether every layout has had at least one value since the start."""
        return not self._silent

    def update(self, scan: Scan) -> int:
        """Write one scan by slice; returns its number (counts from 1).

        A BAD scan keeps nothing of the old values: what cannot be read now is unknown now.
        """
        start = self.table.offsets[scan.layout.key]
        stop = start + len(scan.layout)
        self._values[start:stop] = scan.values
        self._quality[start:stop] = scan.quality
        self._received_ms[start:stop] = scan.received_ms
        self._received_s[start:stop] = scan.monotonic_s
        if scan.layout.key in self._silent and bool(((scan.quality & 0b11) != Grade.BAD).any()):
            self._silent.discard(scan.layout.key)
        self.scans_seen += 1
        return self.scans_seen

    def freeze(self, now_ms: int, now_s: float) -> Snapshot:
        """A frozen copy in which values past their staleness limit are BAD (STALE) and NaN."""
        self._number += 1
        ages = np.maximum(now_s - self._received_s, 0.0)
        values, packed = self._values.copy(), self._quality.copy()
        stale = (ages > self.table.stale_after_s) & ((packed & 0b11) != int(Grade.BAD))
        values[stale] = np.nan
        packed[stale] = BAD_STALE
        return Snapshot(
            self.table,
            self._number,
            self.scans_seen,
            now_ms,
            now_s,
            values,
            packed,
            ages,
            self._received_ms.copy(),
        )
