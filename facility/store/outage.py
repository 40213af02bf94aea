"""A database that cannot be written: somebody else holds its only lock until the fault is over."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from pathlib import Path
from typing import Final

#: How long the lock is tried for; the controller writes in short transactions.
TRY_S: Final = 10.0


class Outage:
    """Takes the write lock of an SQLite file, and gives it back."""

    def __init__(self, database: Path) -> None:
        """Nothing is opened before `begin`."""
        self._path = database
        self._held: sqlite3.Connection | None = None

    async def begin(self) -> None:
        """From here on nobody else can commit.

        Raises:
            sqlite3.OperationalError: the lock could not be had.
        """
        if self._held is None:
            self._held = await asyncio.to_thread(self._lock)

    async def end(self) -> None:
        """Others can commit again; nothing of ours was written."""
        held, self._held = self._held, None
        if held is not None:
            with contextlib.suppress(sqlite3.Error):
                held.rollback()
            held.close()

    def _lock(self) -> sqlite3.Connection:
        held = sqlite3.connect(
            self._path, timeout=TRY_S, isolation_level=None, check_same_thread=False
        )
        try:
            held.execute("BEGIN IMMEDIATE")
        except sqlite3.Error:
            held.close()
            raise
        return held
