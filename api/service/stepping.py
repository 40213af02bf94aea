"""A calendar that a simulation moves: the demo's `clock_stepped`, for the controller alone.

The demo writes by how much, in ms, into a file that the overlay names. A controller that is killed
and started again meanwhile reads the same file, as it would find the same wrong time in a machine.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

from facility.clock import SystemClock

LOOK_S: Final = 0.1


class SteppedClock(SystemClock):
    """The machine's clocks; only the calendar is moved, ages and deadlines are not."""

    def __init__(self, path: Path) -> None:
        """Take the step that stands in the file now."""
        self._path = path
        self._step_ms = 0
        self.look()

    def utc_ms(self) -> int:
        """Wall clock, milliseconds since 1970 UTC, as the simulation would have it."""
        return super().utc_ms() + self._step_ms

    def look(self) -> None:
        """Read the file again; one that is not there or holds no number is no step."""
        try:
            self._step_ms = int(self._path.read_text("ascii"))
        except (OSError, ValueError):
            self._step_ms = 0

    async def follow(self) -> None:
        """Look for ever."""
        while True:
            await asyncio.sleep(LOOK_S)
            self.look()


def write_step(path: Path, step_ms: int) -> None:
    """Move the calendar of whoever follows the file; whole or not at all."""
    draft = path.with_suffix(".new")
    draft.write_text(str(step_ms), "ascii")
    draft.replace(path)
