"""An energy counter against the integral of the power beside it: factors of ten, dead counters."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from drivers.physics.finding import Points, is_unchecked
from drivers.physics.vocabulary import ENERGY
from drivers.profile import Unchecked

#: how far the two may lie apart: power is looked at now and then, and loads swing
FACTOR: Final = 2.0
#: a window ends once the power would have made so many steps of the counter, and no sooner than
STEPS: Final = 20.0
WINDOW_S: Final = 900.0
#: a look at the power that is older than this makes no claim for the time since, seconds
GAP_S: Final = 90.0
#: windows in a row after which the check has failed
FAILS: Final = 2
#: least energy of a window, Wh: below it registers of unknown step say nothing
LEAST_WH: Final = 50.0


class Counted:
    """One counter and its power; memory of one window."""

    def __init__(
        self, part: str, energy: int, power: int, layout: str, power_layout: str, step: float
    ) -> None:
        """Name the points by their places, and the layouts that they are read with.

        Args:
            part: of both.
            energy: place of the counter.
            power: place of the power.
            layout: key of the counter's layout.
            power_layout: key of the power's layout.
            step: of the counter's register, Wh.
        """
        self.part, self.energy, self.power = part, energy, power
        self.layout, self.power_layout, self.step = layout, power_layout, step
        self.since_ms: int | None = None
        self.detail = ""
        self._failed = 0
        self._begin(math.nan, -math.inf)
        self._power_s = -math.inf
        self._power_w = math.nan

    def _begin(self, counter_wh: float, now_s: float) -> None:
        self._from_wh, self._from_s, self._made_wh = counter_wh, now_s, 0.0

    def look(self, values: Sequence[float], layout: str, now_s: float, now_ms: int) -> bool:
        """Take a look at either layout; whether the check has just failed, or holds again."""
        if layout == self.power_layout:
            self._add(values[self.power], now_s)
        if layout != self.layout:
            return False
        counter_wh = values[self.energy]
        counted_wh = counter_wh - self._from_wh
        if not counted_wh >= 0.0 or not self._made_wh >= 0.0:
            self._begin(counter_wh, now_s)
            return False
        enough = max(STEPS * self.step, LEAST_WH)
        if now_s - self._from_s < WINDOW_S or max(counted_wh, self._made_wh) < enough:
            return False
        slack = 3.0 * self.step
        low, high = self._made_wh / FACTOR - slack, self._made_wh * FACTOR + slack
        fits = low <= counted_wh <= high
        minutes = (now_s - self._from_s) / 60.0
        words = f"{counted_wh:g} Wh in {minutes:.0f} min, the power makes {self._made_wh:.0f} Wh"
        self._begin(counter_wh, now_s)
        self._failed = 0 if fits else self._failed + 1
        stood = self.since_ms is not None
        if fits:
            self.since_ms = None
        elif self._failed >= FAILS and not stood:
            self.since_ms, self.detail = now_ms, words
        return stood != (self.since_ms is not None)

    def _add(self, power_w: float, now_s: float) -> None:
        """Integrate by the mean of two looks; a gap spoils the window."""
        since_s = now_s - self._power_s
        if since_s > GAP_S or not since_s > 0.0:
            self._made_wh = math.nan if since_s > GAP_S else self._made_wh
        else:
            self._made_wh += 0.5 * (self._power_w + power_w) * since_s / 3600.0
        self._power_s, self._power_w = now_s, power_w


def counted_of(points: Points, unchecked: Sequence[Unchecked]) -> list[Counted]:
    """Every counter that has a power beside it."""
    found = []
    for (part, kind), energy in points.items():
        power = points.get((part, "active_power"))
        if kind != "energy" or power is None or is_unchecked(ENERGY, part, unchecked):
            continue
        places = energy.place, power.place, energy.layout, power.layout
        found.append(Counted(part, *places, energy.step))
    return found
