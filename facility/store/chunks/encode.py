"""From columns to a chunk's bytes.

Head, all little-endian: `_FIXED` (form of the chunk, points k, scans m, lengths of the sections),
then the sections: times (int64[m], pcodec), delays from there to the receive time (the same),
states (runs, see `facility.store.chunks.states`), summary, and the index: uint8[k] form, uint32[k]
length and uint32[k] CRC-32 of each column; last the CRC-32 of all before. Body: the columns, one
after the other. SQLite does not see a flipped bit in a blob, and pcodec would often make other
numbers of it; so every byte stands under a checksum.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from typing import Final

import numpy as np

from facility.store.chunks import numbers, states
from facility.store.chunks.columns import Columns
from facility.store.chunks.summary import Summary

FORM: Final = 1
FIXED: Final = struct.Struct("<BIIIIII")
CRC: Final = struct.Struct("<I")
#: Bytes of the index for each point.
INDEX_WIDTH: Final = 1 + 4 + 4


@dataclass(frozen=True)
class Packed:
    """A chunk as it is stored.

    Attributes:
        scans: how many.
        first_ms, last_ms: times of the first and the last.
    """

    scans: int
    first_ms: int
    last_ms: int
    head: bytes
    body: bytes


def encode(columns: Columns) -> Packed:
    """The chunk of at least one scan; decoding gives every bit back, NaN as one NaN.

    Raises:
        ValueError: no scan at all.
    """
    if not len(columns):
        raise ValueError("a chunk has at least one scan")
    missing = np.isnan(columns.values)
    some = missing if missing.any() else None
    packed = list(numbers.pack(np.ascontiguousarray(columns.values), some))
    sections = (
        numbers.whole_to_pco(columns.times_ms),
        numbers.whole_to_pco(columns.received_ms - columns.times_ms),
        states.pack(columns.quality, missing),
        Summary.of(columns).pack(),
    )
    k, m = columns.values.shape
    head = (
        FIXED.pack(FORM, k, m, *map(len, sections))
        + b"".join(sections)
        + np.array([form for form, _ in packed], dtype=np.uint8).tobytes()
        + np.array([len(data) for _, data in packed], dtype="<u4").tobytes()
        + np.array([zlib.crc32(data) for _, data in packed], dtype="<u4").tobytes()
    )
    return Packed(
        m,
        int(columns.times_ms[0]),
        int(columns.times_ms[-1]),
        head + CRC.pack(zlib.crc32(head)),
        b"".join(data for _, data in packed),
    )
