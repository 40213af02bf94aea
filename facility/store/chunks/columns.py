"""A stretch of one layout's past as arrays, one row per point."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from facility.points import ByteArray, FloatArray, IntArray


@dataclass(frozen=True)
class Columns:
    """Samples of some points at the same times.

    Attributes:
        times_ms: int64[m], rising; what the scans are filed under.
        received_ms: int64[m]; when we had them.
        values: float64[k, m], canonical units; NaN where missing.
        quality: uint8[k, m]; quality bytes (facility.points).
    """

    times_ms: IntArray
    received_ms: IntArray
    values: FloatArray
    quality: ByteArray

    def __len__(self) -> int:
        return len(self.times_ms)

    @classmethod
    def none(cls, points: int) -> Columns:
        """No samples of that many points."""
        empty = np.zeros(0, dtype=np.int64)
        return cls(empty, empty, np.zeros((points, 0)), np.zeros((points, 0), dtype=np.uint8))

    def where(self, keep: IntArray) -> Columns:
        """Those at the given positions, in that order."""
        return Columns(
            self.times_ms[keep],
            self.received_ms[keep],
            self.values[:, keep],
            self.quality[:, keep],
        )

    def between(self, from_ms: int, to_ms: int) -> Columns:
        """Those with from_ms <= time < to_ms."""
        first, end = np.searchsorted(self.times_ms, (from_ms, to_ms))
        if first == 0 and end == len(self):
            return self
        return self.where(np.arange(first, end))


def merged(earlier: Columns, later: Columns) -> Columns:
    """Both, by time; of two scans at one time the one of `later`."""
    if not len(earlier):
        return later
    if not len(later):
        return earlier
    times = np.concatenate((earlier.times_ms, later.times_ms))
    order = np.argsort(times, kind="stable")
    keep = order[np.append(np.diff(times[order]) != 0, True)]
    return Columns(
        times,
        np.concatenate((earlier.received_ms, later.received_ms)),
        np.concatenate((earlier.values, later.values), axis=1),
        np.concatenate((earlier.quality, later.quality), axis=1),
    ).where(keep)
