"""Sending samples away: what is tried again, what is given up, and whom it never holds up."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import httpx2
import pytest

from api.hall import RemoteHealth
from api.remote_write import Fanout, RemoteWriter, headers_of, naming_of
from api.security import Role
from api.service.workers import InlineWorkers
from api.web.overview import top
from api.webhooks import Answer, SendFault
from facility.checking import examine
from facility.clock import LoopClock, VirtualTimeLoop
from facility.config import AuthConfig, RemoteWrite, SecretSource
from facility.store import open_store
from facility.store.remote import Naming, RemoteSink, Spool
from tests.api.hall import MemoryHall
from tests.facility.store.plant import START_MS, layout, scan
from tests.facility.store.remote.wire import number, read

PDU = layout(points=1)


class Receiver:
    """Answers as told, and remembers what it took."""

    def __init__(self, clock: LoopClock, answer: Callable[[int], Answer | SendFault]) -> None:
        self._clock = clock
        self._answer = answer
        self.tries: list[tuple[float, list[float]]] = []
        self.taken: list[float] = []
        self.headers: Mapping[str, str] = {}

    async def __call__(self, url: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        (samples,) = read(body).values()
        values = [number(raw) for _, raw in samples]
        self.headers = headers
        self.tries.append((self._clock.monotonic_s(), values))
        answer = self._answer(len(self.tries))
        if isinstance(answer, SendFault):
            raise answer
        if answer.status < 300:
            self.taken += values
        return answer


async def pretend(
    folder: Path, answer: Callable[[int], Answer | SendFault], seconds: int, wait_s: float
) -> tuple[RemoteWriter, Receiver]:
    """A scan a second, for some seconds, and a while to send them."""
    clock = LoopClock(asyncio.get_running_loop(), START_MS)
    receiver = Receiver(clock, answer)
    sink = RemoteSink(Spool(folder, 1 << 20), Naming())
    writer = RemoteWriter(sink, "http://x/", {}, receiver, InlineWorkers(), clock, random.Random(1))
    task = asyncio.create_task(writer.run())
    for second in range(seconds):
        sink.put(scan(PDU, [float(second)], at_ms=START_MS + 1000 * second))
        await asyncio.sleep(1.0)
    await asyncio.sleep(wait_s)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    sink.close()
    return writer, receiver


def run(
    folder: Path, answer: Callable[[int], Answer | SendFault], seconds: int = 10, wait_s: float = 90
) -> tuple[RemoteWriter, Receiver]:
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(pretend(folder, answer, seconds, wait_s))


def test_all_goes_out_in_order_with_the_protocols_headers(tmp_path: Path) -> None:
    writer, receiver = run(tmp_path, lambda n: Answer(204))
    assert receiver.taken == [float(n) for n in range(10)]
    assert receiver.headers["content-encoding"] == "snappy"
    assert receiver.headers["content-type"] == "application/x-protobuf"
    assert receiver.headers["x-prometheus-remote-write-version"] == "0.1.0"
    health = writer.health()
    assert (health.error, health.sent_samples, health.waiting_bytes) == (None, 10, 0)
    assert health.oldest_ms is None


@pytest.mark.parametrize(
    "fault", [Answer(500), Answer(503), Answer(429), SendFault("refused")], ids=str
)
def test_network_faults_5xx_and_429_are_tried_again_and_nothing_is_lost(
    tmp_path: Path, fault: Answer | SendFault
) -> None:
    writer, receiver = run(tmp_path, lambda n: fault if n <= 6 else Answer(200))
    assert receiver.taken == [float(n) for n in range(10)]
    waits = [b - a for (a, _), (b, _) in zip(receiver.tries, receiver.tries[1:7], strict=False)]
    assert waits == sorted(waits), "the pauses grow"
    assert waits[-1] > 8 * waits[0]
    assert writer.health().error is None


def test_it_waits_as_long_as_it_is_asked_to(tmp_path: Path) -> None:
    _, receiver = run(tmp_path, lambda n: Answer(429, 40.0) if n == 1 else Answer(200))
    assert receiver.tries[1][0] - receiver.tries[0][0] >= 40.0
    assert receiver.taken == [float(n) for n in range(10)]


def test_what_is_refused_for_good_is_counted_and_the_rest_goes_on(tmp_path: Path) -> None:
    writer, receiver = run(
        tmp_path, lambda n: Answer(400) if n in (2, 3) else Answer(200), wait_s=5
    )
    assert receiver.taken == [float(n) for n in range(10) if n not in (1, 2)]
    health = writer.health()
    assert (health.refused_samples, health.sent_samples, health.error) == (2, 8, None)


def test_a_standing_refusal_is_named_in_the_health(tmp_path: Path) -> None:
    writer, _ = run(tmp_path, lambda n: Answer(401))
    assert writer.health().error == "the receiver refuses samples: it answers 401"
    assert writer.health().refused_samples == 10


def test_a_full_disk_stopped_the_sending_that_would_have_given_it_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Spool, "_write_place", full)
    writer, receiver = run(tmp_path, lambda n: Answer(200), wait_s=5)
    assert receiver.taken == [float(n) for n in range(10)]
    assert writer.health().error == "how far we are cannot be noted: No space left on device"


def test_a_dead_receiver_costs_the_store_nothing_and_a_restart_sends_all(tmp_path: Path) -> None:
    async def hang(url: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        await asyncio.Event().wait()
        raise AssertionError

    async def hall() -> None:
        clock = LoopClock(asyncio.get_running_loop(), START_MS)
        store = open_store("sqlite://", clock, inline=True)
        sink = RemoteSink(Spool(tmp_path, 1 << 20), Naming())
        both = Fanout(store, sink)
        writer = RemoteWriter(sink, "http://x/", {}, hang, InlineWorkers(), clock, random.Random(1))
        task = asyncio.create_task(writer.run())
        for second in range(900):
            both.put(scan(PDU, [float(second)], at_ms=clock.utc_ms()))
            await asyncio.sleep(1.0)
        assert clock.monotonic_s() == pytest.approx(900.0), "nobody waited for the receiver"
        assert store.counts().result().scans == 900
        health = writer.health()
        assert health.waiting_bytes > 890 * 100
        assert health.oldest_ms == START_MS
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        sink.close()
        store.close()

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(hall())
    _, receiver = run(tmp_path, lambda n: Answer(200), seconds=0, wait_s=5)
    assert receiver.taken == [float(n) for n in range(900)]


def test_who_we_are(root: Path) -> None:
    settings = RemoteWrite(url="http://x/", tenant="hall-1", labels={"site": "oslo"})
    secret = SecretSource(env="X")
    basic = headers_of(settings, AuthConfig(user="wk", secret=secret), "pw")
    assert basic == {"authorization": "Basic d2s6cHc=", "x-scope-orgid": "hall-1"}
    assert headers_of(settings, AuthConfig(secret=secret), "tok")["authorization"] == "Bearer tok"
    assert "authorization" not in headers_of(settings, None, "")


FILE = """
store:
  url: sqlite:///hall.db
  remote_write:
    url: {url}
    labels: {{{labels}}}
    spool: {spool}
