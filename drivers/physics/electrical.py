"""Laws of voltage, current and power."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from drivers.physics.rules import FIRM, LEAST, MOST, SLACK_VA, TOLERANCE, Values, sizes
from drivers.physics.vocabulary import APPARENT, DELTA, LINES, PARTS, SUM, WITHIN


def times(factor: float) -> str:
    """The phases' factor of a product, in words: what is printed must multiply up."""
    if factor == 1.0:
        return ""
    return " x 3" if factor == 3.0 else " x sqrt(3)"


@dataclass(frozen=True, slots=True)
class Product:
    """Power against voltage times current, at one part.

    Attributes:
        power, volts, amperes: places.
        unit: of the power.
        factors: by how much the product may have to be multiplied.
        steps: of the registers of power, volts and amperes.
    """

    check: str
    part: str
    power: int
    volts: int
    amperes: int
    unit: str
    factors: tuple[float, ...]
    steps: tuple[float, float, float]

    @property
    def members(self) -> tuple[int, ...]:
        """Power, volts, amperes."""
        return self.power, self.volts, self.amperes

    @property
    def equal(self) -> bool:
        """Apparent power is the product; active power only lies within it."""
        return self.check == APPARENT

    def fits(self, low: Values, high: Values) -> bool | None:
        """The power lies where one of the factors puts it."""
        volts, amperes = (
            sizes(low[self.volts], high[self.volts]),
            sizes(low[self.amperes], high[self.amperes]),
        )
        least, most = sizes(low[self.power], high[self.power])
        step, step_v, step_a = self.steps
        product = (volts[1] + 0.5 * step_v) * (amperes[1] + 0.5 * step_a)
        small = max(volts[0] - 0.5 * step_v, 0.0) * max(amperes[0] - 0.5 * step_a, 0.0)
        total = least + most + product + small
        if total != total:
            return None
        slack = SLACK_VA + 0.5 * step
        a, b = (1.0 - TOLERANCE, 1.0 + TOLERANCE) if self.equal else (LEAST, MOST)
        return any(
            a * k * small - slack <= most and least <= b * k * product + slack for k in self.factors
        )

    def firm(self, values: Values) -> bool:
        """The product is well above what rounding explains."""
        return abs(values[self.volts] * values[self.amperes]) > FIRM * SLACK_VA

    def words(self, values: Values) -> str:
        """`300 VA, 1.3 A x 231 V`."""
        volts, amperes = values[self.volts], values[self.amperes]
        fitting = [k for k in self.factors if self._alone(k).fits(values, values)]
        factor = times(fitting[0]) if fitting else ""
        return f"{values[self.power]:g} {self.unit}, {amperes:g} A x {volts:g} V{factor}"

    def _alone(self, factor: float) -> Product:
        return Product(
            self.check,
            self.part,
            self.power,
            self.volts,
            self.amperes,
            self.unit,
            (factor,),
            self.steps,
        )


@dataclass(frozen=True, slots=True)
class Within:
    """Active power is never more than apparent power, and has some share in it."""

    part: str
    active: int
    apparent: int
    steps: tuple[float, float]
    check: ClassVar[str] = WITHIN
    equal: ClassVar[bool] = False

    @property
    def members(self) -> tuple[int, ...]:
        """Active and apparent power."""
        return self.active, self.apparent

    def fits(self, low: Values, high: Values) -> bool | None:
        """P between 0.05 S and 1.05 S."""
        least, most = sizes(low[self.active], high[self.active])
        small, product = sizes(low[self.apparent], high[self.apparent])
        total = least + most + small + product
        if total != total:
            return None
        slack = SLACK_VA + 0.5 * sum(self.steps)
        return LEAST * small - slack <= most and least <= MOST * product + slack

    def firm(self, values: Values) -> bool:
        """There is a load."""
        return abs(values[self.apparent]) > FIRM * SLACK_VA

    def words(self, values: Values) -> str:
        """`250 W of 300 VA`."""
        return f"{values[self.active]:g} W of {values[self.apparent]:g} VA"


