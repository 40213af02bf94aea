"""Whether a message says what is, or what was: the device's clock against ours. No I/O.

A device whose clock is wrong is as far off in each message; a value that was kept somewhere and
sent later is further off the longer it lay. So the difference of the clocks is believed only once
it has stood still for a while, and a message that lags behind it is old.

A clock that we knew goes wrong in two ways: it is set back, or it drifts slowly. Times that went
on rising and come ever later are values that queue somewhere, be it a steady hour behind: nobody
can tell them from a clock that stood while its device was off, so they stay unsure.
"""

from __future__ import annotations

from datetime import datetime
from enum import Enum
from typing import Any, Final

from facility.points import Flaw

#: A clock that is further off than this is worth a note.
SKEW_MS: Final = 5_000
#: A wrong clock is as far off in each message; this much jitter is the network's.
STEADY_MS: Final = 2_500
#: What the worst clock drifts, of the time that passes: 86 s a day.
DRIFT: Final = 0.001
#: No clock shows a later time (year 2286 in milliseconds); what does is no time.
LATEST_MS: Final = 10_000_000_000_000


class Freshness(Enum):
    """What the source time says of a value."""

    FRESH = "of now"
    SKEWED = "of now, and the device's clock is wrong"
    UNSURE = "old, or the device's clock is wrong"
    OLD = "old"


def source_ms(raw: Any, form: str) -> int | None:
    """A source time in UTC ms; None when there is none in it.

    Args:
        raw: what the message has there.
        form: `ms`, `s` or `iso`, as in a profile.
    """
    if form == "iso":
        try:
            at = datetime.fromisoformat(raw) if isinstance(raw, str) else None
            told = None if at is None or at.tzinfo is None else at.timestamp() * 1000.0
        except (ValueError, OverflowError):
            return None
    elif isinstance(raw, bool | Flaw) or not isinstance(raw, int | float):
        return None
    else:
        told = raw if form == "ms" else raw * 1000.0 if abs(raw) < LATEST_MS else None
    return int(told) if told is not None and 0 <= told < LATEST_MS else None


class SourceClock:
    """What is known of the clock behind one source time."""

    def __init__(self, stale_after_s: float) -> None:
        """Take how long a value of this source is good for, seconds."""
        self._stale_s = stale_after_s
        self._settle_s = max(2.0 * stale_after_s, SKEW_MS / 1000.0)
        self._skew_ms: float | None = None
        self._behind_ms = 0
        self._anchor = (0, 0.0)
        self._moved_s = 0.0
        self._settled = self._set_back = False
        self._stuck_s = float("-inf")
        self.source_ms: int | None = None

    def hear(
        self,
        source_ms: int | None,
        received_ms: int,
        received_s: float,
        *,
        changed: bool = False,
    ) -> None:
        """Note the source time of a message, None where it has none.

        Args:
            source_ms: as the message has it.
            received_ms: when it came, by our clock.
            received_s: the same, monotonic.
            changed: the message says another thing than the one before.
        """
        first, last_ms, self.source_ms = self.source_ms is None, self.source_ms, source_ms
        if source_ms is None:
            return
        self._behind_ms = behind_ms = received_ms - source_ms
        if source_ms == last_ms:
            self._stuck_s = received_s if changed else self._stuck_s
            return
        passed_ms = 1000.0 * (received_s - self._moved_s)
        self._moved_s = received_s
        if first or abs(behind_ms - self._anchor[0]) > STEADY_MS:
            self._anchor = (behind_ms, received_s)
        self._settled = received_s - self._anchor[1] >= self._settle_s
        self._set_back |= last_ms is not None and source_ms < last_ms - STEADY_MS
        near = abs(behind_ms) <= SKEW_MS
        ahead = behind_ms < (0 if self._skew_ms is None else self._skew_ms)
        again = self._settled and (self._skew_ms is None or self._set_back)
        if near or ahead or again:  # nobody can send what is yet to come: such a clock is wrong
            self._skew_ms, self._set_back = behind_ms, False
        elif self._settled and self._skew_ms is not None:
            self._skew_ms = min(behind_ms, self._skew_ms + DRIFT * passed_ms)

    def judge(self, now_s: float) -> Freshness:
        """What the newest message is worth now."""
        if self.source_ms is None:
            return Freshness.FRESH
        if now_s - self._moved_s > self._stale_s:
            stuck = now_s - self._stuck_s <= self._stale_s  # it says new things in an old minute
            return Freshness.UNSURE if stuck else Freshness.OLD
        if self._skew_ms is None:
            return Freshness.UNSURE
        if self._behind_ms > self._skew_ms + 1000.0 * self._stale_s:
            return Freshness.UNSURE if self._settled else Freshness.OLD
        return Freshness.SKEWED if abs(self._behind_ms) > SKEW_MS else Freshness.FRESH
