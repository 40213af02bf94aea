"""Counters of several series added up, without the sum jumping when one of them starts again.

Downstream a counter that falls has started again from 0 (`facility.store.rollups.counters`). That
is right for one engine. Of a sum it would be wrong: if one of eight ranks restarts, the sum falls
by what that rank had counted, and what the other seven show would be counted a second time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

#: what tells series apart: the values of the labels that do
Key = tuple[str, ...]

#: series that come and go for ever (a model loaded under ever new names) are not all remembered
MAX_SERIES: Final = 4096


class Tally:
    """One counter made of many; it falls only when all of them start again."""

    def __init__(self) -> None:
        self._last: dict[Key, float] = {}
        self._kept = 0.0

    def add(self, now: Mapping[Key, float]) -> float:
        """The sum after one look.

        A series that fell keeps what it had counted; one that is gone keeps its last number, so
        that a page that lost a rank for a moment counts nothing twice; a new one counts whole.
        When everything on the page has started again, or is new (another model in the same
        engine), the sum does too, and what is gone is left out of it, but not forgotten: it may
        come back. So a sum is seldom more than the page says, and rarely falls to that when this
        program starts again, which would count all of it a second time.

        Args:
            now: number of each series on the page, at least one.
        """
        last = self._last
        gone = [key for key in last if key not in now]
        fallen = [key for key, number in now.items() if number < last.get(key, 0.0)]
        again = all(key not in now or now[key] < was or was == 0.0 for key, was in last.items())
        if len(last) > MAX_SERIES:
            self._last, self._kept = dict(now), 0.0
            return math.fsum(now.values())
        self._last = {**{key: last[key] for key in gone}, **now}
        if again and (fallen or len(gone) == len(last)):
            self._kept = -math.fsum(last[key] for key in gone)
        else:
            self._kept += math.fsum(last[key] for key in fallen)
        return math.fsum((self._kept, *self._last.values()))
