"""The numbers in many raws at once: what `compiled` takes apart with numpy.

Each kind of raw has a reader, made once for the points of a layout. It finds the plain cases and
names the odd ones, which the codec looks at one by one.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from drivers.profile.binding import BoundPoint, ModbusAt
from drivers.profile.codec import Answer
from facility.points import FloatArray, IntArray

BoolArray = npt.NDArray[np.bool_]

#: every whole number below it is exactly a float64, so that comparing floats compares numbers
EXACT: Final = 2.0**53
_PLAIN: Final = frozenset({int, float})
_NONE: Final[tuple[int, ...]] = ()
_SIZES: Final = {"u16": 2, "s16": 2, "u32": 4, "s32": 4, "f32": 4, "u64": 8, "s64": 8, "f64": 8}


class Numbers(NamedTuple):
    """What raws hold, before any scaling.

    Attributes:
        values: float64[n]; of no meaning where a point is odd or a sentinel was found.
        sentinels: bool[n], whether the raw is a word for "no value"; None: nowhere.
        odd: points that are to be decoded one by one.
    """

    values: FloatArray
    sentinels: BoolArray | None
    odd: Sequence[int]


Reader = Callable[[Sequence[Answer]], Numbers]


def reader_of(points: Sequence[BoundPoint]) -> Reader:
    """A reader for raws in the order of the points."""
    if all(isinstance(point.at, ModbusAt) for point in points):
        return Registers(points)
    return Scalars(points)


class Scalars:
    """Reads ints and floats, as SNMP and JSON carry them."""

    def __init__(self, points: Sequence[BoundPoint]) -> None:
        self._sentinels = _table([_numeric(point) for point in points])

    def __call__(self, raws: Sequence[Answer]) -> Numbers:
        """Numbers of raws; texts, booleans, flaws and the very large are odd."""
        odd: Sequence[int] = _NONE
        plain: Sequence[Answer] = raws
        if not _PLAIN.issuperset(map(type, raws)):
            odd = [i for i, raw in enumerate(raws) if type(raw) not in _PLAIN]
            plain = list(raws)
            for i in odd:
                plain[i] = 0
        try:
            values = np.array(plain, dtype=np.float64)
        except OverflowError:
            return Numbers(np.zeros(len(raws)), None, range(len(raws)))
        hits = None
        for row in self._sentinels:
            hit = values == row
            if hit.any():
                hits = hit if hits is None else hits | hit
        fine = np.abs(values) < EXACT
        if not fine.all():
            odd = [*odd, *np.flatnonzero(~fine).tolist()]
            values[~fine] = 0.0
        return Numbers(values, hits, odd)


class _Group:
    """Points of one register type: which bytes of the layout's registers are theirs."""

    def __init__(self, kind: str, members: Sequence[tuple[int, int, BoundPoint]]) -> None:
        """Take (place in the layout, first register in the raws, point) of each member."""
        self.at = np.array([i for i, _, _ in members], dtype=np.int64)
        size = _SIZES.get(kind, 2)
        self.octets = np.array([_octets(start, size, p) for _, start, p in members], dtype=np.int64)
        self._form = ">" + {"u": "u", "s": "i", "f": "f", "b": "u"}[kind[0]] + str(size)
        self._pattern = f">u{size}"
        bits = 8 * size
        points = [p for _, _, p in members]
        if kind == "bit":
            shifts = [p.at.where.bit if isinstance(p.at, ModbusAt) else None for p in points]
            self._shift = np.array([s or 0 for s in shifts], dtype=np.uint16)
            self._mask = np.array([0xFFFF if s is None else 1 for s in shifts], dtype=np.uint16)
            self._sentinels = _table([_numeric(p) for p in points])
        else:
            self._words = _patterns([_numeric(p) for p in points], bits)
        self._is_bit = kind == "bit"

    def numbers(self, octets: npt.NDArray[np.uint8]) -> tuple[FloatArray, BoolArray | None]:
        """float64[m] of the group, and where its raws are sentinels."""
        raw = octets[self.octets]
        if self._is_bit:
            word = raw.view(">u2")[:, 0].astype(np.uint16)
            values = (((word >> self._shift) & self._mask) != 0).astype(np.float64)
            return values, _any([values == row for row in self._sentinels])
        with np.errstate(invalid="ignore"):  # a signalling NaN is as good as any other
            values = raw.view(self._form)[:, 0].astype(np.float64)
        if not self._words:
            return values, None
        pattern = raw.view(self._pattern)[:, 0]
        return values, _any([(pattern == row) & has for row, has in self._words])


