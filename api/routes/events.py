"""The event stream: one event per finished cycle, and one per change of an alarm."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Final

from fastapi import APIRouter, Depends
from fastapi.sse import EventSourceResponse, ServerSentEvent

from api.hall import Hall, Refused
from api.picture import fact, finite, number, sentence
from api.problems import Problem
from api.routes.deps import HallDep, needs, problems
from api.security import Role
from facility.commands import Decision

router = APIRouter(tags=["events"])

#: A stream ends after this and its reader comes again by itself, with a key that still counts.
STREAM_S: Final = 900.0


def room(hall: HallDep) -> None:
    """Refuse a stream too many before the answer begins.

    Of those that come at once, the ones that find the last place taken meanwhile just end.
    """
    if not hall.feed.has_room:
        raise Problem("unavailable", "too many streams are open already")


def cycle_event(hall: Hall, decision: Decision) -> ServerSentEvent:
    """One finished cycle, in few numbers; the rest is at /api/v1/decisions."""
    text, state = sentence(hall)
    binding = fact(decision, "headroom").get("binding") or {}
    data = {
        "cycle": decision.cycle,
        "at_ms": decision.now_ms,
        "state": state,
        "sentence": text,
        "headroom_w": number(binding.get("headroom_w")),
        "commands": len(decision.commands),
        "withheld": len(decision.withheld),
    }
    return ServerSentEvent(data=data, event="cycle", id=f"{decision.now_ms}-{decision.cycle}")


@router.get(
    "/events",
    response_class=EventSourceResponse,
    summary="Follow the hall (server-sent events)",
    responses=problems("unavailable"),
    dependencies=[Depends(needs(Role.VIEWER)), Depends(room)],
)
async def events(hall: HallDep) -> AsyncIterator[ServerSentEvent]:
    """Events `cycle` (every finished cycle; W, UTC ms), `alarm` (a change of one alarm) and `gap`.

    A reader that is too slow loses the oldest cycles and is told how many by `gap`; what was lost
    stands in /decisions and /alarms/history. A stream ends after 15 min: connect again. A comment
    every 15 s keeps the connection open.
    """
    with contextlib.suppress(Refused), hall.feed.listen() as listener:
        lost = 0
        latest = hall.decision()
        if latest is not None:
            yield cycle_event(hall, latest)
        until_s = hall.clock.monotonic_s() + STREAM_S
        while hall.clock.monotonic_s() < until_s:
            decision = await listener.next()
            if decision is None:
                return
            if listener.lost > lost:
                yield ServerSentEvent(data={"lost": listener.lost - lost}, event="gap")
                lost = listener.lost
            for alarm in decision.alarms:
                yield ServerSentEvent(
                    event="alarm",
                    data={
                        "key": alarm.key,
                        "kind": alarm.kind,
                        "subject": alarm.subject,
                        "severity": alarm.severity.name.lower(),
                        "active": alarm.active,
                        "page": alarm.page,
                        "parent": alarm.parent,
                        "text": alarm.text,
                        "at_ms": alarm.at_ms,
                        "numbers": finite(alarm.numbers),
                    },
                )
            yield cycle_event(hall, decision)
