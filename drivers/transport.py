"""The seam between a device and a wire, and what every wire has in common.

A `Transport` reads and writes *places* (`drivers.profile.binding.At`) and knows nothing of points.
One `Endpoint` stands for one thing that can be talked to (host:port, serial line): it has one lock.
Each unit behind it has its own `Patience`: a unit that does not answer is left alone for longer
and longer, so that it costs the others next to nothing.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar, runtime_checkable

from drivers.profile.binding import At, Places
from drivers.profile.codec import Answer, Raw
from facility.clock import Clock

T = TypeVar("T")

#: first and longest wait before a silent unit is asked again, seconds
FIRST_WAIT_S: Final = 1.0
LONGEST_WAIT_S: Final = 15.0
#: no deadline, seconds
FOREVER: Final = math.inf
#: one request waits this long for its answer
TIMEOUT_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class WriteReply:
    """What the wire said to a write.

    Attributes:
        outcome: "accepted", "rejected" (the device said no) or "unanswered" (nobody knows).
        detail: the device's own word or code.
    """

    outcome: str
    detail: str = ""


class Transport(Protocol):
    """Reads and writes places of one device; never raises for what a plant does."""

    @property
    def endpoint(self) -> str:
        """Name of the shared thing it talks through."""

    @property
    def host(self) -> str:
        """Host it talks to; empty when there is no network in between."""

    @property
    def requests(self) -> int:
        """Requests put on the wire so far."""

    async def fetch(self, places: Places) -> Sequence[Answer]:
        """One look at every place, in their order; a flaw where there is no raw.

        Keeps its own deadline, and may keep a plan for each `Places` that it has seen.
        """

    async def put(self, place: At, raw: Raw, within_s: float = FOREVER) -> WriteReply:
        """One attempt, never repeated; `TOO_LATE` where it could not be sent within these seconds.

        What has to wait for the wire waits here, so only here is it known when it is sent.
        """

    async def close(self) -> None:
        """Let go of the wire."""


#: what became of a write whose time was over before the wire was free for it
TOO_LATE: Final = WriteReply("rejected", "its deadline passed before it could be sent")


@runtime_checkable
class Troubled(Protocol):
    """A transport or device that may know in words why it got no answer."""

    @property
    def trouble(self) -> str:
        """The agent's own words or ours; empty where it is just silent."""


@runtime_checkable
class Counting(Protocol):
    """A transport or device that counts what was odd in the answers it got."""

    @property
    def odd(self) -> Mapping[str, int]:
        """How often, by name; empty while nothing was."""


class Patience:
    """How long to leave a silent unit alone; doubles with each failure, with jitter.

    Jitter spreads the probes of units that died together.
    """

    def __init__(self, clock: Clock, rng: random.Random) -> None:
        self._clock = clock
        self._rng = rng
        self.failures = 0
        self._again_s = float("-inf")

    @property
    def waiting(self) -> bool:
        """Whether the unit is to be left alone now."""
        return self._clock.monotonic_s() < self._again_s

    def answered(self) -> None:
        """It spoke: trust it again."""
        self.failures = 0
        self._again_s = float("-inf")

    def silent(self) -> None:
        """It did not answer: wait longer than the last time."""
        wait_s = min(FIRST_WAIT_S * 2.0 ** min(self.failures, 16), LONGEST_WAIT_S)
        self.failures += 1
        self._again_s = self._clock.monotonic_s() + wait_s * self._rng.uniform(0.8, 1.2)


class Endpoint:
    """One thing that can be talked to, by one at a time."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.lock = asyncio.Lock()


class Links:
    """The endpoints of a process, so that units behind one gateway share one lock and socket.

    A wire keeps its own connection object here under the endpoint's name.
    """

    def __init__(
        self, clock: Clock, rng: random.Random | None = None, timeout_s: float = TIMEOUT_S
    ) -> None:
        """Take the clock, the source of jitter, and how long one request waits for its answer."""
        self.clock = clock
        self.timeout_s = timeout_s
        self.rng = rng or random.Random(0)
        self._shared: dict[tuple[type, str], object] = {}

    def shared(self, kind: type[T], name: str, make: Callable[[], T]) -> T:
        """The object of this kind that stands under `name`; made the first time."""
        found = self._shared.get((kind, name))
        if found is None:
            found = self._shared[(kind, name)] = make()
        assert isinstance(found, kind)
        return found

    def patience(self) -> Patience:
        """A fresh back-off for one unit."""
        return Patience(self.clock, self.rng)
