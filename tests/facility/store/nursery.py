"""A process that has children, kills them at chosen kinds of moments, and looks at what is left.

Each child writes as a hall does, a day in a second: scans, flushes, intents, compaction and
retention at once. It tells on a pipe what it begins (`f` flush, `c` compaction, `r` retention) and
what it was promised (`s N` scans before N, `i N` an intent). A fork costs less than a start, and
so the moments may be many.

    python -m tests.facility.store.nursery URL SPILL KILLS SEED      prints one JSON document
"""

from __future__ import annotations

import collections
import contextlib
import json
import os
import random
import select
import signal
import sqlite3
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from facility.clock import SystemClock
from facility.store import Store, check, open_store
from facility.store.engine import reading_engine, sqlite_file
from facility.store.past.question import Question
from facility.store.rollups import PointRules
from facility.store.rollups.rules import RetentionDays
from tests.facility.store.plant import command, decision, layout, scan

PDU = layout(points=8)
POINT = PDU.points[5].id
HOUR_MS = 3_600_000
BASE_MS = 1_796_000_400_000  # the start of an hour
STEP_MS = 30_000
PER_HOUR = HOUR_MS // STEP_MS
BATCH = 15
KEEP_MS = 5 * HOUR_MS
RULES = PointRules(keep=lambda _: RetentionDays(raw=KEEP_MS / 86_400_000))
KINDS = "fcr"


class DataClock:
    """The wall clock of the scans; the machine's for everything that waits."""

    def __init__(self, n: int) -> None:
        self.n = n
        self._real = SystemClock()

    def utc_ms(self) -> int:
        return BASE_MS + self.n * STEP_MS

    def monotonic_s(self) -> float:
        return self._real.monotonic_s()


def opened(url: str, spill: Path, n: int, *, inline: bool) -> tuple[Store, DataClock]:
    clock = DataClock(n)
    return open_store(url, clock, inline=inline, spill=spill, rules=RULES), clock


def child(url: str, spill: Path, n: int, pipe: int) -> None:
    """Write for ever, counting from n."""

    def tell(text: str) -> None:
        os.write(pipe, (text + "\n").encode())

    store, clock = opened(url, spill, n, inline=False)
    work = None
    turn = n % 2
    while True:
        for _ in range(BATCH):
            store.put(scan(PDU, np.full(8, float(n)), at_ms=BASE_MS + n * STEP_MS))
            n += 1
        clock.n = n
        tell("f")
        store.flush().result(30)
        tell(f"s {n}")
        if n % (4 * BATCH) == 0:
            store.journal_intent(decision(n, command(sequence=n), now_ms=clock.utc_ms())).result(30)
            tell(f"i {n}")
        if work is None or work.done():
            if work is not None:
                work.result()
            turn += 1
            tell("cr"[turn % 2])
            work = store.compact(settle_ms=0) if turn % 2 == 0 else store.retire()


def chunks_of(pipe: int) -> Iterator[bytes]:
    """What the child tells, until it is gone or says nothing for a long time."""
    while select.select([pipe], [], [], 60.0)[0]:
        data = os.read(pipe, 1 << 16)
        if not data:
            return
        yield data


def run_until_killed(url: str, spill: Path, n: int, rng: random.Random) -> tuple[str, list[str]]:
    """A child's kind of moment, and everything it told."""
    reads, writes = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(reads)
            child(url, spill, n, writes)
        finally:
            os._exit(70)
    os.close(writes)
    kind, after = rng.choice(KINDS), rng.randrange(1, 7)
    told = b""
    for data in chunks_of(reads):
        told += data
        if told.count(f"{kind}\n".encode()) >= after or len(told) > 20_000:
            break
    threading.Event().wait(rng.uniform(0.0, 0.015))
    os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    told += b"".join(chunks_of(reads))
    os.close(reads)
    assert os.WIFSIGNALED(status), f"a child died by itself: {told[-80:]!r}"
    return kind, told.decode().splitlines()


