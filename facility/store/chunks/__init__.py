"""One hour of one layout in columns: bytes and back, without losing a bit.

A chunk is two byte strings. The head has the times, the quality, where each point's column lies
and what is known of it (`Summary`), so that most questions never touch the body; the body has the
columns. See `facility.store.chunks.encode` for the form.
"""

from __future__ import annotations

from facility.store.chunks.columns import Columns, merged
from facility.store.chunks.decode import Head
from facility.store.chunks.encode import Packed, encode
from facility.store.chunks.summary import Summary

__all__ = ["Columns", "Head", "Packed", "Summary", "encode", "merged"]
