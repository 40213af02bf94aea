"""How scans become bytes, and back, without losing a bit.

A packed scan is one flag byte and a body:

- values, little-endian, in the narrowest form that gives every bit back: whole numbers with a
  decimal form (`WHOLE`) in int32 or int16 (`SHORT`), float32 (`NARROW`), or float64. A decimal
  form says what a whole number q stands for, see `_DECIMALS`; it is in the flags, or, where the
  points have different ones (`MIXED`), before the numbers in four bits a point, low half first.
  The least integer stands for NaN;
- then one quality byte per point, left out if all are GOOD (`ALL_GOOD`);
- the body deflated at level 1 (`DEFLATED`) where that makes it smaller; bodies under
  `_WORTH_DEFLATING` bytes are not tried, since the saving would not pay for the call.

Raw scans live for an hour or two before compaction turns them into columns, so speed counts for
more here than the last byte; `pack_all` looks at a whole batch at once.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from operator import itemgetter
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from facility.points import ByteArray, FloatArray, IntArray

NARROW: Final = 1
ALL_GOOD: Final = 2
DEFLATED: Final = 4
WHOLE: Final = 8
SHORT: Final = 16
_FORM_AT: Final = 5  # the three bits from here
MIXED: Final = 7
#: Decimals, and whether the value is q times 10^-decimals, as drivers scale, or q over
#: 10^decimals, as people write: the two differ in the last bit.
_DECIMALS: Final = (
    (0, False),
    (1, True),
    (1, False),
    (2, True),
    (2, False),
    (3, True),
    (3, False),
)
_TENS: Final = np.array([10.0**decimals for decimals, _ in _DECIMALS])
_PARTS: Final = 1.0 / _TENS
_TIMES: Final = np.array([times for _, times in _DECIMALS])
_PLAIN_FLAGS: Final = NARROW | ALL_GOOD | DEFLATED
#: Above it a row of SQLite's clustered table would spill onto a page of its own.
_WORTH_DEFLATING: Final = 900
_NAN_BITS: Final = np.float64("nan").view(np.int64)
_NO_SHORT: Final = np.iinfo(np.int16).min
_NO_LONG: Final = np.iinfo(np.int32).min
_FLAG: Final = [bytes((flag,)) for flag in range(256)]
_Numbers = npt.NDArray[Any]
_Bools = npt.NDArray[np.bool_]


def pack(values: FloatArray, quality: ByteArray) -> bytes:
    """Bytes of float64[n] values and uint8[n] quality."""
    return pack_all([values], [quality])[0]


def pack_all(each: Sequence[FloatArray], grades: Sequence[ByteArray]) -> list[bytes]:
    """Each scan's bytes, in order; float64[n] values and uint8[n] quality of any lengths."""
    if not each:
        return []
    lengths = np.array(list(map(len, each)))
    ends = np.cumsum(lengths)
    starts = ends - lengths
    values = np.concatenate(each).astype("<f8", copy=False)
    quality = np.concatenate(grades).astype(np.uint8, copy=False)
    good = _all(quality == 0, starts, lengths)
    bodies, forms = _narrowest(values, starts, lengths)
    for i in np.flatnonzero(~good).tolist():
        bodies[i] += quality[starts[i] : ends[i]].tobytes()
    flags = (forms | np.where(good, ALL_GOOD, 0)).tolist()
    packed = [_FLAG[flag] + body for flag, body in zip(flags, bodies, strict=True)]
    for i in np.flatnonzero(lengths >= _WORTH_DEFLATING // 8).tolist():
        packed[i] = _deflated(packed[i])
    return packed


def _deflated(data: bytes) -> bytes:
    if len(data) < _WORTH_DEFLATING:
        return data
    small = zlib.compress(data[1:], 1)
    return _FLAG[data[0] | DEFLATED] + small if len(small) < len(data) - 1 else data


def _all(where: _Bools, starts: IntArray, lengths: IntArray) -> _Bools:
    """Whether all of each stretch is true; of an empty one too. They lie end to end."""
    answer = np.ones(len(starts), dtype=bool)
    held = lengths > 0
    if held.any():
        answer[held] = np.logical_and.reduceat(where, starts[held])
    return answer


def _narrowest(
    values: FloatArray, starts: IntArray, lengths: IntArray
) -> tuple[list[bytes], IntArray]:
    """The values of each stretch in the narrowest form that keeps them, and its flags."""
    bodies: list[bytes] = [b""] * len(starts)
    flags = np.zeros(len(starts), dtype=np.int64)
    numbers, forms = _as_whole(values)
    whole = _all(forms < MIXED, starts, lengths)
    nan = numbers == _NO_LONG
    short = whole & _all((np.abs(numbers) < -_NO_SHORT) | nan, starts, lengths)
    _cut(bodies, whole & ~short, numbers, starts, lengths)
    if short.any():
        halves = np.where(nan, _NO_SHORT, numbers).astype("<i2")
        _cut(bodies, short, halves, starts, lengths)
    first = np.zeros(len(starts), dtype=np.int64)
    first[lengths > 0] = forms[starts[lengths > 0]]
    alike = _all(forms == np.repeat(first, lengths), starts, lengths)
    mixed = whole & ~alike
    if mixed.any():
        _put_forms(bodies, mixed, forms, starts, lengths)
    form = np.where(alike, first, MIXED) << _FORM_AT
    flags[whole] = WHOLE | form[whole] | np.where(short[whole], SHORT, 0)
    if not whole.all():
        with np.errstate(over="ignore", invalid="ignore"):
            singles = values.astype("<f4")
        same = singles.astype("<f8").view(np.int64) == values.view(np.int64)
        narrow = ~whole & _all(same, starts, lengths)
        flags[narrow] = NARROW
        _cut(bodies, narrow, singles, starts, lengths)
        _cut(bodies, ~whole & ~narrow, values, starts, lengths)
    return bodies, flags


def _as_whole(values: FloatArray) -> tuple[_Numbers, ByteArray]:
    """int32[n] q and uint8[n] decimal form of each value; MIXED where it has none."""
    numbers = np.zeros(len(values), dtype="<i4")
    forms = np.full(len(values), MIXED, dtype=np.uint8)
    left: Any = slice(None)
    rest = values
    for form, (ten, times) in enumerate(zip(_TENS.tolist(), _TIMES.tolist(), strict=True)):
        with np.errstate(invalid="ignore", over="ignore"):
            near = np.rint(rest * ten)
            back = near * (1.0 / ten) if times else near / ten
            # -0.0 is no whole number: added to 0.0 it changes its bits.
            fits = ((back + 0.0).view(np.int64) == rest.view(np.int64)) & (np.abs(near) < 2.0**31)
        if not form:
            where = np.flatnonzero(fits)
            left = np.flatnonzero(~fits)
        else:
            where, left = left[fits], left[~fits]
        numbers[where] = near[fits]
        forms[where] = form
        rest = rest[~fits]
        if not form:
            nan = rest.view(np.int64) == _NAN_BITS
            numbers[left[nan]] = _NO_LONG
            forms[left[nan]] = 0
            left, rest = left[~nan], rest[~nan]
        if not len(rest):
            break
    return numbers, forms


def _put_forms(
    bodies: list[bytes], which: _Bools, forms: ByteArray, starts: IntArray, lengths: IntArray
) -> None:
    """Put the forms of those stretches, two to a byte, before what stands in their places."""
    sizes = (lengths + 1) // 2
    begins = np.cumsum(sizes) - sizes
    position = np.arange(len(forms)) - np.repeat(starts, lengths)
    place = np.repeat(begins, lengths) + position // 2
    high = position % 2 == 1
    pairs = np.zeros(int(sizes.sum()), dtype=np.uint8)
    pairs[place[~high]] = forms[~high]
    pairs[place[high]] |= forms[high] << 4
    buffer = pairs.tobytes()
    for i, begin, size in zip(
        np.flatnonzero(which).tolist(), begins[which].tolist(), sizes[which].tolist(), strict=True
    ):
        bodies[i] = buffer[begin : begin + size] + bodies[i]


def _cut(
    bodies: list[bytes], which: _Bools, numbers: _Numbers, starts: IntArray, lengths: IntArray
) -> None:
    """Put the bytes of those stretches of `numbers` in their places."""
    width, buffer = numbers.itemsize, numbers.tobytes()
    begins, ends = starts * width, (starts + lengths) * width
    for i, begin, end in zip(
        np.flatnonzero(which).tolist(), begins[which].tolist(), ends[which].tolist(), strict=True
    ):
        bodies[i] = buffer[begin:end]


def unpack(data: bytes, n: int) -> tuple[FloatArray, ByteArray]:
    """The float64[n] values and uint8[n] quality of a packed scan.

    Raises:
        ValueError: not a packed scan of `n` points.
    """
    values, quality = unpack_all([data], n)
    return values[0], quality[0]


def unpack_all(scans: Sequence[bytes], n: int) -> tuple[FloatArray, ByteArray]:
    """The float64[m, n] values and uint8[m, n] quality of packed scans of one layout.

    Raises:
        ValueError: one is not a packed scan of `n` points.
    """
    values = np.empty((len(scans), n), dtype=np.float64)
    quality = np.zeros((len(scans), n), dtype=np.uint8)
    if not all(scans):
        raise ValueError("an empty packed scan")
    flags = np.frombuffer(bytes(map(itemgetter(0), scans)), np.uint8)
    for one in np.flatnonzero(np.bincount(flags)).tolist():
        where = np.flatnonzero(flags == one)
        whole = len(where) == len(scans)
        some = scans if whole else [scans[i] for i in where.tolist()]
        found, grades = _unpacked(one, _bodies(one, some, n), n)
        if whole:
            values, quality[:] = found, grades
        else:
            values[where], quality[where] = found, grades
    return values, quality


def _bodies(flags: int, scans: Sequence[bytes], n: int) -> ByteArray:
    """uint8[m, bytes]: the inflated bodies of scans with the same flags, checked."""
    whole = flags & WHOLE
    if (whole and flags & NARROW) or (not whole and flags & ~_PLAIN_FLAGS):
        raise ValueError(f"a packed scan with unknown flags {flags:#x}")
    due = _forms_width(flags, n) + n * _width(flags) + (0 if flags & ALL_GOOD else n)
    if flags & DEFLATED:
        try:
            scans = [b"\0" + zlib.decompress(data[1:]) for data in scans]
        except zlib.error as error:
            raise ValueError(f"a damaged packed scan: {error}") from error
    if set(map(len, scans)) != {due + 1}:
        wrong = next(len(data) - 1 for data in scans if len(data) != due + 1)
        raise ValueError(f"a packed scan of {wrong} bytes where {due} are due")
    return np.frombuffer(b"".join(scans), np.uint8).reshape(len(scans), due + 1)[:, 1:]


def _width(flags: int) -> int:
    if flags & WHOLE:
        return 2 if flags & SHORT else 4
    return 4 if flags & NARROW else 8


def _forms_width(flags: int, n: int) -> int:
    return (n + 1) // 2 if flags & WHOLE and flags >> _FORM_AT == MIXED else 0


def _unpacked(flags: int, bodies: ByteArray, n: int) -> tuple[FloatArray, ByteArray | int]:
    begin = _forms_width(flags, n)
    end = begin + n * _width(flags)
    raw = np.ascontiguousarray(bodies[:, begin:end])
    grades = 0 if flags & ALL_GOOD else bodies[:, end:]
    if not flags & WHOLE:
        return raw.view("<f4" if flags & NARROW else "<f8").astype(np.float64), grades
    numbers = raw.view("<i2" if flags & SHORT else "<i4")
    forms: ByteArray | int = flags >> _FORM_AT
    if forms == MIXED:
        pairs = bodies[:, :begin]
        forms = np.stack((pairs & 0b111, pairs >> 4 & 0b111), axis=-1).reshape(len(bodies), -1)[
            :, :n
        ]
        if (forms == MIXED).any():
            raise ValueError("a packed scan with an unknown decimal form")
    there = np.zeros(len(_DECIMALS), dtype=bool)
    there[forms] = True
    wide = numbers.astype(np.float64)
    if not (there & ~_TIMES)[1:].any():
        wide *= _PARTS[forms]
    elif not (there & _TIMES).any():
        wide /= _TENS[forms]
    else:
        wide = np.where(_TIMES[forms], wide * _PARTS[forms], wide / _TENS[forms])
    wide[numbers == (_NO_SHORT if flags & SHORT else _NO_LONG)] = np.nan
    return wide, grades
