"""The pulse of a BMS and ours: who lives, and whether both hear each other. No I/O.

A value that does not change is repeated every 100 s only, so its silence says little; the BMS
says every 10 s that it lives, and three times missed is dead.
"""

from __future__ import annotations

from typing import Final

from drivers.mqtt.addressing import is_pattern, matches
from facility.clock import Clock

BEAT_S: Final = 10.0
#: three beats missed
DEAD_AFTER_S: Final = 3.5 * BEAT_S


class Pulse:
    """One heartbeat point.

    Attributes:
        value: the time that was said last, ms; None before the first.
    """

    def __init__(self, scope: str | None, clock: Clock) -> None:
        """Take which topics it stands for (None: all), and when we began to listen."""
        self._scope = scope if scope is not None and is_pattern(scope) else None
        self._clock = clock
        self._beat_s = clock.monotonic_s()
        self.value: float | None = None

    def covers(self, topic: str) -> bool:
        """Whether a topic's values are worth nothing without this pulse.

        A scope that is no pattern of topics is a name for people: it stands for everything.
        """
        return self._scope is None or matches(self._scope, topic)

    def beat(self, value: float) -> None:
        """Note a beat; the same time said again is none."""
        if value != self.value:
            self.value = value
            self._beat_s = self._clock.monotonic_s()

    @property
    def alive(self) -> bool:
        """Whether it beat lately, or was only just announced."""
        return self._clock.monotonic_s() - self._beat_s <= DEAD_AFTER_S
