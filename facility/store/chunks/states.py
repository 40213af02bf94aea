"""Quality bytes and the places of missing values, as runs.

A sample's state is its quality byte, and bit 8 where its value is missing (NaN). Runs go through
the points one after the other, so that points which fail together give equal runs, which deflate
well. All GOOD and nothing missing is no bytes at all.
"""

from __future__ import annotations

import struct
import zlib
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from facility.points import ByteArray

MISSING: Final = 0x100
_COUNT: Final = struct.Struct("<I")
_Bools = npt.NDArray[np.bool_]


def pack(quality: ByteArray, missing: _Bools) -> bytes:
    """Of uint8[k, m] and bool[k, m]."""
    if not quality.any() and not missing.any():
        return b""
    states = quality.astype(np.uint16).ravel()
    states[missing.ravel()] |= MISSING
    ends = np.append(np.flatnonzero(states[1:] != states[:-1]) + 1, len(states))
    lengths = np.diff(ends, prepend=0).astype("<u4")
    runs = states[ends - 1].astype("<u2")
    return zlib.compress(_COUNT.pack(len(runs)) + lengths.tobytes() + runs.tobytes(), 6)


class States:
    """The runs of one chunk of `k` points and `m` scans.

    Raises:
        ValueError: bytes that `pack` did not make, or of another shape.
    """

    def __init__(self, data: bytes, k: int, m: int) -> None:
        self._m = m
        self._quiet = not data
        self._ends: npt.NDArray[Any] = np.array([k * m])
        self._runs: npt.NDArray[Any] = np.zeros(1, dtype=np.uint16)
        if not data:
            return
        try:
            plain = zlib.decompress(data)
            (count,) = _COUNT.unpack_from(plain)
        except (zlib.error, struct.error) as error:
            raise ValueError(f"damaged chunk quality: {error}") from error
        if len(plain) != _COUNT.size + 6 * count:
            raise ValueError(f"chunk quality of {len(plain)} bytes for {count} runs")
        self._ends = np.cumsum(np.frombuffer(plain, "<u4", count, _COUNT.size), dtype=np.int64)
        self._runs = np.frombuffer(plain, "<u2", count, _COUNT.size + 4 * count)
        if not count or self._ends[-1] != k * m:
            raise ValueError(f"chunk quality that does not fill {k} points of {m} scans")

    def of(self, point: int) -> tuple[ByteArray, _Bools | None]:
        """uint8[m] quality of a point, and bool[m] where its values are missing (None: nowhere)."""
        if self._quiet:
            return np.zeros(self._m, dtype=np.uint8), None
        begin, end = point * self._m, (point + 1) * self._m
        first, last = np.searchsorted(self._ends, (begin, end - 1), side="right")
        ends = np.minimum(self._ends[first : last + 1], end) - begin
        states = np.repeat(self._runs[first : last + 1], np.diff(ends, prepend=0))
        missing = states >= MISSING
        return states.astype(np.uint8), missing if missing.any() else None
