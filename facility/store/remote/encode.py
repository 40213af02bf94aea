"""Scans as Prometheus remote-write 1.0 requests, column by column.

A request is a snappy block of this message (prompb/remote.proto, version 0.1.0):

    WriteRequest { repeated TimeSeries timeseries = 1; }
    TimeSeries   { repeated Label labels = 1; repeated Sample samples = 2; }
    Label        { string name = 1; string value = 2; }
    Sample       { double value = 1; int64 timestamp = 2; }     timestamp in ms

A series' labels are encoded once per layout. A sample is always 18 bytes, because its time is
written as a six-byte varint whether it needs six or not, so that the samples of a whole batch are
one array.

Missing is never a number: a sample that is BAD, NaN or infinite is left out, and the first one
after a good one is Prometheus' staleness marker, which ends the series at that moment.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import cramjam
import numpy as np
import numpy.typing as npt

from facility.points import ByteArray, FloatArray, Grade, IntArray, Layout, Scan
from facility.store.remote.naming import Naming

#: The NaN that ends a series (prometheus/model/value: StaleNaN).
STALE_BITS: Final = 0x7FF0000000000002
#: A request holds about so many samples at most; Prometheus' own senders stay at 2,000-10,000.
MOST_SAMPLES: Final = 10_000
#: The last moment that six bytes of varint can say, ms (the year 2109).
LAST_MS: Final = (1 << 42) - 1

_SAMPLE: Final = np.dtype(
    [
        ("field", "u1"),  # samples = 2, length-delimited
        ("length", "u1"),
        ("value_field", "u1"),  # value = 1, 64 bit
        ("value", "<u8"),
        ("time_field", "u1"),  # timestamp = 2, varint
        ("time", "u1", (6,)),
    ]
)
_BLANK: Final = np.array((0x12, _SAMPLE.itemsize - 2, 0x09, 0, 0x10, (0,) * 6), dtype=_SAMPLE)
_SHIFTS: Final = np.arange(0, 42, 7, dtype=np.int64)
_GOES_ON: Final = np.array([0x80] * 5 + [0], dtype=np.uint8)


@dataclass(frozen=True, slots=True)
class Request:
    """One request, ready to send.

    Attributes:
        body: snappy block of a WriteRequest.
        samples: in it, staleness markers too.
        first_ms: of its oldest sample.
    """

    body: bytes
    samples: int
    first_ms: int


@dataclass(frozen=True, slots=True)
class Piece:
    """Whole series of one request, not compressed."""

    data: bytes
    samples: int
    first_ms: int


def requests(pieces: Iterable[Piece]) -> Iterator[Request]:
    """Pieces, in order, as requests of up to about MOST_SAMPLES."""
    held: list[Piece] = []
    for piece in pieces:
        held.append(piece)
        if sum(one.samples for one in held) >= MOST_SAMPLES:
            yield _request(held)
            held = []
    if held:
        yield _request(held)


def _request(pieces: Sequence[Piece]) -> Request:
    return Request(
        bytes(cramjam.snappy.compress_raw(b"".join(piece.data for piece in pieces))),
        sum(piece.samples for piece in pieces),
        min(piece.first_ms for piece in pieces),
    )


class Columns:
    """The series of one layout: what never changes, and which of them are alive.

    Attributes:
        last_ms: time of the newest scan encoded; a series never goes back before it.
    """

    def __init__(self, layout: Layout, naming: Naming) -> None:
        series = [naming.series(spec.id) for spec in layout.points]
        self._labels = [_labels(pairs) for pairs, _ in series]
        self._factors = np.array([factor for _, factor in series], dtype=np.float64)
        # What a former run of ours sent last may still pass for the present; so a point that
        # begins with nothing is ended once.
        self._alive = np.ones(len(series), dtype=np.bool_)
        self._heads: dict[int, list[bytes]] = {}
        self.last_ms = -1

    def pieces(
        self, scans: Sequence[Scan], times_ms: IntArray, *, late: bool = False
    ) -> Iterator[Piece]:
        """Scans of this layout, oldest first, times strictly rising.

        Args:
            scans: k of them.
            times_ms: int64[k], within [0, LAST_MS].
            late: from before `last_ms`; they say nothing of what is alive now.
        """
        if not scans or not self._labels:
            return
        values = np.stack([scan.values for scan in scans], axis=1) * self._factors[:, None]
        grades = np.stack([scan.quality for scan in scans], axis=1) & 0b11
        known = (grades != Grade.BAD) & np.isfinite(values)
        ends = np.zeros_like(known)
        if not late:
            before = np.concatenate([self._alive[:, None], known[:, :-1]], axis=1)
            ends = before & ~known
            self._alive = known[:, -1].copy()
            self.last_ms = int(times_ms[-1])
        yield from self._cut(_samples(values, ends, times_ms), known | ends, int(times_ms[0]))

    def _cut(
        self, samples: npt.NDArray[np.void], sent: npt.NDArray[np.bool_], first_ms: int
    ) -> Iterator[Piece]:
        """Pieces of whole series, each up to about MOST_SAMPLES."""
        k = samples.shape[1]
        heads = self._heads_of(k)
        flat = samples.tobytes()
        width = k * _SAMPLE.itemsize
        parts: list[bytes] = []
        inside = 0
        for i, count in enumerate(sent.sum(axis=1).tolist()):
            if count == k:
                parts += (heads[i], flat[i * width : (i + 1) * width])
            elif count:
                head = _head(self._labels[i], count * _SAMPLE.itemsize)
                parts += (head, samples[i][sent[i]].tobytes())
            inside += count
            if inside >= MOST_SAMPLES:
                yield Piece(b"".join(parts), inside, first_ms)
                parts, inside = [], 0
        if inside:
            yield Piece(b"".join(parts), inside, first_ms)

    def _heads_of(self, k: int) -> list[bytes]:
        """Everything before the samples, for series with k of them."""
        known = self._heads.get(k)
        if known is None:
            known = [_head(labels, k * _SAMPLE.itemsize) for labels in self._labels]
            if len(self._heads) < 8:
                self._heads[k] = known
        return known


def _samples(
    values: FloatArray, ends: npt.NDArray[np.bool_], times_ms: IntArray
) -> npt.NDArray[np.void]:
    """[n, k] encoded samples."""
    made: npt.NDArray[np.void] = np.full(values.shape, _BLANK, dtype=_SAMPLE)
    bits = np.ascontiguousarray(values).view(np.uint64)
    made["value"] = np.where(ends, np.uint64(STALE_BITS), bits)
    digits: ByteArray = ((times_ms[:, None] >> _SHIFTS) & 0x7F).astype(np.uint8) | _GOES_ON
    made["time"] = digits[None, :, :]
    return made


def _labels(pairs: Sequence[tuple[str, str]]) -> bytes:
    return b"".join(
        _field(0x0A, _field(0x0A, name.encode()) + _field(0x12, value.encode()))
        for name, value in pairs
    )


def _head(labels: bytes, samples_bytes: int) -> bytes:
    return b"\x0a" + _varint(len(labels) + samples_bytes) + labels


def _field(tag: int, data: bytes) -> bytes:
    return bytes((tag,)) + _varint(len(data)) + data


def _varint(number: int) -> bytes:
    made = bytearray()
    while number > 0x7F:
        made.append(number & 0x7F | 0x80)
        number >>= 7
    made.append(number)
    return bytes(made)
