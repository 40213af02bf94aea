"""What a counter counted between two readings: resets, wraps and glitches are no consumption.

A counter only rises, until its register wraps, its device restarts, or a reading is wrong. Each
rule looks at neighbours only, so the sum does not depend on the order in which data arrived.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from facility.kinds import KINDS, Nature
from facility.points import FloatArray, IntArray

#: Meters refresh their registers up to this much later than they are read, seconds.
REFRESH_S: Final = 120.0

#: What no single point can count faster than, in the kind's unit per second, where the site says
#: nothing: 50 MW for energy (the widest plausible power of `facility.kinds`), ten million tokens.
_FASTEST: Final = {"energy": KINDS["active_power"].high / 3600.0}
_FASTEST_ELSE: Final = 1e7

#: A fall of no more than this many steps of the register is a meter that rounds anew, no restart.
STEPS_BACK: Final = 1.5


@dataclass(frozen=True, slots=True)
class CounterRule:
    """How one counter behaves.

    Attributes:
        fastest_per_s: the most it can count in a second, in its unit (rated power: W / 3600).
        resolution: its least step, in its unit.
        wraps_at: the value at which the register starts again from 0; None: it never does.
    """

    fastest_per_s: float
    resolution: float = 0.0
    wraps_at: float | None = None


def is_counter(kind: str) -> bool:
    """Whether a kind only rises, and so has an energy or token delta."""
    known = KINDS.get(kind)  # a database of a newer version may hold kinds of its own
    return known is not None and known.nature is Nature.COUNTER


def default_rule(kind: str) -> CounterRule:
    """The rule where nobody knows better: plausible at most, no wrap."""
    return CounterRule(_FASTEST.get(kind, _FASTEST_ELSE))


def bound(rule: CounterRule, elapsed_s: FloatArray | float) -> FloatArray | float:
    """The most that the counter can have counted, seen from its readings, in its unit.

    Rated power times time; the time is longer by a refresh of the register, and the reading is
    coarse by one step.
    """
    return rule.fastest_per_s * (elapsed_s + REFRESH_S) + rule.resolution


def difference(rule: CounterRule, before: float, after: float, elapsed_s: float) -> float:
    """What was counted between two readings that follow each other, >= 0, in the counter's unit.

    - a rise counts, unless it is more than `bound`: a wrong reading, or a counter set anew;
    - a fall by one step of the register is nothing: there are meters that step back by a count;
    - a fall is a wrap if the register wraps and the distance through it is within `bound`;
    - else the counter started again from 0, and what it shows now counts, if within `bound`.
    """
    most = bound(rule, elapsed_s)
    step = after - before
    if 0.0 > step >= -STEPS_BACK * rule.resolution:
        return 0.0
    if step < 0.0:
        through = step + rule.wraps_at if rule.wraps_at is not None else -1.0
        step = through if 0.0 <= through <= most else after
    return step if 0.0 <= step <= most else 0.0


def rise(rule: CounterRule, times_ms: IntArray, values: FloatArray) -> float:
    """What was counted inside one stretch of readings: the sum of `climbs`."""
    return float(np.sum(climbs(rule, times_ms, values)[1]))


def climbs(
    rule: CounterRule, times_ms: IntArray, values: FloatArray
) -> tuple[IntArray, FloatArray]:
    """What was counted from each reading of a stretch to the next, by `difference`.

    A lone reading outside its two neighbours, which agree with each other, is a glitch and is left
    out first, so that nothing is lost by it. The first and the last reading always stay: they are
    what the neighbouring stretches continue from.

    Args:
        rule: of the counter.
        times_ms: int64[n], rising.
        values: float64[n], finite, GOOD readings only.

    Returns:
        int64[k], float64[k]: when each difference was complete, and what was counted, >= 0.
    """
    if len(values) > 2:
        before, here, after = values[:-2], values[1:-1], values[2:]
        agree = after >= before
        agree &= after - before <= bound(rule, (times_ms[2:] - times_ms[:-2]) / 1000.0)
        lone = agree & ((here < before) | (here > after))
        if lone.any():
            kept = np.append(np.append(True, ~lone), True)
            times_ms, values = times_ms[kept], values[kept]
    most = bound(rule, np.diff(times_ms) / 1000.0)
    steps = np.diff(values)
    fallen = steps < 0.0
    if fallen.any():
        again = values[1:]
        if rule.wraps_at is not None:
            through = steps + rule.wraps_at
            again = np.where((through >= 0.0) & (through <= most), through, again)
        again = np.where(steps >= -STEPS_BACK * rule.resolution, 0.0, again)
        steps = np.where(fallen, again, steps)
    return times_ms[1:], np.where((steps >= 0.0) & (steps <= most), steps, 0.0)
