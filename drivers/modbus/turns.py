"""Whose turn it is on a line: writes first, then the units in a round."""

from __future__ import annotations

import asyncio
from collections import deque


class Turns:
    """A lock for one request at a time.

    A write goes before every read that waits. Among reads the units take turns, so that one with
    many blocks does not keep the others waiting for all of them.
    """

    def __init__(self) -> None:
        self._taken = False
        self._urgent: deque[asyncio.Future[None]] = deque()
        self._reads: dict[int, deque[asyncio.Future[None]]] = {}

    @property
    def idle(self) -> bool:
        """Whether nobody has the turn or waits for it."""
        return not (self._taken or self._urgent or self._reads)

    @property
    def crowded(self) -> bool:
        """Whether somebody waits."""
        return bool(self._urgent or self._reads)

    async def take(self, unit: int, *, urgent: bool = False) -> None:
        """Wait for the turn; `give` it back afterwards."""
        if not self._taken:
            self._taken = True
            return
        mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        queue = self._urgent if urgent else self._reads.setdefault(unit, deque())
        queue.append(mine)
        try:
            await mine
        except asyncio.CancelledError:
            if mine.done() and not mine.cancelled():
                self.give()  # the turn came together with the cancellation
            raise

    def give(self) -> None:
        """Let the next one have the turn; who was cancelled meanwhile is passed over."""
        while self._urgent:
            mine = self._urgent.popleft()
            if not mine.done():
                mine.set_result(None)
                return
        while self._reads:
            # The unit that is served goes to the end of the round.
            unit = next(iter(self._reads))
            queue = self._reads.pop(unit)
            mine = queue.popleft()
            if queue:
                self._reads[unit] = queue
            if not mine.done():
                mine.set_result(None)
                return
        self._taken = False
