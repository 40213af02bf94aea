"""kill -9 at any moment loses at most a second of samples, and nothing that was promised."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from facility.clock import SystemClock
from facility.store import check, open_store
from tests.conftest import ROOT
from tests.facility.store.plant import START_MS, SteppedClock
from tests.facility.store.victim import PDU

MOMENTS = 6


def run_until_killed(url: str, spill: Path, first: int, seconds: float) -> tuple[list[str], float]:
    """The victim's promises, and when it was killed (machine's monotonic clock)."""
    clock = SystemClock()
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.facility.store.victim", url, str(spill), str(first)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    if process.stdout.readline() != "ready\n":
        process.kill()
        pytest.fail(f"the victim did not start: {process.communicate()[1]}")
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(seconds)
    killed_s = clock.monotonic_s()
    os.kill(process.pid, signal.SIGKILL)
    lines = process.communicate(timeout=30)[0].splitlines()
    return [line for line in lines if len(line.split()) >= 2], killed_s


@pytest.mark.system
@pytest.mark.slow
def test_kill_at_random_moments_loses_a_second_of_samples_and_nothing_else(
    url: str, tmp_path: Path
) -> None:
    rng = random.Random(20261130)
    spill = tmp_path / "spill"
    intents: set[int] = set()
    alarms: set[str] = set()
    delivered: set[str] = set()
    first = 1
    for _ in range(MOMENTS):
        promises, killed_s = run_until_killed(url, spill, first, rng.uniform(0.05, 1.6))
        told = [line.split() for line in promises]
        intents |= {int(words[1]) for words in told if words[0] == "i"}
        alarms |= {words[1] for words in told if words[0] == "a"}
        delivered |= {words[1] for words in told if words[0] == "d"}
        queued = {int(w[1]): float(w[2]) for w in told if w[0] == "s" and len(w) == 3}
        store = open_store(url, SteppedClock(SystemClock().utc_ms()), inline=True, spill=spill)
        store.ping().result()
        got = store.history(PDU.points[0].id, START_MS, START_MS + 90_000).result()
        kept = {int(v) for v in got.mean}
        lost = [n for n in queued if n not in kept]
        assert all(killed_s - queued[n] < 1.0 for n in lost), f"lost {lost}"
        if lost:
            assert sorted(kept & queued.keys()) == [n for n in queued if n < min(lost)]
        assert intents <= {r.decision.cycle for r in store.decisions(10_000).result()}
        assert alarms <= {a.event.subject for a in store.alarms().result()}
        ends = {d.body["subject"]: d.status for d in store.deliveries(10_000).result()}
        assert alarms <= ends.keys()
        assert all(ends[subject] == "delivered" for subject in delivered)
        first = max([*queued, first]) + 1
        store.close()
    assert intents, "nothing was ever promised: the test proved nothing"
    assert delivered
    assert check(url) == []
