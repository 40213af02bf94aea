"""The live image of the plant, and frozen copies of it.

Collectors write scans into the image by slice; the control cycle freezes it. Everything that
decides works on a `Snapshot`, never on the image.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

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
        scanned_s, scanned_ms: float64[K], int64[K], when each layout was last received: monotonic
            seconds (-inf: never) and UTC ms.
    """

    table: PointTable
    number: int
    last_scan: int
    now_ms: int
    now_s: float
    values: FloatArray
    quality: ByteArray
    scanned_s: FloatArray
    scanned_ms: IntArray

    @cached_property
    def ages_s(self) -> FloatArray:
        """float64[N]: seconds since each point was received; inf if it never was."""
        return self.ages_of(np.arange(len(self.values)))

    def ages_of(self, indexes: IntArray) -> FloatArray:
        """Seconds since the points at `indexes` were received; inf if never, or for an index -1."""
        ages = np.maximum(self.now_s - self.scanned_s[self.table.layout_of[indexes]], 0.0)
        return np.where(indexes >= 0, ages, np.inf)

    def reading(self, point: PointId) -> Reading | None:
        """One point, or None if the site does not have it."""
        i = self.table.index.get(point)
        if i is None:
            return None
        layout = int(self.table.layout_of[i])
        value = float(self.values[i])
        age = max(self.now_s - float(self.scanned_s[layout]), 0.0)
        seen = math.isfinite(age)
        return Reading(
            point,
            value if math.isfinite(value) else None,
            self.table.specs[i].kind.unit,
            grade_of(int(self.quality[i])),
            flaw_of(int(self.quality[i])),
            age if seen else None,
            int(self.scanned_ms[layout]) if seen else None,
        )

    def good(self, indexes: IntArray) -> FloatArray:
        """Values at `indexes`, NaN where not GOOD or where the index is -1."""
        return self._where(indexes, (self.quality[indexes] & 0b11) == int(Grade.GOOD))

    def usable(self, indexes: IntArray) -> FloatArray:
        """Values at `indexes`, NaN where BAD or where the index is -1 (SUSPECT is kept)."""
        return self._where(indexes, (self.quality[indexes] & 0b11) != int(Grade.BAD))

    def _where(self, indexes: IntArray, fine: npt.NDArray[np.bool_]) -> FloatArray:
        """Values at `indexes`, NaN where they are not fine or where the index is -1."""
        out = self.values[indexes]
        out[~fine | (indexes < 0)] = np.nan
        return out


class LiveImage:
    """The newest value of every point; written by collectors, frozen by the cycle."""

    def __init__(self, table: PointTable) -> None:
        n = len(table)
        self.table = table
        self.scans_seen = 0
        self._number = 0
        self._values = np.full(n, np.nan)
        self._quality = np.full(n, BAD_TIMEOUT, dtype=np.uint8)
        layouts = table.layouts
        self._scanned_ms = np.zeros(len(layouts), dtype=np.int64)
        self._scanned_s = np.full(len(layouts), -np.inf)
        self._place = {
            layout.key: (number, start, start + len(layout))
            for number, layout in enumerate(layouts)
            for start in (table.offsets[layout.key],)
        }
        self._silent = {layout.key for layout in layouts}

    @property
    def complete(self) -> bool:
        """Whether every layout has had at least one value since the start."""
        return not self._silent

    def update(self, scan: Scan) -> int:
        """Write one scan by slice; returns its number (counts from 1).

        A BAD scan keeps nothing of the old values: what cannot be read now is unknown now.
        """
        number, start, stop = self._place[scan.layout.key]
        self._values[start:stop] = scan.values
        self._quality[start:stop] = scan.quality
        self._scanned_ms[number] = scan.received_ms
        self._scanned_s[number] = scan.monotonic_s
        if scan.layout.key in self._silent and bool(((scan.quality & 0b11) != Grade.BAD).any()):
            self._silent.discard(scan.layout.key)
        self.scans_seen += 1
        return self.scans_seen

    def freeze(self, now_ms: int, now_s: float) -> Snapshot:
        """A frozen copy in which values past their staleness limit are BAD (STALE) and NaN."""
        self._number += 1
        values, packed = self._values.copy(), self._quality.copy()
        late = now_s - self._scanned_s > self.table.soonest_stale_s
        if late.any():
            at, layout = self.table.points_of(np.flatnonzero(late))
            ages = np.maximum(now_s - self._scanned_s[layout], 0.0)
            known = (packed[at] & 0b11) != int(Grade.BAD)
            stale = at[known & (ages > self.table.stale_after_s[at])]
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
            self._scanned_s.copy(),
            self._scanned_ms.copy(),
        )
