"""`facility.ports.SampleSink` for remote-write: scans in, requests on the disk out."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from typing import Final

import numpy as np

from facility.points import Layout, Scan
from facility.store.remote.encode import LAST_MS, Columns, Piece, Request, requests
from facility.store.remote.naming import Naming
from facility.store.remote.spool import Spool
from facility.store.rows.scans import source_ms

MOST_SAMPLES: Final = 1_000_000


class RemoteSink:
    """Queues scans; `pack` encodes them and puts them into the spool.

    Args:
        spool: where requests wait.
        naming: what series are called.
        max_samples: scans that wait for `pack`; beyond it the oldest go.

    Attributes:
        spool: as given.
        put_samples: taken since opening.
        dropped_samples: lost to the bound of the queue, or of a time that cannot be sent.
        error: why the last `pack` could not write; None while all is well.
    """

    def __init__(self, spool: Spool, naming: Naming, max_samples: int = MOST_SAMPLES) -> None:
        self.spool = spool
        self._naming = naming
        self._max_samples = max_samples
        self._turn = threading.Lock()
        self._packing = threading.Lock()
        self._scans: deque[Scan] = deque()
        self._queued = 0
        self._columns: dict[str, Columns] = {}
        self._unwritten: list[Request] = []
        self.put_samples = 0
        self.dropped_samples = 0
        self.error: str | None = None

    @property
    def queued_samples(self) -> int:
        """Waiting for `pack`."""
        return self._queued

    def put(self, scan: Scan) -> None:
        """Queue one scan; never waits, never raises."""
        n = len(scan.layout)
        with self._turn:
            self._scans.append(scan)
            self._queued += n
            self.put_samples += n
            while self._queued > self._max_samples:
                lost = len(self._scans.popleft().layout)
                self._queued -= lost
                self.dropped_samples += lost

    def pack(self) -> bool:
        """Encode what is queued and write it to the spool; blocks on the disk.

        What the disk refuses is kept and tried again with the next call;
        meanwhile scans stay in their bounded queue.

        Returns:
            whether anything new can be sent.
        """
        with self._packing:
            return self._pack()

    def _pack(self) -> bool:
        try:
            if not self._unwritten:
                self._unwritten = self._encoded()
            self.spool.append(self._unwritten)
        except OSError as error:
            self.error = f"the spool cannot be written: {error.strerror or error}"
            return False
        self.error = None
        new = bool(self._unwritten)
        self._unwritten = []
        return new

    def close(self) -> None:
        """Write what is queued, let go of the spool."""
        self.pack()
        self.spool.close()

    def _encoded(self) -> list[Request]:
        with self._turn:
            scans = list(self._scans)
            self._scans.clear()
            self._queued = 0
        groups: dict[str, list[Scan]] = {}
        for scan in scans:
            groups.setdefault(scan.layout.key, []).append(scan)
        on_time: list[Piece] = []
        late: list[Piece] = []
        for group in groups.values():
            self._sort(group[0].layout, group, on_time, late)
        # Prometheus refuses a whole request for one sample that is older than its series, so late
        # ones go in requests of their own; VictoriaMetrics and Mimir may take them.
        return [*requests(on_time), *requests(late)]

    def _sort(
        self, layout: Layout, scans: Sequence[Scan], on_time: list[Piece], late: list[Piece]
    ) -> None:
        columns = self._columns.get(layout.key)
        if columns is None:
            columns = self._columns[layout.key] = Columns(layout, self._naming)
        stamped = {source_ms(scan): scan for scan in scans}  # of one time the last one counts
        usable = sorted(ms for ms in stamped if 0 <= ms <= LAST_MS)
        self.dropped_samples += (len(stamped) - len(usable)) * len(layout)
        old = [ms for ms in usable if ms <= columns.last_ms]
        new = usable[len(old) :]
        for times, pieces in ((new, on_time), (old, late)):
            wanted = np.array(times, dtype=np.int64)
            pieces += columns.pieces([stamped[ms] for ms in times], wanted, late=pieces is late)
