"""What is known of each point of a chunk without decoding its column."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Final

import numpy as np

from facility.points import FloatArray, Grade, IntArray
from facility.store.chunks.columns import Columns

_COUNTS: Final = 3
_NUMBERS: Final = 5


@dataclass(frozen=True)
class Summary:
    """Arrays over the points of a chunk.

    Attributes:
        good, suspect: int64[k]; samples of that grade; the rest is BAD.
        used: int64[k]; samples that are GOOD and finite, to which the following belong.
        total: float64[k]; their sum, 0 where there is none.
        low, high, first, last: float64[k]; NaN where there is none.
    """

    good: IntArray
    suspect: IntArray
    used: IntArray
    total: FloatArray
    low: FloatArray
    high: FloatArray
    first: FloatArray
    last: FloatArray

    @classmethod
    def of(cls, columns: Columns) -> Summary:
        """Of every point."""
        k, m = columns.values.shape
        values, quality = columns.values, columns.quality
        if m and not quality.any() and np.isfinite(values).all():
            every = np.full(k, m)
            return cls(
                every,
                np.zeros(k, dtype=np.int64),
                every,
                values.sum(axis=1),
                values.min(axis=1),
                values.max(axis=1),
                values[:, 0].copy(),
                values[:, -1].copy(),
            )
        grade = quality & 0b11
        good = grade == int(Grade.GOOD)
        use = good & np.isfinite(values)
        used = use.sum(axis=1)
        nan = np.full(k, np.nan)
        first = last = nan
        if m:
            rows = np.arange(k)
            first = np.where(used > 0, values[rows, use.argmax(axis=1)], nan)
            last = np.where(used > 0, values[rows, m - 1 - use[:, ::-1].argmax(axis=1)], nan)
        low = np.where(use, values, np.inf).min(axis=1, initial=np.inf)
        high = np.where(use, values, -np.inf).max(axis=1, initial=-np.inf)
        return cls(
            good.sum(axis=1),
            (grade == int(Grade.SUSPECT)).sum(axis=1),
            used,
            np.where(use, values, 0.0).sum(axis=1),
            np.where(used > 0, low, nan),
            np.where(used > 0, high, nan),
            first,
            last,
        )

    def pack(self) -> bytes:
        """As bytes; like bytes of like numbers side by side, which deflates well."""
        counts = np.stack((self.good, self.suspect, self.used)).astype("<u4")
        numbers = np.stack((self.total, self.low, self.high, self.first, self.last))
        planes = numbers.astype("<f8").view(np.uint8).reshape(-1, 8).T.tobytes()
        return zlib.compress(counts.tobytes() + planes, 6)

    @classmethod
    def unpack(cls, data: bytes, k: int) -> Summary:
        """Back from `pack`.

        Raises:
            ValueError: not of `k` points.
        """
        try:
            plain = zlib.decompress(data)
        except zlib.error as error:
            raise ValueError(f"a damaged chunk summary: {error}") from error
        if len(plain) != k * (4 * _COUNTS + 8 * _NUMBERS):
            raise ValueError(f"a chunk summary of {len(plain)} bytes for {k} points")
        counts = np.frombuffer(plain, "<u4", _COUNTS * k).reshape(_COUNTS, k).astype(np.int64)
        planes = np.frombuffer(plain, np.uint8, offset=4 * _COUNTS * k).reshape(8, -1)
        numbers = np.ascontiguousarray(planes.T).view("<f8").reshape(_NUMBERS, k)
        return cls(*counts, *numbers.astype(np.float64))
