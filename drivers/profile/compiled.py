"""The decoding of a whole layout, worked out once and then done with numpy.

`codec.decode` is the reference: what it says of a point, this says too, bit for bit. Only what
meters do all day is done here for all points at once: numbers, scales and offsets, sentinels,
codes, decimals and units that the device tells, plausible ranges. Everything else (texts,
booleans, settings that make no sense, words of a profile that this module does not know) is
handed to the codec point by point.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from drivers.profile.binding import At, BoundPoint, BoundSum, ModbusAt, MqttAt, Places, SnmpAt
from drivers.profile.codec import Answer, Decoded, decode, device_scale, factors_told
from drivers.profile.numbers import Numbers, reader_of
from facility.kinds import Nature
from facility.points import ByteArray, Flaw, FloatArray, Grade, IntArray, grade_of, quality

SENTINEL: Final = quality(Grade.BAD, Flaw.SENTINEL)
UNDECODABLE: Final = quality(Grade.BAD, Flaw.UNDECODABLE)
IMPLAUSIBLE: Final = quality(Grade.SUSPECT, Flaw.IMPLAUSIBLE)
#: words of a profile that are worked out here; a point with any other is left to the codec
_KNOWN: Final = frozenset(
    {"part", "kind", "at", "poll", "table", "scale", "offset", "digits", "unit", "unit_from"}
    | {"codes", "states", "sentinels", "plausible", "absolute", "optional", "write", "wraps_at"}
    | {"simulated"}
)
_KNOWN_AT: Final = {
    ModbusAt: frozenset(
        {"function", "address", "type", "word_order", "byte_order", "bit", "length", "chars"}
        | {"stride"}
    ),
    SnmpAt: frozenset({"oid", "index", "syntax", "otherwise"}),
    MqttAt: frozenset({"topic", "path", "time", "time_as"}),
}
#: texts that are remembered with what they say, before all are forgotten
_MEMORY: Final = 1024
#: qualities by flaw, for answers that are one
_BAD: Final = {flaw: quality(Grade.BAD, flaw) for flaw in Flaw}


class Decoder:
    """Turns the answers to a layout's places into its values and qualities."""

    def __init__(
        self, points: Sequence[BoundPoint], sums: Sequence[BoundSum], places: Places
    ) -> None:
        """Work out once what is the same in each look; `places` holds every place of the points."""
        found = {at: i for i, at in enumerate(places.at)}
        self._points = tuple(points)
        self._at = [found[p.at] for p in points]
        self._straight = self._at == list(range(len(places.at)))
        self._read = reader_of(points)
        self._settings = _Settings(points, found)
        self._scale = np.array([p.entry.scale for p in points])
        self._offset = np.array([p.entry.offset for p in points])
        absolute = [i for i, p in enumerate(points) if p.entry.absolute]
        self._absolute: IntArray = np.array(absolute, dtype=np.int64)
        self._low = np.array([p.spec.low for p in points])
        self._high = np.array([p.spec.high for p in points])
        self._coded = [(i, p.entry.codes) for i, p in enumerate(points) if p.entry.codes]
        states = [i for i, p in enumerate(points) if p.spec.kind.nature is Nature.STATE]
        self._states: IntArray = np.array(states, dtype=np.int64)
        self._sums = tuple(s.members for s in sums)
        self._texts: dict[tuple[int, str | bytes], tuple[float, int]] = {}
        self._others = [i for i, point in enumerate(points) if not _is_known(point)]

    def __call__(self, answers: Sequence[Answer]) -> tuple[FloatArray, ByteArray]:
        """Values float64[n], NaN exactly where BAD, and qualities uint8[n]; sums at the end.

        Args:
            answers: one for each of the places, in their order.
        """
        raws = answers if self._straight else [answers[i] for i in self._at]
        numbers = self._read(raws)
        values, odd = self._scaled(numbers, answers)
        grades = np.zeros(len(values), dtype=np.uint8)
        within = (values >= self._low) & (values <= self._high)
        if not within.all():
            grades[~within] = IMPLAUSIBLE
            lost = ~np.isfinite(values)
            grades[lost] = UNDECODABLE
            values[lost] = np.nan
        if len(self._states):
            codes = values[self._states]
            broken = self._states[codes != np.floor(codes)]
            grades[broken] = UNDECODABLE
            values[broken] = np.nan
        if numbers.sentinels is not None:
            values[numbers.sentinels] = np.nan
            grades[numbers.sentinels] = SENTINEL
        for i in (*odd, *self._others) if self._others else odd:
            values[i], grades[i] = self._alone(i, raws[i], answers)
        return self._summed(values, grades) if self._sums else (values, grades)

    def _scaled(
        self, numbers: Numbers, answers: Sequence[Answer]
    ) -> tuple[FloatArray, Sequence[int]]:
        """Values in canonical units, in the order of operations of the codec."""
        found, odd = numbers.values, numbers.odd
        if len(self._absolute):
            found[self._absolute] = np.abs(found[self._absolute])
        if self._coded:
            unknown = []
            for i, codes in self._coded:
                number = found[i]
                code = codes.get(int(number)) if math.isfinite(number) else None
                if code is None or number != int(number):
                    unknown.append(i)
                else:
                    found[i] = code
            odd = [*odd, *unknown]
        settings = self._settings
        if settings.told_at:
            settings.hear(answers)
            odd = [*odd, *settings.odd]
        values = found * self._scale
        if settings.has_digits:
            values /= settings.divisor
        values += self._offset
        values *= settings.factor
        values += settings.shift
        return values, odd

    def _alone(self, i: int, raw: Answer, answers: Sequence[Answer]) -> tuple[float, int]:
        """One point by the codec."""
        if type(raw) is Flaw:
            return math.nan, _BAD[raw]
        digits, unit = self._settings.of(i, answers)
        # Meters that send numbers as texts send the same few again and again.
        if isinstance(raw, str | bytes) and digits is None and unit is None:
            known = self._texts.get((i, raw))
            if known is not None:
                return known
            if len(self._texts) >= _MEMORY:
                self._texts.clear()
            seen = decode(self._points[i], raw)
            self._texts[i, raw] = seen.value, seen.quality
        else:
            seen = decode(self._points[i], raw, digits, unit)
        return seen.value, seen.quality

    def _summed(self, values: FloatArray, grades: ByteArray) -> tuple[FloatArray, ByteArray]:
        seen = list(map(Decoded, values.tolist(), grades.tolist()))
        sums = [added([seen[i] for i in members]) for members in self._sums]
        return (
            np.append(values, [s.value for s in sums]),
            np.append(grades, np.array([s.quality for s in sums], dtype=np.uint8)),
        )