@dataclass(frozen=True, slots=True)
class Total:
    """What the parts say together against what the whole says.

    Attributes:
        whole: place of the whole.
        parts: places of the parts.
        name: what the parts are called.
        unit: of all.
        check: `SUM` both ways, or `PARTS` where not every part need have a meter.
        step: sum of the registers' steps.
    """

    check: str
    part: str
    whole: int
    parts: tuple[int, ...]
    name: str
    unit: str
    step: float

    @property
    def members(self) -> tuple[int, ...]:
        """The whole and its parts."""
        return self.whole, *self.parts

    @property
    def equal(self) -> bool:
        """Both ways."""
        return self.check == SUM

    def fits(self, low: Values, high: Values) -> bool | None:
        """The sum is the whole, or no more than it."""
        least, most = sum(low[i] for i in self.parts), sum(high[i] for i in self.parts)
        a, b = low[self.whole], high[self.whole]
        total = least + most + a + b
        if total != total:
            return None
        slack = SLACK_VA + 0.5 * self.step + TOLERANCE * max(abs(a), abs(b))
        return least <= b + slack and (self.check == PARTS or most >= a - slack)

    def firm(self, values: Values) -> bool:
        """There is a load."""
        return abs(values[self.whole]) > FIRM * (SLACK_VA + 0.5 * self.step)

    def words(self, values: Values) -> str:
        """`3 phases 1707 W, total 1701 W`."""
        parts = sum(values[i] for i in self.parts)
        whole = f"{self.part} {values[self.whole]:g} {self.unit}"
        return f"{len(self.parts)} x {self.name} {parts:g} {self.unit}, {whole}"


@dataclass(frozen=True, slots=True)
class Lines:
    """Voltage between two lines against that of one to neutral: sqrt(3), or 2 of a split phase."""

    part: str
    line: int
    phase: int
    steps: tuple[float, float]
    check: ClassVar[str] = LINES
    equal: ClassVar[bool] = True

    @property
    def members(self) -> tuple[int, ...]:
        """Line and phase."""
        return self.line, self.phase

    def fits(self, low: Values, high: Values) -> bool | None:
        """Within the tolerance of sqrt(3) or 2; below 20 V nothing is on."""
        a, b = low[self.line], high[self.line]
        c, d = low[self.phase], high[self.phase]
        total = a + b + c + d
        if total != total:
            return None
        slack = 20.0 + self.steps[0] + 2.0 * self.steps[1]
        return any(
            a <= (1.0 + TOLERANCE) * k * d + slack and b >= (1.0 - TOLERANCE) * k * c - slack
            for k in (math.sqrt(3.0), 2.0)
        )

    def firm(self, values: Values) -> bool:
        """The supply is on."""
        return values[self.phase] > 60.0

    def words(self, values: Values) -> str:
        """`398 V between lines, 230 V to neutral`."""
        return f"{values[self.line]:g} V between lines, {values[self.phase]:g} V to neutral"


@dataclass(frozen=True, slots=True)
class Delta:
    """The current of a conductor against those of the two legs that meet in it.

    At like power factors I = sqrt(a^2 + b^2 + a b): sqrt(3) a in balance, a if the other is idle.
    Where the phases are of a star (nobody says which), a conductor carries what its phase does.
    """

    part: str
    line: int
    legs: tuple[int, int]
    step: float
    check: ClassVar[str] = DELTA
    equal: ClassVar[bool] = False
    spread: ClassVar[float] = 0.25

    @property
    def members(self) -> tuple[int, ...]:
        """Conductor and legs."""
        return self.line, *self.legs

    def fits(self, low: Values, high: Values) -> bool | None:
        """Within a quarter: power factors of the legs differ."""
        one, other = self.legs
        least = _delta(low[one], low[other]) * (1.0 - self.spread)
        most = _delta(high[one], high[other]) * (1.0 + self.spread)
        total = least + most + low[self.line] + high[self.line]
        if total != total:
            return None
        slack = 0.2 + 2.0 * self.step
        a, b = low[self.line] - slack, high[self.line] + slack
        star = low[one] * (1.0 - self.spread) <= b and a <= high[one] * (1.0 + self.spread)
        return star or (least <= b and a <= most)

    def firm(self, values: Values) -> bool:
        """Some amperes flow."""
        return values[self.line] > 1.0 + 8.0 * self.step

    def words(self, values: Values) -> str:
        """`12.55 A from legs of 7.25 A and 7.23 A`."""
        one, other = (values[i] for i in self.legs)
        return f"{values[self.line]:g} A from legs of {one:g} A and {other:g} A"


def _delta(a: float, b: float) -> float:
    return math.sqrt(max(a * a + b * b + a * b, 0.0)) if a + b == a + b else math.nan
