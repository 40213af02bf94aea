"""One point's values as bytes: whole numbers of a decimal step where they are that, else floats.

Instruments report 231.4 V, not 231.40000000000001: most columns are whole numbers of 10^-d, and
as such cost what their noise is worth and no more. A value is either q / 10^d or q * 10^-d,
whichever gives back every bit (they differ in the last one); what is neither stays a float.
Columns hold no missing values: those stand in `facility.store.chunks.states`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from pcodec import ChunkConfig, DeltaSpec, ModeSpec, standalone

from facility.points import FloatArray

#: Forms of a column. WHOLE has the decimals in its low three bits.
EMPTY, CONSTANT, DOUBLES, SINGLES = range(4)
WHOLE: Final = 16
TIMES: Final = 8
_DECIMALS: Final = tuple((d, t) for d in range(5) for t in ((TIMES, 0) if d else (0,)))
#: So many samples are looked at before a form is tried on a whole column.
_GLANCE: Final = 16
_FORMS: Final = {EMPTY, CONSTANT, DOUBLES, SINGLES} | {WHOLE | d | t for d, t in _DECIMALS}
#: Above it the sum of two neighbours no longer fits a double's whole numbers.
_GREATEST: Final = 2.0**52
_LEVEL: Final = 8
_AS_IT_IS: Final = ChunkConfig(
    compression_level=_LEVEL, mode_spec=ModeSpec.classic(), delta_spec=DeltaSpec.no_op()
)
_STEPS: Final = ChunkConfig(
    compression_level=_LEVEL, mode_spec=ModeSpec.classic(), delta_spec=DeltaSpec.try_consecutive(1)
)
_ANY: Final = ChunkConfig(compression_level=_LEVEL)
#: Bytes a sample from which it is worth trying everything that pcodec has.
_DEAR: Final = 1.25
_Numbers = npt.NDArray[Any]
_Bools = npt.NDArray[np.bool_]


def pack(values: FloatArray, missing: _Bools | None) -> Iterator[tuple[int, bytes]]:
    """Form and bytes of each row of float64[k, m]; `missing` bool[k, m], None: nothing is."""
    decimals = _decimals(values, missing)
    same = np.zeros(len(values), dtype=bool)
    if values.shape[1]:
        bits = values.view(np.int64)
        same = (bits == bits[:, :1]).all(axis=1)
    for i, row in enumerate(values):
        gone = None if missing is None else missing[i]
        if gone is not None and gone.any():
            row = row[~gone]
            steady = len(row) > 0 and bool((row.view(np.int64) == row.view(np.int64)[0]).all())
        else:
            steady = bool(same[i])
        if not len(row):
            yield EMPTY, b""
        elif steady:
            yield CONSTANT, row[:1].astype("<f8").tobytes()
        elif (form := decimals[i]) is not None:
            yield form, _whole(np.rint(row * 10.0 ** (form & 0b111)))
        else:
            yield _floats(row)


def unpack(form: int, data: bytes, n: int) -> FloatArray:
    """float64[n]: the values of a column.

    Raises:
        ValueError: bytes that `pack` did not make, or of another length.
    """
    if form not in _FORMS:
        raise ValueError(f"a chunk column of unknown form {form}")
    if form == EMPTY:
        numbers: _Numbers = np.zeros(0)
    elif form == CONSTANT:
        if len(data) != 8:
            raise ValueError(f"a constant chunk column of {len(data)} bytes")
        numbers = np.repeat(np.frombuffer(data, "<f8"), n)
    else:
        numbers = from_pco(data)
    if len(numbers) != n:
        raise ValueError(f"a chunk column of {len(numbers)} values where {n} are due")
    wide: FloatArray = numbers.astype(np.float64)
    if form & WHOLE and form & 0b111:
        ten = 10.0 ** (form & 0b111)
        return wide * (1.0 / ten) if form & TIMES else wide / ten
    return wide


def whole_to_pco(numbers: _Numbers) -> bytes:
    """Integers in as few bytes as pcodec finds."""
    least: bytes = min(
        (standalone.simple_compress(numbers, config) for config in (_AS_IT_IS, _STEPS)), key=len
    )
    if len(least) > _DEAR * len(numbers):
        least = min(least, standalone.simple_compress(numbers, _ANY), key=len)
    return least


def from_pco(data: bytes) -> _Numbers:
    """Numbers that were compressed.

    Raises:
        ValueError: damaged bytes.
    """
    try:
        numbers = standalone.simple_decompress(data)
    except (RuntimeError, TypeError) as error:
        raise ValueError(f"a damaged chunk column: {error}") from error
    return np.zeros(0) if numbers is None else numbers


def _decimals(values: FloatArray, missing: _Bools | None) -> list[int | None]:
    """The WHOLE form of each row that has one."""
    forms: list[int | None] = [None] * len(values)
    left = np.arange(len(values))
    rest = values
    for decimals, times in _DECIMALS:
        gone = None if missing is None else missing[left]
        taken = _fits(rest[:, :_GLANCE], gone, decimals, times)
        some = np.flatnonzero(taken)
        gone = None if gone is None else gone[some]
        taken[some] = _fits(rest[some], gone, decimals, times)
        for i in left[taken].tolist():
            forms[i] = WHOLE | decimals | times
        left, rest = left[~taken], rest[~taken]
        if not len(left):
            break
    return forms


def _fits(values: FloatArray, missing: _Bools | None, decimals: int, times: int) -> _Bools:
    """Which rows of float64[k, m] are whole numbers of the form, bit for bit."""
    ten = 10.0**decimals
    with np.errstate(invalid="ignore", over="ignore"):
        near = np.rint(values * ten)
        inside = np.abs(near) < _GREATEST
        back = near * (1.0 / ten) if times else near / ten
        # -0.0 is no whole number: added to 0.0 it changes its bits.
        fits = ((back + 0.0).view(np.int64) == np.ascontiguousarray(values).view(np.int64)) & inside
    if missing is not None:
        fits |= missing[:, : values.shape[1]]
    answer: _Bools = fits.all(axis=1)
    return answer


def _whole(near: FloatArray) -> bytes:
    widest = float(np.abs(near).max())
    kind = np.int16 if widest < 2**15 else np.int32 if widest < 2**31 else np.int64
    return whole_to_pco(near.astype(kind))


def _floats(values: FloatArray) -> tuple[int, bytes]:
    with np.errstate(over="ignore", invalid="ignore"):
        narrow = values.astype(np.float32)
    if np.array_equal(narrow.astype(np.float64).view(np.int64), values.view(np.int64)):
        return SINGLES, standalone.simple_compress(narrow, _ANY)
    return DOUBLES, standalone.simple_compress(np.ascontiguousarray(values), _ANY)
