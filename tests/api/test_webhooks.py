"""Deliveries against a real receiver: signed, retried, restarted, never redirected."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.hall import Unknown
from api.webhooks import (
    WAITS_S,
    Courier,
    HttpPost,
    Sink,
    decode_secret,
    issue_secret,
    sign,
    sinks_of,
)
from facility.store import Store, open_store
from facility.store.records import Delivery
from tests.api.hall import START_MS, SetClock, alarm, demo_facility

KEY = bytes(range(32))
SECRET = "whsec_" + base64.b64encode(KEY).decode()


@dataclass
class Receiver:
    """A small HTTP server that keeps what it gets and answers what it is told to."""

    answers: list[str] = field(default_factory=list)
    got: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)
    silent: bool = False
    url: str = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        first, *lines = head.strip().split("\r\n")
        headers = {k.lower(): v for k, _, v in (line.partition(": ") for line in lines)}
        body = await reader.readexactly(int(headers["content-length"]))
        self.got.append((first, headers, body))
        if self.silent:
            await reader.read()
        status = self.answers.pop(0) if self.answers else "204 No Content"
        writer.write(
            f"HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".encode()
        )
        await writer.drain()
        writer.close()


@asynccontextmanager
async def receiving() -> AsyncIterator[Receiver]:
    receiver = Receiver()
    server = await asyncio.start_server(receiver.serve, "127.0.0.1", 0)
    receiver.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/hook"
    try:
        yield receiver
    finally:
        server.close()


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with receiving() as made:
        yield made


@pytest.fixture
async def post() -> AsyncIterator[HttpPost]:
    made = HttpPost(timeout_s=2.0)
    yield made
    await made.close()


@pytest.fixture
def clock() -> SetClock:
    return SetClock()


@pytest.fixture
def store(clock: SetClock) -> Iterator[Store]:
    made = open_store("sqlite://", clock, inline=True)
    yield made
    made.close()


def courier_of(store: Store, clock: SetClock, url: str, post: HttpPost) -> Courier:
    return Courier(
        store,
        {"pager": Sink(url, KEY)},
        clock,
        random.Random(7),
        post,
        hall="Demo hall",
        link="http://127.0.0.1:8080/",
    )


def queue(store: Store, count: int = 1, **more: object) -> None:
    events = [
        alarm(f"leak:r0{i + 1}", f"water at r0{i + 1}", numbers={"level": 0.4, "bad": None})
        for i in range(count)
    ]
    store.record_alarms(events, ["pager"]).result()


def only(store: Store) -> Delivery:
    (delivery,) = store.deliveries().result()
    return delivery


def verified(headers: dict[str, str], body: bytes) -> bool:
    """The check of the standard, written out from its text."""
    signed = b".".join(
        (headers["webhook-id"].encode(), headers["webhook-timestamp"].encode(), body)
    )
    right = base64.b64encode(hmac.new(KEY, signed, hashlib.sha256).digest()).decode()
    return f"v1,{right}" in headers["webhook-signature"].split(" ")


def test_the_signature_is_that_of_the_standards_example() -> None:
    key = decode_secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    body = b'{"test": 2432232314}'
    assert (
        sign(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, body)
        == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    )


async def test_an_alarm_arrives_signed_with_text_numbers_hall_and_link(
    store: Store, clock: SetClock, receiver: Receiver, post: HttpPost
) -> None:
    queue(store)
    assert await courier_of(store, clock, receiver.url, post).once() == 1
    ((first, headers, body),) = receiver.got
    assert first == "POST /hook HTTP/1.1"
    assert verified(headers, body)
    assert not verified(headers, body + b" ")
    told = json.loads(body)
    assert told["type"] == "alarm.raised"
    assert told["timestamp"] == "2026-11-30T15:00:00.000Z"
    assert told["data"]["text"] == "water at r01"
    assert told["data"]["severity"] == "warning"
    assert told["data"]["numbers"] == {"level": 0.4, "bad": None}
    assert told["data"]["hall"] == "Demo hall"
    assert told["data"]["link"] == "http://127.0.0.1:8080/"
    assert (only(store).status, only(store).http_status) == ("delivered", 204)


async def test_a_failing_sink_is_tried_again_later_with_the_same_id(
    store: Store, clock: SetClock, receiver: Receiver, post: HttpPost
) -> None:
    receiver.answers = ["500 Oops", "503 Busy"]
    queue(store)
    courier = courier_of(store, clock, receiver.url, post)
    await courier.once()
    assert (only(store).status, only(store).http_status) == ("pending", 500)
    assert await courier.once() == 0
    clock.turn(WAITS_S[0] * 1.2)
    assert await courier.once() == 1
    clock.turn(WAITS_S[1] * 1.2)
    assert await courier.once() == 1
    assert (only(store).status, only(store).attempts) == ("delivered", 3)
    assert len({headers["webhook-id"] for _, headers, _ in receiver.got}) == 1
    assert len({body for _, _, body in receiver.got}) == 1
    assert len({headers["webhook-timestamp"] for _, headers, _ in receiver.got}) == 3
    assert all(verified(headers, body) for _, headers, body in receiver.got)


async def test_a_sink_that_is_down_or_silent_is_tried_again(
    store: Store, clock: SetClock, receiver: Receiver
) -> None:
    async with receiving() as gone:
        closed_url = gone.url
    queue(store)
    impatient = HttpPost(timeout_s=0.2)
    courier = courier_of(store, clock, closed_url, impatient)
    await courier.once()
    assert only(store).status == "pending"
    assert "Connect" in (only(store).error or "")
    receiver.silent = True
    clock.turn(60)
    await courier_of(store, clock, receiver.url, impatient).once()
    assert (only(store).status, only(store).attempts) == ("pending", 2)
    assert "no answer" in (only(store).error or "")
    await impatient.close()


async def test_redirects_are_failures_and_not_followed(
    store: Store, clock: SetClock, receiver: Receiver, post: HttpPost
) -> None:
    async with receiving() as elsewhere:
        receiver.answers = [f"307 Elsewhere\r\nlocation: {elsewhere.url}"]
        queue(store)
        await courier_of(store, clock, receiver.url, post).once()
        assert (only(store).status, only(store).http_status) == ("pending", 307)
        assert elsewhere.got == []


async def test_410_disables_the_sink_until_a_test_succeeds(
    store: Store, clock: SetClock, receiver: Receiver, post: HttpPost
) -> None:
    receiver.answers = ["410 Gone"]
    queue(store)
    courier = courier_of(store, clock, receiver.url, post)
    await courier.once()
    assert (only(store).status, only(store).http_status) == ("failed", 410)
    store.record_alarms([alarm("leak:r08", "water", START_MS + 1)], ["pager"]).result()
    clock.turn(1)
    await courier.once()
    assert [d.status for d in store.deliveries().result()] == ["failed", "failed"]
    assert len(receiver.got) == 1
    assert (await courier.test("pager")).delivered
    store.record_alarms([alarm("leak:r07", "water", START_MS + 2)], ["pager"]).result()
    await courier.once()
    assert store.deliveries().result()[0].status == "delivered"


async def test_after_the_last_try_it_has_failed_and_says_so(
    store: Store, clock: SetClock, receiver: Receiver, post: HttpPost
) -> None:
    receiver.answers = ["500 Oops"] * (len(WAITS_S) + 1)
    queue(store)
    courier = courier_of(store, clock, receiver.url, post)
    tries = 0
    while only(store).status == "pending":
        tries += await courier.once()
        clock.turn(3600 * 1.3)
    assert tries == len(WAITS_S) + 1
    assert (only(store).status, only(store).error) == ("failed", "answered 500")
    assert await courier.once() == 0


async def test_the_wait_that_a_sink_asks_for_is_kept(
    store: Store, clock: SetClock, receiver: Receiver, post: HttpPost
) -> None:
    receiver.answers = ["429 Slow\r\nretry-after: 120"]
    queue(store)
    courier = courier_of(store, clock, receiver.url, post)
    await courier.once()
    clock.turn(100)
    assert await courier.once() == 0
    clock.turn(21)
    assert await courier.once() == 1
    assert only(store).status == "delivered"


async def test_waits_are_spread_so_that_a_restart_is_no_stampede(
    store: Store, clock: SetClock, receiver: Receiver, post: HttpPost
) -> None:
    receiver.answers = ["500 Oops"] * 9
    queue(store, 9)
    await courier_of(store, clock, receiver.url, post).once()
    waits = {(d.next_try_ms or 0) - clock.ms for d in store.deliveries().result()}
    assert len(waits) > 5
    assert all(1600 <= wait <= 2400 for wait in waits)


async def test_killed_between_claim_and_finish_it_is_delivered_by_the_next_one(
    tmp_path: Path, clock: SetClock, receiver: Receiver, post: HttpPost
) -> None:
    url = f"sqlite:///{tmp_path / 'hall.db'}"
    first = open_store(url, clock, inline=True)
    queue(first)
    (claimed,) = first.claim_deliveries(10, clock.ms).result()
    first.close()
    again = open_store(url, clock, inline=True)
    courier = courier_of(again, clock, receiver.url, post)
    assert await courier.once() == 0
    clock.turn(61)
    assert await courier.once() == 1
    assert only(again).status == "delivered"
    assert receiver.got[0][1]["webhook-id"] == claimed.message
    again.close()


async def test_killed_after_sending_the_repetition_has_the_same_id(
    store: Store, clock: SetClock, receiver: Receiver, post: HttpPost
) -> None:
    queue(store)
    courier = courier_of(store, clock, receiver.url, post)
    (claimed,) = store.claim_deliveries(10, clock.ms).result()
    await courier._try("pager", claimed.message, b"{}")
    clock.turn(61)
    await courier.once()
    ids = [headers["webhook-id"] for _, headers, _ in receiver.got]
    assert len(ids) == 2
    assert len(set(ids)) == 1


async def test_the_loop_delivers_what_comes_and_ends_when_cancelled(
    store: Store, clock: SetClock, receiver: Receiver, post: HttpPost
) -> None:
    task = asyncio.create_task(courier_of(store, clock, receiver.url, post).run())
    queue(store, 3)
    async with asyncio.timeout(10):
        while any(d.status != "delivered" for d in store.deliveries().result()):  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(receiver.got) == 3


async def test_a_test_message_says_what_the_sink_said(
    store: Store, clock: SetClock, receiver: Receiver, post: HttpPost
) -> None:
    receiver.answers = ["404 Not Found"]
    courier = courier_of(store, clock, receiver.url, post)
    said = await courier.test("pager")
    assert (said.delivered, said.http_status, said.error) == (False, 404, "answered 404")
    assert verified(*receiver.got[0][1:])
    assert json.loads(receiver.got[0][2])["type"] == "test"
    assert (await courier.test("pager")).delivered
    with pytest.raises(Unknown):
        await courier.test("nope")


async def test_a_sink_that_left_the_file_fails_its_deliveries(
    store: Store, clock: SetClock, receiver: Receiver, post: HttpPost
) -> None:
    store.record_alarms([alarm("leak:r01", "water")], ["retired"]).result()
    await courier_of(store, clock, receiver.url, post).once()
    assert (only(store).status, only(store).error) == ("failed", "no such sink any more")
    assert receiver.got == []


def test_only_causes_are_told_and_pages_only_sinks_hear_only_pages() -> None:
    facility = demo_facility()
    raw = {
        name: {"url": "http://127.0.0.1:9/", "secret": {"env": "S"}, "pages_only": only_pages}
        for name, only_pages in (("all", False), ("night", True))
    }
    alerts = type(facility.alerts).model_validate({"webhooks": raw})
    choose = sinks_of(facility.model_copy(update={"alerts": alerts}))
    assert list(choose(alarm("leak:r01", "water", page=True))) == ["all", "night"]
    assert list(choose(alarm("leak:r01", "water", page=False))) == ["all"]
    assert list(choose(alarm("leak:r01", "water", parent="leak:hall"))) == []


@pytest.mark.parametrize("text", ["", "whsec_", "whsec_!!!", "whsec_" + "A" * 8, "hunter2"])
def test_a_secret_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="webhook secret"):
        decode_secret(text)


def test_a_new_secret_reads_back() -> None:
    assert len(decode_secret(issue_secret())) == 32
    assert decode_secret(SECRET) == KEY


@given(st.binary(max_size=200), st.integers(0, 2**40), st.text(max_size=20))
def test_a_signature_verifies_for_its_own_message_only(
    body: bytes, stamp_s: int, message: str
) -> None:
    signature = sign(KEY, message, stamp_s, body)
    headers = {
        "webhook-id": message,
        "webhook-timestamp": str(stamp_s),
        "webhook-signature": signature,
    }
    assert verified(headers, body)
    assert not verified(headers | {"webhook-timestamp": str(stamp_s + 1)}, body)