def _is_known(point: BoundPoint) -> bool:
    known = _KNOWN_AT.get(type(point.at))
    return point.entry.model_fields_set <= _KNOWN and (
        known is None or point.at.where.model_fields_set <= known
    )


def added(members: Sequence[Decoded]) -> Decoded:
    """The sum of readings, as good as the worst of them: a missing line is never counted as 0."""
    worst = max(members, key=lambda d: grade_of(d.quality))
    if grade_of(worst.quality) is Grade.BAD:
        return Decoded(math.nan, worst.quality)
    return Decoded(math.fsum(d.value for d in members), worst.quality)


class _Settings:
    """The decimals and units that a device tells; worked out anew only when they change.

    Attributes:
        told_at: where they stand among the answers.
        has_digits: whether any point has decimals of its own.
        odd: points whose setting makes no sense now.
        divisor, factor, shift: float64[n]; 10^decimals, and scale and offset to canonical units.
    """

    def __init__(self, points: Sequence[BoundPoint], found: dict[At, int]) -> None:
        self._points = points
        self._digits_at = [found[p.digits] if p.digits else None for p in points]
        self._unit_at = [found[p.unit_at] if p.unit_at else None for p in points]
        told = {i for i in (*self._digits_at, *self._unit_at) if i is not None}
        self.told_at = sorted(told)
        self.has_digits = any(p.digits for p in points)
        self.odd: list[int] = []
        self.divisor = np.ones(len(points))
        self.factor = np.array([p.factors[0] for p in points])
        self.shift = np.array([p.factors[1] for p in points])
        self._heard: list[Answer] = []
        self._types: list[type] = []

    def hear(self, answers: Sequence[Answer]) -> None:
        """Take the settings of this look."""
        told = [answers[i] for i in self.told_at]
        types = list(map(type, told))
        if told == self._heard and types == self._types:
            return
        self._heard, self._types, self.odd = told, types, []
        for i, point in enumerate(self._points):
            digits, unit = self.of(i, answers)
            divisor, factors = device_scale(point, digits), factors_told(point, unit)
            if isinstance(divisor, Flaw) or isinstance(factors, Flaw):
                self.odd.append(i)
            else:
                self.divisor[i] = divisor
                self.factor[i], self.shift[i] = factors

    def of(self, i: int, answers: Sequence[Answer]) -> tuple[Answer | None, Answer | None]:
        """Raws of a point's decimals and unit; None where it has none."""
        digits, unit = self._digits_at[i], self._unit_at[i]
        return (
            None if digits is None else answers[digits],
            None if unit is None else answers[unit],
        )
