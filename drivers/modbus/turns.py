"""Whose turn it is on a line: writes first, then the unit that was not served for longest."""

from __future__ import annotations

import asyncio
from collections import deque


class Turns:
    """A lock for one request at a time.

    A write goes before every read that waits. Among reads the units take turns, so that one with
    many blocks does not keep the others waiting for all of them. Who gave up waiting loses
    nothing by it: when it asks again, it comes before all who were served since. So on a line
    that is slower than what is asked of it, everybody is served more seldom, and nobody never.
    """

    def __init__(self) -> None:
        self._taken = False
        self._urgent: deque[asyncio.Future[bool]] = deque()
        self._reads: dict[int, deque[asyncio.Future[bool]]] = {}
        self._served: dict[int, int] = {}
        self._turns = 0

    @property
    def idle(self) -> bool:
        """Whether nobody has the turn or waits for it."""
        return not (self._taken or self._urgent or self._reads)

    async def take(self, unit: int, *, urgent: bool = False, wait_s: float | None = None) -> bool:
        """Wait for the turn; `give` it back afterwards.

        Returns:
            Whether the turn came within `wait_s`; always, without one.
        """
        if not self._taken:
            self._taken = True
            self._serve(unit)
            return True
        loop = asyncio.get_running_loop()
        mine: asyncio.Future[bool] = loop.create_future()
        queue = self._urgent if urgent else self._reads.setdefault(unit, deque())
        queue.append(mine)
        expiry = None if wait_s is None else loop.call_later(max(wait_s, 0.0), _give_up, mine)
        try:
            return await mine
        except asyncio.CancelledError:
            if mine.done() and not mine.cancelled() and mine.result():
                self.give()  # the turn came together with the cancellation
            raise
        finally:
            if expiry is not None:
                expiry.cancel()

    def give(self) -> None:
        """Let the next one have the turn; who does not wait any more is passed over."""
        while self._urgent:
            mine = self._urgent.popleft()
            if not mine.done():
                mine.set_result(True)
                return
        while self._reads:
            unit = min(self._reads, key=self._last_turn)
            queue = self._reads[unit]
            mine = queue.popleft()
            if not queue:
                del self._reads[unit]
            if not mine.done():
                self._serve(unit)
                mine.set_result(True)
                return
        self._taken = False

    def _serve(self, unit: int) -> None:
        self._turns += 1
        self._served[unit] = self._turns

    def _last_turn(self, unit: int) -> int:
        return self._served.get(unit, 0)


def _give_up(mine: asyncio.Future[bool]) -> None:
    if not mine.done():
        mine.set_result(False)
