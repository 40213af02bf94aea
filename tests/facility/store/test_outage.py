"""The demo's `database_gone`: nobody can commit, until it is over."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

import pytest

from facility.store.outage import Outage


def test_nobody_can_commit_until_it_is_over(tmp_path: Path) -> None:
    path = tmp_path / "demo.db"
    ours = sqlite3.connect(path, timeout=0.0, isolation_level=None)
    ours.execute("PRAGMA journal_mode=WAL")
    ours.execute("CREATE TABLE t (x INTEGER)")
    outage = Outage(path)

    async def check() -> None:
        await outage.begin()
        await outage.begin()
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            ours.execute("INSERT INTO t VALUES (1)")
        await outage.end()
        await outage.end()
        ours.execute("INSERT INTO t VALUES (2)")

    asyncio.run(check())
    assert ours.execute("SELECT x FROM t").fetchall() == [(2,)]
    ours.close()
