"""Deliver what the outbox holds: signed (standard-webhooks 1.0), retried, at least once.

State is in the outbox alone: a delivery is claimed for a minute, tried once, and its end written
down. A worker that dies between the two is followed by one that tries again with the same
`webhook-id`, by which receivers know a repetition. Sinks stand in the facility file, so their
addresses are the site's own choice; redirects are never followed and answers are not read.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import json
import random
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import httpx2
import structlog

from api.hall import SinkTest, Unknown
from api.picture import finite, iso
from facility.clock import Clock
from facility.commands import AlarmEvent
from facility.config import Facility
from facility.store import Store
from facility.store.errors import StoreError
from facility.store.records import Delivery

SECRET_PREFIX: Final = "whsec_"
TIMEOUT_S: Final = 10.0
IN_FLIGHT: Final = 32
POLL_S: Final = 0.25
OUTAGE_S: Final = 2.0
STORE_WAIT_S: Final = 15.0
#: Wait after the n-th failed try; a page five minutes late is a missed page: the first are short.
WAITS_S: Final = (2.0, 10.0, 30.0, 120.0, 600.0, *(3600.0,) * 24)
JITTER: Final = 0.2
GONE: Final = 410
LONGEST_WAIT_S: Final = 3600.0

_log = structlog.get_logger("webhooks")


@dataclass(frozen=True, slots=True)
class Sink:
    """Where messages go: address and signing secret (decoded)."""

    url: str
    secret: bytes


@dataclass(frozen=True, slots=True)
class Answer:
    """What a sink said: its status, and how long it asks us to wait (s)."""

    status: int
    retry_after_s: float | None = None


class Post(Protocol):
    """Sends one message; raises SendFault when there is no answer."""

    async def __call__(self, url: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        """One try."""


class SendFault(Exception):
    """No answer: refused, timed out, or not HTTP."""


def decode_secret(text: str) -> bytes:
    """The key of a `whsec_BASE64` secret.

    Raises:
        ValueError: not base64, or shorter than 16 bytes.
    """
    try:
        key = base64.b64decode(text.removeprefix(SECRET_PREFIX), validate=True)
    except binascii.Error as error:
        raise ValueError(f"a webhook secret is whsec_ and base64: {error}") from None
    if len(key) < 16:
        raise ValueError("a webhook secret has at least 16 bytes")
    return key


def issue_secret() -> str:
    """A new random secret, as people pass it on."""
    return SECRET_PREFIX + base64.b64encode(secrets.token_bytes(32)).decode()


def sign(secret: bytes, message: str, timestamp_s: int, body: bytes) -> str:
    """`v1,BASE64`: HMAC-SHA256 over `id.timestamp.body` (standard-webhooks 1.0.0, symmetric)."""
    signed = f"{message}.{timestamp_s}.".encode() + body
    return "v1," + base64.b64encode(hmac.new(secret, signed, hashlib.sha256).digest()).decode()


def sinks_of(facility: Facility) -> Callable[[AlarmEvent], Sequence[str]]:
    """Which sinks hear of an event: all, but a `pages_only` one only of pages.

    An alarm that another one explains is told by that one alone.
    """
    wanted = facility.alerts.webhooks

    def choose(event: AlarmEvent) -> Sequence[str]:
        if event.parent is not None:
            return ()
        return [name for name, sink in wanted.items() if event.page or not sink.pages_only]

    return choose


class HttpPost:
    """`Post` over HTTP: no redirects, no proxies of the environment, the answer is not read."""

    def __init__(self, timeout_s: float = TIMEOUT_S) -> None:
        self._timeout_s = timeout_s
        self._client = httpx2.AsyncClient(
            follow_redirects=False, trust_env=False, timeout=timeout_s
        )

    async def __call__(self, url: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        """One try, at most `timeout_s` in all."""
        try:
            async with (
                asyncio.timeout(self._timeout_s),
                self._client.stream("POST", url, content=body, headers=dict(headers)) as reply,
            ):
                return Answer(reply.status_code, _seconds(reply.headers.get("retry-after")))
        except TimeoutError:
            raise SendFault(f"no answer in {self._timeout_s:.0f} s") from None
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise SendFault(f"{type(error).__name__}: {error}") from error

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()


def _seconds(text: str | None) -> float | None:
    return float(text) if text is not None and text.isascii() and text.isdigit() else None


class Courier:
    """Takes what is due from the outbox and delivers it; `run` never ends by itself."""

    def __init__(
        self,
        store: Store,
        sinks: Mapping[str, Sink],
        clock: Clock,
        rng: random.Random,
        post: Post,
        *,
        hall: str,
        link: str,
    ) -> None:
        self._store = store
        self._sinks = dict(sinks)
        self._clock = clock
        self._rng = rng
        self._post = post
        self._hall = hall
        self._link = link.rstrip("/")
        self._gone: set[str] = set()

    async def run(self) -> None:
        """Deliver for ever; an outage of the database is logged once and waited out."""
        up = True
        async with asyncio.TaskGroup() as tasks:
            busy: set[asyncio.Task[None]] = set()
            while True:
                try:
                    due = await self._claim(IN_FLIGHT - len(busy)) if len(busy) < IN_FLIGHT else []
                    up = True
                except (StoreError, TimeoutError) as error:
                    if up:
                        _log.warning("outbox not reachable", error=str(error))
                    up, due = False, []
                for delivery in due:
                    task = tasks.create_task(self._deliver(delivery))
                    busy.add(task)
                    task.add_done_callback(busy.discard)
                await asyncio.sleep(POLL_S if up else OUTAGE_S)

    async def once(self) -> int:
        """Try everything that is due now, and return how many that was."""
        due = await self._claim(IN_FLIGHT)
        await asyncio.gather(*(self._deliver(delivery) for delivery in due))
        return len(due)

    async def test(self, sink: str) -> SinkTest:
        """One signed message of type `test`, sent now, not repeated.

        Raises:
            Unknown: no such sink.
        """
        if sink not in self._sinks:
            raise Unknown(f"no webhook {sink!r} in the facility file")
        now_ms = self._clock.utc_ms()
        text = "This is a test; nothing is wrong."
        body = self._body("test", now_ms, {"text": text})
        started_s = self._clock.monotonic_s()
        status, error, _ = await self._try(sink, f"msg_test_{now_ms}", body)
        seconds = round(self._clock.monotonic_s() - started_s, 3)
        if error is None:
            self._gone.discard(sink)
        return SinkTest(sink, error is None, status, error, seconds)

    async def _claim(self, limit: int) -> list[Delivery]:
        async with asyncio.timeout(STORE_WAIT_S):
            claimed = self._store.claim_deliveries(limit, self._clock.utc_ms())
            return await asyncio.wrap_future(claimed)

    def _body(self, kind: str, at_ms: int, data: Mapping[str, Any]) -> bytes:
        more = {"hall": self._hall, "link": f"{self._link}/"}
        whole = {"type": kind, "timestamp": iso(at_ms), "data": finite({**data, **more})}
        return json.dumps(whole, ensure_ascii=False, allow_nan=False, sort_keys=True).encode()

    async def _try(
        self, sink: str, message: str, body: bytes
    ) -> tuple[int | None, str | None, float | None]:
        """(status, what went wrong or None, seconds the sink asks us to wait) of one try."""
        to = self._sinks[sink]
        stamp_s = self._clock.utc_ms() // 1000
        headers = {
            "content-type": "application/json",
            "user-agent": "wattkeeper",
            "webhook-id": message,
            "webhook-timestamp": str(stamp_s),
            "webhook-signature": sign(to.secret, message, stamp_s, body),
        }
        try:
            answer = await self._post(to.url, body, headers)
        except SendFault as fault:
            return None, str(fault)[:500], None
        if 200 <= answer.status < 300:
            return answer.status, None, None
        return answer.status, f"answered {answer.status}", answer.retry_after_s

    async def _deliver(self, delivery: Delivery) -> None:
        sink = delivery.sink
        if sink not in self._sinks or sink in self._gone:
            why = "the sink said 410 Gone" if sink in self._gone else "no such sink any more"
            await self._finish(delivery, None, why, None)
            return
        body = self._body(delivery.type, delivery.created_ms, delivery.body)
        status, error, wait_s = await self._try(sink, delivery.message, body)
        if status == GONE:
            self._gone.add(sink)
            _log.warning("sink is gone; nothing more is sent to it", sink=sink)
            await self._finish(delivery, status, "answered 410 Gone: sink disabled", None)
            return
        await self._finish(
            delivery, status, error, None if error is None else self._next_try_ms(delivery, wait_s)
        )

    def _next_try_ms(self, delivery: Delivery, asked_s: float | None) -> int | None:
        """When to try again after a failure; None once all tries are used."""
        if delivery.attempts > len(WAITS_S):
            return None
        wait_s = WAITS_S[delivery.attempts - 1] * (1.0 + JITTER * (2.0 * self._rng.random() - 1.0))
        wait_s = max(wait_s, min(asked_s or 0.0, LONGEST_WAIT_S))
        return self._clock.utc_ms() + round(wait_s * 1000.0)

    async def _finish(
        self, delivery: Delivery, status: int | None, error: str | None, next_try_ms: int | None
    ) -> None:
        """Write down how a try ended; if that fails, the claim runs out and it is tried again."""
        if error is not None:
            _log.info("not delivered", sink=delivery.sink, id=delivery.message, error=error)
        try:
            async with asyncio.timeout(STORE_WAIT_S):
                ended = self._store.finish_delivery(
                    delivery.id, error is None, status, error, next_try_ms
                )
                await asyncio.wrap_future(ended)
        except (StoreError, TimeoutError) as fault:
            _log.warning("end of a delivery not written", id=delivery.message, error=str(fault))
