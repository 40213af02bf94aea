"""What is sent is what real VictoriaMetrics and Prometheus give back, over deaths on both sides."""

from __future__ import annotations

import asyncio
import contextlib
import random
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from api.remote_write import RemoteWriter
from api.service.workers import ThreadWorkers
from api.webhooks import HttpPost
from facility.clock import SystemClock
from facility.store.remote import Naming, RemoteSink, Spool
from tests.facility.store.plant import layout, scan
from tests.system.receivers import Prometheus, Receiver, VictoriaMetrics

POINTS = 40
PDU = layout(points=POINTS)
METRIC = "wattkeeper_active_power_watts"
PART = 60  # seconds of samples in each act
NAN = float("nan")


@pytest.fixture(params=[VictoriaMetrics, Prometheus], ids=lambda kind: str(kind.program))
def receiver(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Receiver]:
    made: Receiver = request.param(tmp_path / "receiver")
    made.start()
    yield made
    made.end(signal.SIGKILL)


@contextlib.asynccontextmanager
async def sending(folder: Path, receiver: Receiver) -> AsyncIterator[RemoteWriter]:
    """One life of our own process: opens the spool, sends, ends in order."""
    sink = RemoteSink(Spool(folder, 1 << 24), Naming({"hall": "north"}))
    workers, post = ThreadWorkers(1), HttpPost()
    writer = RemoteWriter(
        sink,
        f"{receiver.url}/api/v1/write",
        {},
        post,
        workers,
        SystemClock(),
        random.Random(7),
    )
    task = asyncio.create_task(writer.run())
    try:
        yield writer
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        workers.close()
        await post.close()
        sink.close()


async def until(true: Callable[[], bool], seconds: float = 30.0) -> None:
    async with asyncio.timeout(seconds):
        while True:
            if true():
                return
            await asyncio.sleep(0.05)


def value(second: int, i: int) -> float:
    return round(1000.0 + 0.1 * second + 7.3 * i, 3)


def measure(writer: RemoteWriter, start_ms: int, first: int) -> None:
    """A minute of scans; one point is BAD in its last half."""
    for second in range(first, first + PART):
        values = [value(second, i) for i in range(POINTS)]
        grades = [0] * POINTS
        if second - first >= PART // 2:
            values[3], grades[3] = NAN, 2
        writer.sink.put(scan(PDU, values, grades, at_ms=start_ms + 1000 * second))


@pytest.mark.system
@pytest.mark.slow
async def test_nothing_is_lost_or_reordered_over_the_death_of_either_side(
    receiver: Receiver, tmp_path: Path
) -> None:
    start_ms = SystemClock().utc_ms() // 1000 * 1000 - 1_800_000
    spool = tmp_path / "spool"
    async with sending(spool, receiver) as writer:
        measure(writer, start_ms, 0)
        await until(lambda: writer.health().sent_samples >= POINTS * PART - PART // 2)
        # A receiver may keep what it has answered for in memory for a while; so VictoriaMetrics
        # ends in order. Prometheus has a log, and is killed.
        killed = signal.SIGKILL if isinstance(receiver, Prometheus) else signal.SIGTERM
        receiver.end(killed)
        measure(writer, start_ms, PART)
        await until(lambda: writer.health().error is not None)
        assert writer.health().waiting_bytes > 0
    async with sending(spool, receiver) as writer:
        measure(writer, start_ms, 2 * PART)
        await until(lambda: writer.health().error is not None)
        receiver.start()
        await until(lambda: writer.sink.queued_samples == writer.health().waiting_bytes == 0)
        assert writer.health().refused_samples == 0
        assert writer.health().dropped_samples == 0
    got = receiver.raw(METRIC)
    assert len(got) == POINTS
    for i, spec in enumerate(PDU.points):
        seconds = [s for s in range(3 * PART) if i != 3 or s % PART < PART // 2]
        assert [ms for ms, _ in got[spec.id.part]] == [start_ms + 1000 * s for s in seconds]
        assert [v for _, v in got[spec.id.part]] == pytest.approx(
            [value(s, i) for s in seconds], rel=1e-12
        )
    ended_ms = start_ms + 1000 * (3 * PART + 5)
    if isinstance(receiver, Prometheus):
        present = {one["metric"]["part"] for one in receiver.query(METRIC, ended_ms)}
        assert PDU.points[3].id.part not in present, "a point without a value has none"
        assert len(present) == POINTS - 1
        series = receiver.query(f'{METRIC}{{part="{PDU.points[0].id.part}"}}', ended_ms)
        assert series[0]["metric"] == {
            "__name__": METRIC,
            "device": "pdu-1",
            "hall": "north",
            "kind": "active_power",
            "part": PDU.points[0].id.part,
        }


@pytest.mark.system
@pytest.mark.slow
async def test_late_samples_do_not_take_the_others_with_them(
    receiver: Receiver, tmp_path: Path
) -> None:
    start_ms = SystemClock().utc_ms() // 1000 * 1000 - 1_800_000
    pdu = layout(points=1)
    async with sending(tmp_path / "spool", receiver) as writer:
        for second in (10, 11):
            writer.sink.put(scan(pdu, [float(second)], at_ms=start_ms + 1000 * second))
        await until(lambda: writer.health().sent_samples == 2)
        for second in (5, 12):
            writer.sink.put(scan(pdu, [float(second)], at_ms=start_ms + 1000 * second))
        await until(lambda: writer.health().sent_samples + writer.health().refused_samples == 4)
        refused = writer.health().refused_samples
    got = [v for _, v in receiver.raw(METRIC)[pdu.points[0].id.part]]
    assert refused == (1 if isinstance(receiver, Prometheus) else 0)
    assert sorted(got) == ([10.0, 11.0, 12.0] if refused else [5.0, 10.0, 11.0, 12.0])
