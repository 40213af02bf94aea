"""A process that writes as a hall does until it is killed; tells what was promised as it goes.

Each line on standard output is one promise: `i N` an intent, `a N` an alarm with its delivery,
`d N` an end of a delivery, all after their futures were done; `s N MS` a scan that was queued at
a moment of the machine's monotonic clock.
"""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

from facility.clock import SystemClock
from facility.store import open_store
from tests.facility.store.plant import START_MS, alarm, command, decision, layout, scan

PDU = layout(points=8)


def tell(text: str) -> None:
    os.write(1, (text + "\n").encode())


def main(url: str, spill: str, first: int) -> None:
    """Write for ever, counting from `first`."""
    clock = SystemClock()
    store = open_store(url, clock, spill=Path(spill))
    tell("ready")
    pause = threading.Event()
    n = first
    while True:
        store.put(scan(PDU, [float(n)] * 8, at_ms=START_MS + n))
        tell(f"s {n} {clock.monotonic_s()}")
        if n % 5 == 0:
            store.journal_intent(decision(n, command(sequence=n))).result(30)
            tell(f"i {n}")
        if n % 7 == 0:
            store.record_alarms([alarm(f"odd:{n}")], ["pager"]).result(30)
            tell(f"a {n}")
            for claimed in store.claim_deliveries(5, clock.utc_ms()).result(30):
                store.finish_delivery(claimed.id, True, 204).result(30)
                tell(f"d {claimed.body['subject']}")
        pause.wait(0.002)
        n += 1


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
