"""Building blocks of the driver tests: points from a line of YAML, clocks, virtual time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, TypeVar

from drivers.profile import Profile
from drivers.profile.binding import At, Binding, BoundPoint, Places, bind
from drivers.profile.codec import Answer
from drivers.transport import Links, Transport
from facility.clock import LoopClock, SystemClock, VirtualTimeLoop

T = TypeVar("T")
EPOCH_MS = 1_800_000_000_000


def links(timeout_s: float = 0.4) -> Links:
    """Links on the machine's clock, with a known jitter and little patience."""
    return Links(SystemClock(), random.Random(7), timeout_s)


def profile_of(*points: Mapping[str, Any], protocol: str = "modbus", **more: Any) -> Profile:
    """A small profile; `poll` class `fast` of 1 s unless `classes` says otherwise."""
    raw: dict[str, Any] = {
        "profile": "test/device",
        "title": "test",
        "source": "test",
        "protocol": protocol,
        "verified": "sim",
        "classes": {"fast": {"period": "1 s", "stale_after": "5 s"}},
        "points": points,
    }
    return Profile.model_validate(raw | more)


def binding_of(*points: Mapping[str, Any], protocol: str = "modbus", **more: Any) -> Binding:
    """That profile bound to device `d`, writable."""
    return bind(profile_of(*points, protocol=protocol, **more), "d", writable=True)


def point_of(protocol: str = "modbus", **entry: Any) -> BoundPoint:
    """One bound point; `at` is the inner mapping of its protocol."""
    at = entry.pop("at", {"address": 0} if protocol == "modbus" else {"oid": "1.3.6.1.1"})
    full = {"part": "total", "kind": "active_power", "at": {protocol: at}} | entry
    return binding_of(full, protocol=protocol).all()[0]


async def looked(transport: Transport, places: Iterable[At]) -> dict[At, Answer]:
    """One fetch, place by place."""
    wanted = Places.of(places)
    return dict(zip(wanted.at, await transport.fetch(wanted), strict=True))


def same(seen: Iterable[object], expected: Iterable[object]) -> bool:
    """Whether answers are these, kind by kind: a flaw is also a number, and equals one."""
    return [(type(a), a) for a in seen] == [(type(b), b) for b in expected]


def in_virtual_time(main: Callable[[LoopClock], Awaitable[T]]) -> T:
    """Run `main(clock)` on a loop in which sleeping costs nothing."""
    loop = VirtualTimeLoop()
    try:
        clock = LoopClock(loop, EPOCH_MS)

        async def bounded() -> T:
            async with asyncio.timeout(86_400.0 * 30):
                return await main(clock)

        return loop.run_until_complete(bounded())
    finally:
        loop.close()
