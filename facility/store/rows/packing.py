"""How one scan becomes bytes, and back, without losing a bit.

A packed scan is one flag byte and a body:

- values, little-endian: float32 if every value survives the way there and back bit for bit
  (`NARROW`), else float64;
- then one quality byte per point, left out if all are GOOD (`ALL_GOOD`);
- the body deflated at level 1 (`DEFLATED`) where that makes it smaller; bodies under
  `_WORTH_DEFLATING` bytes are not tried, since the saving would not pay for the call.

Raw scans live for an hour before compaction will turn them into columns, so speed counts for
more here than the last byte.
"""

from __future__ import annotations

import zlib
from typing import Final

import numpy as np

from facility.points import ByteArray, FloatArray

NARROW: Final = 1
ALL_GOOD: Final = 2
DEFLATED: Final = 4
_WORTH_DEFLATING: Final = 256


def pack(values: FloatArray, quality: ByteArray) -> bytes:
    """Bytes of float64[n] values and uint8[n] quality."""
    flags = 0
    wide = np.ascontiguousarray(values, dtype="<f8")
    with np.errstate(over="ignore", invalid="ignore"):
        narrow = wide.astype("<f4")
    if np.array_equal(narrow.astype("<f8").view(np.int64), wide.view(np.int64)):
        flags |= NARROW
        body = narrow.tobytes()
    else:
        body = wide.tobytes()
    if quality.any():
        body += quality.astype(np.uint8, copy=False).tobytes()
    else:
        flags |= ALL_GOOD
    if len(body) >= _WORTH_DEFLATING:
        small = zlib.compress(body, 1)
        if len(small) < len(body):
            return bytes((flags | DEFLATED,)) + small
    return bytes((flags,)) + body


def unpack(data: bytes, n: int) -> tuple[FloatArray, ByteArray]:
    """The float64[n] values and uint8[n] quality of a packed scan.

    Raises:
        ValueError: not a packed scan of `n` points.
    """
    if not data:
        raise ValueError("an empty packed scan")
    flags, body = data[0], data[1:]
    if flags & DEFLATED:
        try:
            body = zlib.decompress(body)
        except zlib.error as error:
            raise ValueError(f"a damaged packed scan: {error}") from error
    width = 4 if flags & NARROW else 8
    expected = n * width + (0 if flags & ALL_GOOD else n)
    if flags > (NARROW | ALL_GOOD | DEFLATED) or len(body) != expected:
        raise ValueError(f"a packed scan of {len(body)} bytes where {expected} are due")
    values = np.frombuffer(body, "<f4" if width == 4 else "<f8", count=n).astype(np.float64)
    if flags & ALL_GOOD:
        return values, np.zeros(n, dtype=np.uint8)
    return values, np.frombuffer(body, np.uint8, count=n, offset=n * width).copy()
