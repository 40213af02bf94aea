"""What can go wrong with a store, each as a type that callers can act on."""

from __future__ import annotations


class StoreError(Exception):
    """Anything the store refuses or cannot do."""


class StoreUnavailable(StoreError):
    """The database cannot be reached or written now; the store tries again by itself.

    Attributes:
        spilled: whether what was to be written stands in the local spill file and will be replayed.
    """

    def __init__(self, message: str, *, spilled: bool = False) -> None:
        self.spilled = spilled
        super().__init__(message)


class StoreClosed(StoreError):
    """The store was closed; nothing more is taken."""


class StoreLocked(StoreError):
    """Another process (or another store of this one) writes to the same SQLite file."""


class StoreCorrupt(StoreError):
    """The file is damaged, or is no Wattkeeper database; nothing was changed in it."""


class SchemaMismatch(StoreError):
    """The schema is older or newer than this program's."""


class LeaseLost(StoreError):
    """A decision of an epoch that no longer holds its hall; nothing of it was written."""


class HistoryLimit(StoreError):
    """A question about the past that would read or return too much."""


class UnknownRecord(StoreError):
    """Something named that is not there, e.g. an alarm to acknowledge."""
