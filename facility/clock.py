"""The only place that asks the time, real or virtual."""

from __future__ import annotations

import asyncio
import selectors
import time
from typing import Any, Protocol


class Clock(Protocol):
    """What time it is; both kinds advance together under a virtual clock."""

    def utc_ms(self) -> int:
        """Wall clock, milliseconds since 1970 UTC; may step."""

    def monotonic_s(self) -> float:
        """Seconds that never step back; ages and deadlines use this."""


class SystemClock:
    """The machine's clocks."""

    def utc_ms(self) -> int:
        """Wall clock, milliseconds since 1970 UTC."""
        return time.time_ns() // 1_000_000

    def monotonic_s(self) -> float:
        """The machine's monotonic clock, seconds."""
        return time.monotonic()


class LoopClock:
    """Time of a virtual event loop; starts at a stated UTC moment."""

    def __init__(self, loop: asyncio.AbstractEventLoop, epoch_ms: int) -> None:
        self._loop = loop
        self._start_s = loop.time()
        self.epoch_ms = epoch_ms

    def utc_ms(self) -> int:
        """Virtual wall clock, milliseconds since 1970 UTC."""
        return self.epoch_ms + round((self._loop.time() - self._start_s) * 1000.0)

    def monotonic_s(self) -> float:
        """Virtual seconds of the loop."""
        return self._loop.time()


class _SkippingSelector(selectors.SelectSelector):
    """A selector that never waits: the wait it was asked for is added to virtual time."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0

    def select(self, timeout: float | None = None) -> Any:
        """Poll once; move virtual time on by the timeout."""
        ready = super().select(0)
        if not ready:
            if timeout is None:
                raise RuntimeError("virtual time cannot pass: nothing is scheduled")
            self.now_s += max(timeout, 0.0)
        return ready


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An event loop in which sleeping costs nothing: hours pass in milliseconds.

    Only for code without threads or sockets: both would be outrun by virtual time.
    """

    def __init__(self) -> None:
        self._skipping = _SkippingSelector()
        super().__init__(self._skipping)
        self._clock_resolution = 1e-9

    def time(self) -> float:
        """Virtual seconds since the loop was made."""
        return self._skipping.now_s
