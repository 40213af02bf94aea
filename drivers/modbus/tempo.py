"""How fast one unit answers, how long to wait for it, and when a silent one is asked again.

Slow is not dead. Who was heard is waited for as long as its own past suggests; who is late is
given more time, at once when the late answer was seen, else by doubling. Who says nothing is left
alone for longer and longer, and asked one cheap question before it is read again. On a line with
other units a silent one may cost them little: it gets less time, and more seldom.
"""

from __future__ import annotations

import random
from typing import Final

from facility.clock import Clock

#: of the usual timeout: the least that a known unit gets, what a silent one gets on a shared line,
#: and the most that anyone gets
LEAST, SHARED, MOST = 0.3, 0.6, 5.0
#: first and longest wait before a silent unit is asked again, seconds
FIRST_WAIT_S: Final = 1.0
LONGEST_WAIT_S: Final = 15.0
#: the part of a shared line's time that one silent unit may take, for waits that delay a look
#: and for those that let its neighbours miss one
SHARE, SHARE_OF_LONG = 0.1, 0.01
#: a silent unit on a shared line is given the most time so often, seconds
WIDE_EVERY_S: Final = 600.0


class Tempo:
    """One unit's past, as far as waiting for it goes."""

    def __init__(self, clock: Clock, rng: random.Random, timeout_s: float) -> None:
        """Take the usual timeout; the unit has not been heard yet."""
        self._clock = clock
        self._rng = rng
        self._timeout_s = timeout_s
        self._mean_s: float | None = None
        self._spread_s = 0.0
        self._wider = 1.0
        self._known_slow = False
        self._blocks_s = 0.0
        self._wide_s = clock.monotonic_s()
        self._again_s = float("-inf")
        self.failures = 0

    @property
    def waiting(self) -> bool:
        """Whether the unit is to be left alone now."""
        return self._clock.monotonic_s() < self._again_s

    def wait_s(self, *, shared: bool) -> float:
        """How long to wait for its next answer, without the time that the bytes take."""
        usual, most = self._timeout_s, MOST * self._timeout_s
        if self._mean_s is None:
            wanted = usual * (SHARED if shared else 1.0)
        else:
            wanted = max(LEAST * usual, self._mean_s + 4.0 * self._spread_s)
        wanted = max(wanted * self._wider, 1.2 * self._blocks_s)
        if shared and self.failures and not self._known_slow:
            now_s = self._clock.monotonic_s()
            if self.failures > 1 and now_s - self._wide_s > WIDE_EVERY_S:
                self._wide_s = now_s
                return most
            most = max(SHARED * usual, 1.2 * self._blocks_s)
        return min(wanted, most)

    @property
    def mean_s(self) -> float:
        """How long its answers take; 0 while it was never heard."""
        return self._mean_s or 0.0

    @property
    def known(self) -> bool:
        """Whether it was ever heard, and answers."""
        return self._mean_s is not None and not self.failures

    def widen(self) -> None:
        """Give its next answer twice the time."""
        self._wider = min(2.0 * self._wider, 2.0 * MOST / LEAST)

    def heard(self) -> None:
        """It spoke, in no time that says how fast it is read."""
        self.failures = 0
        self._again_s = float("-inf")

    def answered(self, took_s: float) -> None:
        """It spoke after so long; smoothed as TCP does (RFC 6298)."""
        if self._mean_s is None:
            self._mean_s, self._spread_s = took_s, took_s / 2.0
        else:
            self._spread_s += (abs(took_s - self._mean_s) - self._spread_s) / 4.0
            self._mean_s += (took_s - self._mean_s) / 8.0
        self._wider = 1.0
        self.heard()

    def late(self, took_s: float) -> None:
        """Its answer came, so long after the question, when nobody waited any more."""
        self._known_slow = True
        took_s = min(took_s, MOST * self._timeout_s)  # what a broken link held back for minutes
        self._mean_s = max(self._mean_s or 0.0, took_s)
        self._spread_s = max(self._spread_s, took_s / 8.0)
        self._wider = 1.0
        self._again_s = float("-inf")

    def silent(self, waited_s: float, *, shared: bool) -> None:
        """It said nothing for so long: leave it alone for longer than the last time."""
        if self.failures >= 2:
            self._known_slow = False
        self.widen()
        wait_s = min(FIRST_WAIT_S * 2.0 ** min(self.failures, 16), LONGEST_WAIT_S)
        if shared and self.failures:
            long = waited_s > SHARED * self._timeout_s * 1.1
            wait_s = max(wait_s, waited_s / (SHARE_OF_LONG if long else SHARE))
        self.failures += 1
        self._again_s = self._clock.monotonic_s() + wait_s * self._rng.uniform(0.8, 1.2)

    def absent(self, waited_s: float, *, shared: bool) -> None:
        """A gateway said, after so long, that nobody answers there.

        It holds the line for that long whether we wait or not, so the next question waits it out:
        a neighbour that is asked meanwhile would look as silent as this unit.
        """
        self.gateway_waits(waited_s)
        self.silent(waited_s, shared=shared)
        self._wider = 1.0

    def gateway_waits(self, waited_s: float) -> None:
        """How long the gateway was seen to wait for this unit before it gave up."""
        self._blocks_s = min(waited_s, MOST * self._timeout_s)
