"""Samples for a time-series cluster, as Prometheus remote-write 1.0, by way of a spool on disk.

sink = RemoteSink(Spool(folder, 512 << 20), Naming(labels={"hall": "north"}))
sink.put(scan)                       # queued
sink.pack()                          # encoded, on the disk
record = sink.spool.first()          # the oldest request; send its `body`, then …
sink.spool.done(record)

Who sends is `api.remote_write`; nothing here knows HTTP.
"""

from __future__ import annotations

from facility.store.remote.naming import Naming
from facility.store.remote.sink import RemoteSink
from facility.store.remote.spool import Record, Spool

__all__ = ["Naming", "Record", "RemoteSink", "Spool"]
