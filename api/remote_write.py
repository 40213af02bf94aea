"""Send what the spool holds to Prometheus, VictoriaMetrics or Mimir: remote-write 1.0.

Two tasks: one packs queued scans into the spool each second, the other sends the oldest request,
one at a time, so that order holds. Network faults, 5xx and 429 are tried again for ever, with
back-off and as late as `Retry-After` asks. Any other refusal is of that request alone: it is
counted and left out, as the protocol wants. Neither task touches the control loop or the store.

An answer that is lost makes a request go out twice; the receiver knows the samples (VictoriaMetrics
keeps one of them where it is told to deduplicate, Prometheus answers 400 and keeps the first).
"""

from __future__ import annotations

import asyncio
import base64
import random
from collections.abc import Callable, Mapping
from typing import Final, TypeVar

import structlog

from api.hall import RemoteHealth
from api.webhooks import Post, SendFault
from facility.clock import Clock
from facility.config import AuthConfig, Facility, RemoteWrite
from facility.points import Scan
from facility.ports import SampleSink, Workers
from facility.store.remote import Naming, Record, RemoteSink

T = TypeVar("T")
_log = structlog.get_logger("remote_write")

PACK_S: Final = 1.0
FIRST_WAIT_S: Final = 0.5
LONGEST_WAIT_S: Final = 30.0
LONGEST_ASKED_S: Final = 900.0
HEADERS: Final[Mapping[str, str]] = {
    "content-type": "application/x-protobuf",
    "content-encoding": "snappy",
    "x-prometheus-remote-write-version": "0.1.0",
    "user-agent": "wattkeeper",
}


class Fanout:
    """`SampleSink` that gives each scan to several."""

    def __init__(self, *sinks: SampleSink) -> None:
        self._sinks = sinks

    def put(self, scan: Scan) -> None:
        """Queue one scan everywhere."""
        for sink in self._sinks:
            sink.put(scan)


class RemoteWriter:
    """Packs and sends; `run` never ends by itself.

    Args:
        sink: takes the scans and owns the spool.
        url: of the receiver, e.g. `http://host:9090/api/v1/write`.
        headers: besides those of the protocol (who we are, which tenant).
        post: one HTTP request.
        workers: where the disk is waited for; not those of the solvers.
        clock: of the process.
        rng: jitter.
    """

    def __init__(
        self,
        sink: RemoteSink,
        url: str,
        headers: Mapping[str, str],
        post: Post,
        workers: Workers,
        clock: Clock,
        rng: random.Random,
    ) -> None:
        self.sink = sink
        self._url = url
        self._headers = {**HEADERS, **headers}
        self._post = post
        self._workers = workers
        self._clock = clock
        self._rng = rng
        self._news = asyncio.Event()
        self._error: str | None = None
        self._sent = 0
        self._refused = 0
        self._refusing = False
        self._oldest_ms: int | None = None

    def health(self) -> RemoteHealth:
        """How it is doing."""
        spool = self.sink.spool
        return RemoteHealth(
            self.sink.error or self._error,
            self._sent,
            self._refused,
            self.sink.dropped_samples + spool.dropped_samples,
            spool.damaged,
            spool.waiting_bytes,
            self._oldest_ms,
        )

    async def run(self) -> None:
        """Pack and send for ever; on the way out what is queued goes to the spool."""
        self._news.set()
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._keep_packing())
                tasks.create_task(self._keep_sending())
        finally:
            self.sink.pack()

    async def _keep_packing(self) -> None:
        while True:
            if await self._do(self.sink.pack):
                self._news.set()
            await asyncio.sleep(PACK_S)

    async def _keep_sending(self) -> None:
        wait_s = FIRST_WAIT_S
        while True:
            self._news.clear()
            record = await self._do(self.sink.spool.first)
            if record is None:
                self._oldest_ms = None
                await self._news.wait()
                continue
            self._oldest_ms = record.first_ms
            asked_s = await self._try(record)
            if asked_s is None:
                wait_s = FIRST_WAIT_S
                continue
            pause_s = max(wait_s * self._rng.uniform(0.8, 1.2), min(asked_s, LONGEST_ASKED_S))
            await asyncio.sleep(pause_s)
            wait_s = min(2.0 * wait_s, LONGEST_WAIT_S)

    async def _try(self, record: Record) -> float | None:
        """Send one; None when it is over, else the seconds that the receiver asks us to wait."""
        try:
            answer = await self._post(self._url, record.body, self._headers)
        except SendFault as fault:
            self._failed(str(fault)[:300])
            return 0.0
        if answer.status == 429 or answer.status >= 500:
            self._failed(f"the receiver answers {answer.status}")
            return answer.retry_after_s or 0.0
        if 200 <= answer.status < 300:
            self._sent += record.samples
            if self._error is not None:
                _log.info("remote_write_back", waiting_bytes=self.sink.spool.waiting_bytes)
            self._error, self._refusing = None, False
        else:
            self._refused += record.samples
            self._error = f"the receiver refuses samples: it answers {answer.status}"
            if not self._refusing:
                _log.error("remote_write_refused", status=answer.status, samples=record.samples)
            self._refusing = True
        try:
            await self._do(lambda: self.sink.spool.done(record))
        except OSError as error:
            # Its disk is full or gone. We go on behind it all the same; only a restart would send
            # it again, and each segment that is sent gives the disk room.
            self._failed(f"how far we are cannot be noted: {error.strerror or error}")
        return None

    def _failed(self, why: str) -> None:
        if self._error is None:
            _log.warning("remote_write_fails", error=why)
        self._error = why

    async def _do(self, work: Callable[[], T]) -> T:
        """Blocking work beside the event loop."""
        future = self._workers.submit(work)
        if future.done():
            return future.result()
        return await asyncio.wrap_future(future)


def naming_of(facility: Facility, settings: RemoteWrite) -> Naming:
    """Labels: the hall, those of the file, and what each device measures."""
    of_device: dict[str, dict[str, str]] = {}
    for name, device in facility.devices.items():
        about = device.measures.model_dump(exclude={"nothing"}, exclude_none=True)
        of_device[name] = {key: str(value) for key, value in about.items()}
    for name, node in facility.nodes.items():
        of_device[name] = {"rack": node.rack}
    return Naming({"hall": facility.site.name, **settings.labels}, of_device)


def headers_of(settings: RemoteWrite, auth: AuthConfig | None, secret: str) -> dict[str, str]:
    """Who we are (Basic with a user, else Bearer), and Mimir's tenant."""
    made: dict[str, str] = {}
    if auth is not None and auth.user:
        basic = base64.b64encode(f"{auth.user}:{secret}".encode()).decode()
        made["authorization"] = f"Basic {basic}"
    elif auth is not None:
        made["authorization"] = f"Bearer {secret}"
    if settings.tenant:
        made["x-scope-orgid"] = settings.tenant
    return made
