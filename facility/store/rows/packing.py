"""How scans become bytes, and back, without losing a bit.

A packed scan is one flag byte and a body:

- values, little-endian, in the narrowest form that gives every bit back: whole numbers of 10^-d,
  d = 0…3, in int16 or int32 (`WHOLE`, `SHORT`, `d` in two bits, `TIMES` where a value is the number
  times 10^-d and not the number over 10^d, which differ in the last bit; the least integer stands
  for NaN), float32 (`NARROW`), or float64;
- then one quality byte per point, left out if all are GOOD (`ALL_GOOD`);
- the body deflated at level 1 (`DEFLATED`) where that makes it smaller; bodies under
  `_WORTH_DEFLATING` bytes are not tried, since the saving would not pay for the call.

Raw scans live for an hour or two before compaction turns them into columns, so speed counts for
more here than the last byte; `pack_all` looks at a whole batch at once.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from facility.points import ByteArray, FloatArray, IntArray

NARROW: Final = 1
ALL_GOOD: Final = 2
DEFLATED: Final = 4
_DECIMALS_AT: Final = 3  # the two bits from here
WHOLE: Final = 32
SHORT: Final = 64
TIMES: Final = 128
#: Above it a row of SQLite's clustered table would spill onto a page of its own.
_WORTH_DEFLATING: Final = 900
_TENS: Final = (1.0, 10.0, 100.0, 1000.0)
_NAN_BITS: Final = np.float64("nan").view(np.int64)
_NO_SHORT: Final = np.iinfo(np.int16).min
_NO_LONG: Final = np.iinfo(np.int32).min
_PLAIN_FLAGS: Final = NARROW | ALL_GOOD | DEFLATED
_Numbers = npt.NDArray[Any]
_Bools = npt.NDArray[np.bool_]


def pack(values: FloatArray, quality: ByteArray) -> bytes:
    """Bytes of float64[n] values and uint8[n] quality."""
    return pack_all([(values, quality)])[0]


def pack_all(scans: Sequence[tuple[FloatArray, ByteArray]]) -> list[bytes]:
    """Each scan's bytes, in order; float64[n] values and uint8[n] quality of any lengths."""
    if not scans:
        return []
    lengths = np.array([len(values) for values, _ in scans])
    ends = np.cumsum(lengths)
    starts = ends - lengths
    values = np.concatenate([values for values, _ in scans]).astype("<f8", copy=False)
    quality = np.concatenate([grades for _, grades in scans]).astype(np.uint8, copy=False)
    good = _all(quality == 0, starts, lengths)
    bodies, forms = _narrowest(values, starts, lengths)
    for i in np.flatnonzero(~good).tolist():
        bodies[i] += quality[starts[i] : ends[i]].tobytes()
    flags = (forms | np.where(good, ALL_GOOD, 0)).tolist()
    return [_finished(flag, body) for flag, body in zip(flags, bodies, strict=True)]


def _finished(flag: int, body: bytes) -> bytes:
    if len(body) >= _WORTH_DEFLATING:
        small = zlib.compress(body, 1)
        if len(small) < len(body):
            return bytes((flag | DEFLATED,)) + small
    return bytes((flag,)) + body


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
    left = np.arange(len(starts))
    rest = values
    for note, form in _FORMS:
        sizes = lengths[left]
        begins = np.cumsum(sizes) - sizes
        numbers, fits = form(rest)
        taken = _all(fits, begins, sizes)
        _cut(bodies, left[taken], numbers, begins[taken], sizes[taken])
        flags[left[taken]] = note
        if note & WHOLE:
            nan = numbers == _NO_LONG
            short = taken & _all((np.abs(numbers) < -_NO_SHORT) | nan, begins, sizes)
            halves = np.where(nan, _NO_SHORT, numbers).astype("<i2")
            _cut(bodies, left[short], halves, begins[short], sizes[short])
            flags[left[short]] |= SHORT
        if taken.all():
            break
        rest = rest[np.repeat(~taken, sizes)]
        left = left[~taken]
    return bodies, flags


def _cut(
    bodies: list[bytes], which: IntArray, numbers: _Numbers, begins: IntArray, sizes: IntArray
) -> None:
    """Put the bytes of each stretch of `numbers` in its place."""
    width, buffer = numbers.itemsize, numbers.tobytes()
    ends = ((begins + sizes) * width).tolist()
    for i, begin, end in zip(which.tolist(), (begins * width).tolist(), ends, strict=True):
        bodies[i] = buffer[begin:end]


