"""Where what we saw, chose and did is kept: SQLite or PostgreSQL, one writer, plain records.

store = open_store("sqlite:///hall.db", SystemClock())
store.put(scan)                                  # queued, on the disk within a second
store.journal_intent(decision).result()          # done = committed
store.history(point, from_ms, to_ms, 60).result()
"""

from __future__ import annotations

from facility.store.adapters import StoreJournal, StoreReader, committed
from facility.store.compaction import Compacted
from facility.store.errors import (
    HistoryLimit,
    LeaseLost,
    SchemaMismatch,
    StoreClosed,
    StoreCorrupt,
    StoreError,
    StoreLocked,
    StoreUnavailable,
    UnknownRecord,
)
from facility.store.integrity import check
from facility.store.migrate import upgrade
from facility.store.records import Counts, CycleRecord, StoreStats
from facility.store.store import Store, open_store

__all__ = [
    "Compacted",
    "Counts",
    "CycleRecord",
    "HistoryLimit",
    "LeaseLost",
    "SchemaMismatch",
    "Store",
    "StoreClosed",
    "StoreCorrupt",
    "StoreError",
    "StoreJournal",
    "StoreLocked",
    "StoreReader",
    "StoreStats",
    "StoreUnavailable",
    "UnknownRecord",
    "check",
    "committed",
    "open_store",
    "upgrade",
]