"""


def written(root: Path, to: Path, url: str, labels: str, spool: str) -> Path:
    text = (root / "docs" / "examples" / "row.yaml").read_text("utf-8")
    kept = text[: text.index("\nstore:")] if "\nstore:" in text else text
    file = to / "hall.yaml"
    file.write_text(kept + FILE.format(url=url, labels=labels, spool=spool))
    return file


def test_the_file_says_where_to_and_faults_are_named(root: Path, tmp_path: Path) -> None:
    from drivers.known import DriverKnowledge

    known = DriverKnowledge.shipped()
    good = written(root, tmp_path, "http://vm:8428/api/v1/write", "site: oslo", "2 GB")
    loaded, problems = examine(str(good), known)
    assert loaded is not None, problems
    settings = loaded.facility.store.remote_write
    assert settings is not None
    assert settings.spool == 2e9
    naming = naming_of(loaded.facility, settings)
    assert naming.labels == {"hall": loaded.facility.site.name, "site": "oslo"}
    node, entry = next(iter(loaded.facility.nodes.items()))
    assert naming.of_device[node] == {"rack": entry.rack}
    measured = [d for d in naming.of_device.values() if "element" in d]
    assert measured or not any(d.measures.element for d in loaded.facility.devices.values())
    for url, labels, spool, words in (
        ("vm:8428/write", "", "1 GB", "http"),
        ("http://wk:pw@vm/write", "", "1 GB", "password"),
        ("http://vm/write", "device: x", "1 GB", "by themselves"),
        ("http://vm/write", '"1x": y', "1 GB", "1x"),
        ("http://vm/write", "", "1 kB", "at least"),
    ):
        bad = written(root, tmp_path, url, labels, spool)
        _, problems = examine(str(bad), known)
        assert any(words in str(p) for p in problems), (url, labels, spool, problems)


async def test_its_state_is_in_the_metrics_and_on_the_page(
    client: httpx2.AsyncClient, as_role: dict[Role, dict[str, str]], hall: MemoryHall
) -> None:
    quiet = await client.get("/metrics", headers=as_role[Role.VIEWER])
    assert "remote_write" not in quiet.text
    status = hall.status()
    health = RemoteHealth("the receiver answers 503", 7, 2, 3, 1, 4096, START_MS)
    hall.status = lambda: replace(status, remote=health)  # type: ignore[method-assign]
    told = await client.get("/metrics", headers=as_role[Role.VIEWER])
    for line in (
        "wattkeeper_remote_write_up 0.0",
        "wattkeeper_remote_write_waiting_bytes 4096.0",
        'wattkeeper_remote_write_samples_total{end="sent"} 7.0',
        'wattkeeper_remote_write_samples_total{end="refused"} 2.0',
        'wattkeeper_remote_write_samples_total{end="dropped"} 3.0',
        "wattkeeper_remote_write_damaged_records_total 1.0",
    ):
        assert line in told.text
    notes = top(hall)["notes"]
    assert "Remote-write: the receiver answers 503. Samples wait on the disk." in notes