def _as_tenths(decimals: int, times: bool, values: FloatArray) -> tuple[_Numbers, _Bools]:
    bits = values.view(np.int64)
    with np.errstate(invalid="ignore", over="ignore"):
        near = np.rint(values * _TENS[decimals])
        inside = np.abs(near) < 2.0**31
    numbers = np.where(inside, near, 0.0).astype("<i4")
    fits = (_from_tenths(numbers, decimals, times).view(np.int64) == bits) & inside
    nan = bits == _NAN_BITS
    numbers[nan] = _NO_LONG
    return numbers, fits | nan


def _from_tenths(numbers: _Numbers, decimals: int, times: bool) -> FloatArray:
    wide: FloatArray = numbers.astype(np.float64)
    if decimals:
        wide = wide * (1.0 / _TENS[decimals]) if times else wide / _TENS[decimals]
    return wide


def _as_narrow(values: FloatArray) -> tuple[_Numbers, _Bools]:
    with np.errstate(over="ignore", invalid="ignore"):
        narrow = values.astype("<f4")
    return narrow, narrow.astype("<f8").view(np.int64) == values.view(np.int64)


def _as_they_are(values: FloatArray) -> tuple[_Numbers, _Bools]:
    return values, np.ones(len(values), dtype=bool)


_TENTHS: Final = ((0, False), (1, False), (2, False), (3, False), (1, True), (2, True), (3, True))
#: flags and how to try the form, cheapest result first: numbers, and where each gives its value
#: back bit for bit.
_FORMS: Final[tuple[tuple[int, Callable[[FloatArray], tuple[_Numbers, _Bools]]], ...]] = (
    *(
        (
            WHOLE | decimals << _DECIMALS_AT | (TIMES if times else 0),
            partial(_as_tenths, decimals, times),
        )
        for decimals, times in _TENTHS
    ),
    (NARROW, _as_narrow),
    (0, _as_they_are),
)


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
    alike: dict[int, list[int]] = {}
    for i, data in enumerate(scans):
        if not data:
            raise ValueError("an empty packed scan")
        alike.setdefault(data[0], []).append(i)
    for flags, where in alike.items():
        some = scans if len(alike) == 1 else [scans[i] for i in where]
        bodies = _bodies(flags, some, n)
        values[where], quality[where] = _unpacked(flags, bodies, n)
    return values, quality


def _bodies(flags: int, scans: Sequence[bytes], n: int) -> npt.NDArray[np.uint8]:
    """uint8[m, bytes]: the inflated bodies of scans with the same flags, checked."""
    whole = flags & WHOLE
    if (flags & ~_PLAIN_FLAGS and not whole) or (whole and flags & NARROW):
        raise ValueError(f"a packed scan with unknown flags {flags:#x}")
    due = n * _width(flags) + (0 if flags & ALL_GOOD else n)
    if flags & DEFLATED:
        try:
            scans = [b"\0" + zlib.decompress(data[1:]) for data in scans]
        except zlib.error as error:
            raise ValueError(f"a damaged packed scan: {error}") from error
    for data in scans:
        if len(data) != due + 1:
            raise ValueError(f"a packed scan of {len(data) - 1} bytes where {due} are due")
    return np.frombuffer(b"".join(scans), np.uint8).reshape(len(scans), due + 1)[:, 1:]


def _width(flags: int) -> int:
    if flags & WHOLE:
        return 2 if flags & SHORT else 4
    return 4 if flags & NARROW else 8


def _unpacked(
    flags: int, bodies: npt.NDArray[np.uint8], n: int
) -> tuple[FloatArray, ByteArray | int]:
    width = _width(flags)
    raw = np.ascontiguousarray(bodies[:, : n * width])
    grades = 0 if flags & ALL_GOOD else bodies[:, n * width :]
    if not flags & WHOLE:
        return raw.view("<f4" if flags & NARROW else "<f8").astype(np.float64), grades
    numbers = raw.view("<i2" if flags & SHORT else "<i4")
    wide = _from_tenths(numbers, flags >> _DECIMALS_AT & 0b11, bool(flags & TIMES))
    wide[numbers == (_NO_SHORT if flags & SHORT else _NO_LONG)] = np.nan
    return wide, grades