def look(url: str, spill: Path, acked: int, intents: set[int]) -> tuple[int, int]:
    """Everything promised is there once; the number to go on from, and how many hours are gone."""
    file = sqlite_file(url)
    if file is not None:
        with contextlib.closing(sqlite3.connect(file)) as plain:
            assert plain.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    store, _ = opened(url, spill, acked, inline=True)
    store.ping().result()
    end_ms = BASE_MS + (acked + 10_000) * STEP_MS
    asked = Question((POINT,), BASE_MS, end_ms, resolution="raw")
    got = store.past(asked).result().series[0]
    numbers = (got.times_ms - BASE_MS) // STEP_MS
    assert np.all(np.diff(got.times_ms) > 0)
    assert np.array_equal(got.mean, numbers.astype(float)), "each time has the value of its time"
    assert store.counts().result().scans == len(numbers), "each scan stands once, raw or compacted"
    cycles = [record.decision.cycle for record in store.decisions(100_000).result()]
    assert intents <= set(cycles)
    assert len(cycles) == len(set(cycles))
    store.close()
    # Retention may have taken whole hours that its clock, which ran on by a batch, let go.
    newest_ms = BASE_MS + (acked + 2 * BATCH) * STEP_MS - KEEP_MS
    first = max((newest_ms - newest_ms % HOUR_MS - BASE_MS) // STEP_MS, 0)
    end = max(acked, int(numbers[-1]) + 1 if len(numbers) else 0)
    missing = sorted(set(range(first, end)) - set(numbers.tolist()))
    assert not missing, f"acknowledged up to {acked}, or older than what stands: {missing[:5]}"
    gone = roll_ups_are_whole(url, collections.Counter((numbers // PER_HOUR).tolist()))
    return end, gone


def roll_ups_are_whole(url: str, held: dict[int, int]) -> int:
    """A compacted hour has been summed up once; one that is gone too. How many are gone."""
    engine = reading_engine(url)
    with engine.connect() as connection:
        summed = {
            (row[0] - BASE_MS) // HOUR_MS: int(row[1])
            for row in connection.exec_driver_sql(
                f"SELECT r.start_ms - r.start_ms %% {HOUR_MS}, sum(r.count) FROM rollup_15m r "
                f"JOIN point p ON p.id = r.point_id WHERE p.ref = '{POINT}' GROUP BY 1".replace(
                    "%%", "%" if engine.name == "sqlite" else "%%"
                )
            )
        }
        chunks = {
            (row[0] - BASE_MS) // HOUR_MS: int(row[1])
            for row in connection.exec_driver_sql("SELECT hour_ms, scans FROM chunk")
        }
    engine.dispose()
    assert {hour: summed.get(hour) for hour in chunks} == chunks
    gone = summed.keys() - held.keys()
    assert all(summed[hour] == PER_HOUR for hour in gone), "summed up whole before it went"
    return len(gone)


def main(url: str, spill: Path, kills: int, seed: int) -> None:
    rng = random.Random(seed)
    acked = 0
    gone = 0
    intents: set[int] = set()
    kinds: collections.Counter[str] = collections.Counter()
    for _ in range(kills):
        kind, told = run_until_killed(url, spill, acked, rng)
        kinds[kind] += 1
        for line in told:
            word, _, number = line.partition(" ")
            if word == "s":
                acked = max(acked, int(number))
            elif word == "i":
                intents.add(int(number))
        acked, gone = look(url, spill, acked, intents)
        # What was written and not acknowledged stands; go on behind it, in whole batches.
        stands, acked = acked, -(-acked // BATCH) * BATCH
        fill_up(url, spill, stands, acked)
    assert check(url) == []
    print(json.dumps({"kinds": kinds, "scans": acked, "intents": len(intents), "gone": gone}))


def fill_up(url: str, spill: Path, first: int, end: int) -> None:
    """Put what a killed batch left out, so that hours are whole."""
    store, _ = opened(url, spill, end, inline=True)
    for n in range(first, end):
        store.put(scan(PDU, np.full(8, float(n)), at_ms=BASE_MS + n * STEP_MS))
    store.flush().result()
    store.close()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