class Registers:
    """Reads registers and bits of all types and orders; texts are odd."""

    def __init__(self, points: Sequence[BoundPoint]) -> None:
        counts = [p.at.count for p in points if isinstance(p.at, ModbusAt)]
        self._counts = counts
        self._blank = [(0,) * count for count in counts]
        self._format = f">{sum(counts)}H"
        self._texts: list[int] = []
        groups: dict[str, list[tuple[int, int, BoundPoint]]] = {}
        start = 0
        for i, point in enumerate(points):
            assert isinstance(point.at, ModbusAt)
            kind = point.at.where.type
            if kind == "text":
                self._texts.append(i)
            else:
                groups.setdefault(kind, []).append((i, start, point))
            start += point.at.count
        self._groups = [_Group(kind, members) for kind, members in groups.items()]

    def __call__(self, raws: Sequence[Answer]) -> Numbers:
        """Numbers of raws; what is no registers of the type's count is odd."""
        odd = self._texts
        words = [raw for raw in raws if type(raw) is tuple]
        if len(words) < len(raws) or list(map(len, words)) != self._counts:
            words = []
            odd = list(odd)
            for i, (raw, count) in enumerate(zip(raws, self._counts, strict=True)):
                if type(raw) is tuple and len(raw) == count:
                    words.append(raw)
                else:
                    words.append(self._blank[i])
                    odd.append(i)
        values = np.zeros(len(raws))
        try:
            data = struct.pack(self._format, *chain.from_iterable(words))
        except struct.error:
            return Numbers(values, None, range(len(raws)))
        octets = np.frombuffer(data, dtype=np.uint8)
        hits = None
        for group in self._groups:
            values[group.at], hit = group.numbers(octets)
            if hit is not None and hit.any():
                hits = np.zeros(len(raws), dtype=np.bool_) if hits is None else hits
                hits[group.at] = hit
        fine = np.abs(values) < EXACT
        if not fine.all():
            values[~fine] = 0.0
            if hits is not None:
                fine |= hits
            odd = [*odd, *np.flatnonzero(~fine).tolist()]
        return Numbers(values, hits, odd)


def _numeric(point: BoundPoint) -> list[int]:
    return [s for s in point.entry.sentinels if not isinstance(s, str)]


def _table(sentinels: Sequence[Sequence[int]]) -> list[FloatArray]:
    """Rows that raws are compared with; NaN, which equals nothing, where a point has no more."""
    most = max(map(len, sentinels), default=0)
    rows = [[float(s[k]) if k < len(s) else np.nan for s in sentinels] for k in range(most)]
    return [np.array(row) for row in rows]


def _patterns(
    sentinels: Sequence[Sequence[int]], bits: int
) -> list[tuple[npt.NDArray[np.uint64], BoolArray]]:
    """The same as bit patterns, with which points have one."""
    most = max(map(len, sentinels), default=0)
    return [
        (
            np.array([s[k] % (1 << bits) if k < len(s) else 0 for s in sentinels], dtype=np.uint64),
            np.array([k < len(s) for s in sentinels]),
        )
        for k in range(most)
    ]


def _any(hits: Sequence[BoolArray]) -> BoolArray | None:
    return np.logical_or.reduce(hits) if hits else None


def _octets(start: int, size: int, point: BoundPoint) -> IntArray:
    """Where the bytes of a number stand among the registers, most significant first."""
    assert isinstance(point.at, ModbusAt)
    where = point.at.where
    words = np.arange(start, start + size // 2)
    if where.word_order == "little":
        words = words[::-1]
    # A bit is counted in the register as it came, whatever the order of numbers.
    pairs = (1, 0) if where.byte_order == "little" and where.type != "bit" else (0, 1)
    return np.array([2 * word + octet for word in words for octet in pairs], dtype=np.int64)
