"""A value that stands still to its last digit while what it must move with moves.

Only pairs that physics couples are compared: power with the current of its part, a whole with its
rows, a supply temperature with its set-point, probes with each other. A neighbour has moved when
the value should have shown it by several steps of its own register, so that coarse steps, steady
loads and idle outlets (0 W) are no fault. What is called frozen is free again once it has moved.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from drivers.physics.finding import COMPLETE, Known, Points, is_unchecked
from drivers.physics.vocabulary import MOVES
from drivers.profile.binding import Binding
from facility.points import FloatArray

#: how long a value stands before it is called frozen: meters may average over minutes, seconds
STANDS_S: Final = 300.0
PROBES_S: Final = 3600.0
#: looks that must have seen it stand
LOOKS: Final = 10
#: steps of its own register by which a value should have moved
STEPS: Final = 6.0
#: least share of its level by which a coupled neighbour must have moved
SHARE: Final = 0.15
#: least move of a probe beside it, and of a set-point, K
PROBE_K: Final = 3.0
SETPOINT_K: Final = 1.0
#: of how many neighbours it takes so many to say so; probes in one air stream may stand
ELECTRIC: Final = ("active_power", "apparent_power", "current")


@dataclass(frozen=True, slots=True)
class Pair:
    """A value and one neighbour.

    Attributes:
        value, neighbour: places in the layout.
        name: `part:kind` of the value, for people; beside: of the neighbour.
        share: the least move of the neighbour as a share of its highest level; 0: none.
        least: the least move of the neighbour in its unit; 0: none.
        carried: the neighbour's move is expected in the value's own unit, not as a share.
        step, beside_step: of their registers; 0: learnt from what they show.
        stands_s: how long the value must stand.
    """

    value: int
    neighbour: int
    part: str
    name: str
    beside: str
    share: float
    least: float
    carried: bool
    step: float
    beside_step: float
    stands_s: float


def pairs_of(points: Points, layout: str, start: int, binding: Binding) -> tuple[Pair, ...]:
    """The coupled pairs within one layout, whose places begin at `start`."""
    here = {key: point for key, point in points.items() if point.layout == layout}
    unchecked = binding.profile.unchecked
    return tuple(
        _pair(points, value, beside, start, how)
        for value, beside, how in _coupled(here)
        if not is_unchecked(MOVES, value[0], unchecked)
    )


_Key = tuple[str, str]
_How = tuple[float, float, bool, float]


def _coupled(here: Points) -> Iterator[tuple[_Key, _Key, _How]]:
    for part, kind in here:
        if here[part, kind].summed:
            continue
        if kind in ELECTRIC:
            for other in ELECTRIC:
                if other != kind and (part, other) in here:
                    yield (part, kind), (part, other), (SHARE, 0.0, False, STANDS_S)
        if kind == "active_power" and part in ("total", "inlet"):
            for row, of in here:
                if of == kind and row.partition(".")[0] in COMPLETE and "." in row:
                    yield (part, kind), (row, of), (0.0, 0.0, True, STANDS_S)
        if kind == "supply_temperature" and (part, "supply_setpoint") in here:
            how = (0.0, SETPOINT_K, False, 2.0 * STANDS_S)
            yield (part, kind), (part, "supply_setpoint"), how
        name, _, row = part.partition(".")
        if kind == "temperature" and row:
            for other, of in here:
                if of == kind and other != part and other.partition(".")[0] == name:
                    yield (part, kind), (other, of), (0.0, PROBE_K, False, PROBES_S)


def _pair(points: Points, value: _Key, beside: _Key, start: int, how: _How) -> Pair:
    one, other = points[value], points[beside]
    return Pair(
        one.place - start,
        other.place - start,
        value[0],
        ":".join(value),
        ":".join(beside),
        *how[:3],
        one.step,
        other.step,
        how[3],
    )


class Frozen:
    """Watches the pairs of one layout; memory of a few numbers a pair."""

    def __init__(self, pairs: tuple[Pair, ...]) -> None:
        self.pairs = pairs
        n = len(pairs)
        self._x = np.array([p.value for p in pairs], dtype=np.intp)
        self._y = np.array([p.neighbour for p in pairs], dtype=np.intp)
        self._share = np.array([p.share for p in pairs])
        self._least = np.array([p.least for p in pairs])
        self._carried = np.array([p.carried for p in pairs], dtype=np.bool_)
        self._stands_s = np.array([p.stands_s for p in pairs])
        step = np.array([p.step for p in pairs])
        beside = np.array([p.beside_step for p in pairs])
        self._known_step = np.where(step > 0.0, step, np.inf)
        self._learns = step <= 0.0
        self._learnt = np.full(n, np.inf)
        self._beside_step = beside
        self._value = np.full(n, np.nan)
        self._since_s = np.full(n, np.inf)
        self._looks = np.zeros(n)
        self._low = np.full(n, np.nan)
        self._high = np.full(n, np.nan)

    def look(self, values: FloatArray, now_s: float) -> list[int]:
        """Take one look; the numbers of the pairs whose value is frozen.

        Args:
            values: of the layout, NaN where nothing can be believed.
            now_s: monotonic.
        """
        x, y = values[self._x], values[self._y]
        moved = x != self._value  # a NaN has moved, too: what was not seen did not stand
        if moved.any():
            step = np.abs(x[moved] - self._value[moved])
            self._learnt[moved] = np.fmin(self._learnt[moved], step)
            self._value[moved] = x[moved]
            self._since_s[moved] = now_s
            self._looks[moved] = 0.0
            self._low[moved] = self._high[moved] = y[moved]
        np.fmin(self._low, y, out=self._low)
        np.fmax(self._high, y, out=self._high)
        self._looks += 1.0
        if now_s - self._since_s.min() < STANDS_S:
            return []
        return self._judged(now_s)

    def _judged(self, now_s: float) -> list[int]:
        stood = (now_s - self._since_s >= self._stands_s) & (self._looks > LOOKS)
        if not stood.any():
            return []
        span, level = self._high - self._low, np.maximum(np.abs(self._high), np.abs(self._low))
        size = np.abs(self._value)
        step = np.where(self._learns, self._learnt, self._known_step)
        share = span / np.maximum(level, 1e-9)
        carried = np.where(self._carried, span, size * share)
        needed = np.where(self._carried, np.maximum(STEPS * step, 0.05 * size), STEPS * step)
        by_share = (self._share > 0.0) & (share >= self._share) & (carried >= needed)
        by_sum = self._carried & (carried >= needed)
        by_move = (self._least > 0.0) & (span >= np.maximum(self._least, 30.0 * step))
        real = span > 3.0 * self._beside_step
        frozen = stood & real & (by_share | by_sum | by_move) & (self._value != 0.0)
        return [int(i) for i in np.flatnonzero(frozen)]

    def words(self, number: int, now_s: float) -> str:
        """`stands at 812 for 6 min, while phase.1:current went from 3.1 to 5`."""
        pair = self.pairs[number]
        minutes = (now_s - self._since_s[number]) / 60.0
        moved = f"{pair.beside} went from {self._low[number]:g} to {self._high[number]:g}"
        return f"{pair.name} stands at {self._value[number]:g} for {minutes:.0f} min, while {moved}"


def agreed(frozen: list[int], pairs: tuple[Pair, ...]) -> dict[str, int]:
    """`part:kind` of what is frozen -> the pair that tells it best.

    Probes stand in air that others do not share: there every neighbour must have moved, and there
    must be two.
    """
    votes: dict[str, list[int]] = {}
    for number in frozen:
        votes.setdefault(pairs[number].name, []).append(number)
    asked = {name: sum(pair.name == name for pair in pairs) for name in votes}
    return {
        name: numbers[0]
        for name, numbers in votes.items()
        if pairs[numbers[0]].stands_s < PROBES_S or len(numbers) == asked[name] >= 2
    }


__all__ = ["Frozen", "Known", "Pair", "agreed", "pairs_of"]
