"""The streams, over a real socket: what is sent, what is lost, and how many may listen."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx2
import pytest
import uvicorn
from fastapi import FastAPI

from api.hall import Feed, Listener, Refused
from api.security import Role
from tests.api.hall import MemoryHall, alarm

EVENTS = "/api/v1/events"


@dataclass(frozen=True)
class Event:
    """One event of a stream."""

    name: str
    data: str


async def events_of(answer: httpx2.Response) -> AsyncIterator[Event]:
    """The events of a stream, by the rules of the standard."""
    name, data = "message", list[str]()
    async for line in answer.aiter_lines():
        if not line:
            if data:
                yield Event(name, "\n".join(data))
            name, data = "message", []
        elif line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line.startswith("data: "):
            data.append(line.removeprefix("data: "))


@pytest.fixture
async def address(app: FastAPI) -> AsyncIterator[str]:
    config = uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error", lifespan="off")
    server = uvicorn.Server(config)
    task = asyncio.create_task(server._serve())
    async with asyncio.timeout(10):
        while not server.started:  # noqa: ASYNC110 - uvicorn has no event for it
            await asyncio.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    yield f"http://127.0.0.1:{port}"
    server.should_exit = server.force_exit = True
    await task


@asynccontextmanager
async def stream(
    address: str, path: str, headers: dict[str, str], cookies: dict[str, str] | None = None
) -> AsyncIterator[AsyncIterator[Event]]:
    async with (
        asyncio.timeout(20),
        httpx2.AsyncClient(base_url=address, cookies=cookies, timeout=10.0) as client,
        client.stream("GET", path, headers=headers) as answer,
    ):
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        yield events_of(answer)


async def test_every_cycle_and_every_change_of_an_alarm_is_sent(
    address: str, hall: MemoryHall, as_role: dict[Role, dict[str, str]]
) -> None:
    async with stream(address, EVENTS, as_role[Role.VIEWER]) as events:
        first = await anext(events)
        assert first.name == "cycle"
        assert json.loads(first.data)["cycle"] == 1
        hall.run_cycle([alarm("leak:r01", "water at r01\nand more", numbers={"level": 0.4})])
        told, cycle = await anext(events), await anext(events)
        assert told.name == "alarm"
        data = json.loads(told.data)
        assert (data["key"], data["severity"], data["active"]) == ("leak:r01", "warning", True)
        assert data["text"] == "water at r01\nand more"
        assert data["numbers"] == {"level": 0.4}
        found = json.loads(cycle.data)
        assert (found["cycle"], found["state"]) == (2, "bad")
        assert found["headroom_w"] < 0


async def test_the_page_gets_each_part_once_and_then_only_what_changed(
    address: str, hall: MemoryHall, keys: dict[Role, str]
) -> None:
    async with httpx2.AsyncClient(base_url=address) as client:
        await client.post("/login", data={"key": keys[Role.VIEWER]})
        cookies = dict(client.cookies)
    async with stream(address, "/live", {}, cookies) as events:
        hall.clock.turn(5)
        task = asyncio.create_task(_collect(events, 5))
        await _published(hall)
        first = await task
        assert [event.name for event in first] == ["top", "alarms", "cards", "racks", "elements"]
        assert "Alarms that need a person" in first[1].data
        assert first[3].data.startswith("<tr")
        hall.clock.turn(5)
        hall.run_cycle([alarm("leak:r01", "<b>water</b>")])
        names = {event.name: event.data for event in await _collect(events, 3)}
        assert set(names) == {"top", "alarms", "cards"}
        assert "&lt;b&gt;water&lt;/b&gt;" in names["alarms"]


async def _collect(events: AsyncIterator[Event], count: int) -> list[Event]:
    return [await anext(events) for _ in range(count)]


async def _published(hall: MemoryHall) -> None:
    """One cycle as soon as somebody listens."""
    while not hall.feed.listeners:  # noqa: ASYNC110 - the listener comes over a socket
        await asyncio.sleep(0.01)
    hall.run_cycle()


async def test_a_reader_who_leaves_is_let_go(
    address: str, hall: MemoryHall, as_role: dict[Role, dict[str, str]]
) -> None:
    async with stream(address, EVENTS, as_role[Role.VIEWER]) as events:
        await anext(events)
        assert hall.feed.listeners == 1
    async with asyncio.timeout(5):
        while hall.feed.listeners:
            hall.run_cycle()
            await asyncio.sleep(0.02)


async def test_one_stream_too_many_is_refused_before_it_begins(
    hall: MemoryHall, client: httpx2.AsyncClient, as_role: dict[Role, dict[str, str]]
) -> None:
    hall.feed = Feed(listeners=1)
    with hall.feed.listen():
        answer = await client.get(EVENTS, headers=as_role[Role.VIEWER])
        assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
        with pytest.raises(Refused), hall.feed.listen():
            pass
    assert hall.feed.has_room


async def test_a_slow_reader_loses_the_oldest_and_knows_how_many(hall: MemoryHall) -> None:
    listener = Listener(room=3)
    cycles = [hall.run_cycle() for _ in range(5)]
    for cycle in cycles:
        listener.put(cycle)
    assert listener.lost == 2
    assert [await listener.next() for _ in range(3)] == cycles[2:]


async def test_a_reader_is_told_of_a_gap(
    address: str, hall: MemoryHall, as_role: dict[Role, dict[str, str]]
) -> None:
    hall.feed = Feed(room=2)
    async with stream(address, EVENTS, as_role[Role.VIEWER]) as events:
        await anext(events)
        for _ in range(10):
            hall.run_cycle()
        seen = [await anext(events) for _ in range(3)]
    assert (seen[0].name, json.loads(seen[0].data)) == ("gap", {"lost": 8})
    assert [json.loads(event.data)["cycle"] for event in seen[1:]] == [10, 11]


async def test_streams_end_with_the_feed_and_after_a_quarter_of_an_hour(
    address: str, hall: MemoryHall, as_role: dict[Role, dict[str, str]]
) -> None:
    async with stream(address, EVENTS, as_role[Role.VIEWER]) as events:
        await anext(events)
        hall.clock.turn(901)
        hall.run_cycle()
        assert [event.name async for event in events] == ["cycle"]
    async with stream(address, EVENTS, as_role[Role.VIEWER]) as events:
        await anext(events)
        hall.feed.close()
        assert [event async for event in events] == []
    async with httpx2.AsyncClient(base_url=address) as client:
        answer = await client.get(EVENTS, headers=as_role[Role.VIEWER])
        assert answer.status_code == 503


def test_the_feed_remembers_alarms_and_a_trend_with_gaps(hall: MemoryHall) -> None:
    feed = hall.feed
    hall.run_cycle([alarm("leak:r01", "water")])
    assert [a.key for a in feed.active_alarms()] == ["leak:r01"]
    hall.run_cycle([alarm("leak:r01", "gone", active=False)])
    assert feed.active_alarms() == ()
    before = len(feed.trend("hall.power_w"))
    unknown: dict[str, Any] = {"hall": {"power_w": None}}
    for facts in (unknown, None):
        hall.clock.turn(5)
        hall.run_cycle(efficiency=facts)
    assert [value for _, value in feed.trend("hall.power_w")[before:]] == [None, None]
