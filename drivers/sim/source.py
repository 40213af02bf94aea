"""What an impersonated device asks of the plant behind it, and where it answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

Health = Literal["ok", "dead", "slow", "garbage"]

#: how late a slow device answers, seconds: within a driver's patience, outside a tight period
SLOW_S = 0.6


class InstrumentSource(Protocol):
    """Ideal instruments of a plant, by the names that profiles use."""

    def value(self, device: str, part: str, kind: str) -> float | None:
        """Reading in the kind's canonical unit; None when there is no such instrument now."""

    def write(
        self,
        device: str,
        part: str,
        kind: str,
        value: float,
        *,
        falls_back: tuple[float, float] | None = None,
    ) -> None:
        """Move a set-point, in the kind's canonical unit.

        Args:
            device: the one that was written to.
            part: of the set-point.
            kind: of the set-point.
            value: to hold.
            falls_back: the value that the device takes by itself once nobody has written for so
                many seconds; None: it keeps what it has.
        """

    def device_health(self, device: str) -> str:
        """How the device answers: "ok", "dead", "slow" or "garbage"."""


@dataclass
class Instruments:
    """A plant that is only a table of readings; for tests and for trying a profile out."""

    values: dict[tuple[str, str, str], float] = field(default_factory=dict)
    health: dict[str, Health] = field(default_factory=dict)
    written: list[tuple[str, str, str, float]] = field(default_factory=list)

    @classmethod
    def of(cls, device: str, readings: Mapping[str, float]) -> Instruments:
        """Readings of one device, keyed `part:kind`."""
        split = {tuple(key.split(":")): value for key, value in readings.items()}
        return cls({(device, part, kind): value for (part, kind), value in split.items()})

    def value(self, device: str, part: str, kind: str) -> float | None:
        """The reading in the table."""
        return self.values.get((device, part, kind))

    def write(
        self,
        device: str,
        part: str,
        kind: str,
        value: float,
        *,
        falls_back: tuple[float, float] | None = None,
    ) -> None:
        """Put a set-point into the table and remember that it was written."""
        self.written.append((device, part, kind, value))
        self.values[(device, part, kind)] = value

    def device_health(self, device: str) -> str:
        """As set; "ok" for all others."""
        return self.health.get(device, "ok")


class Served(dict[str, str]):
    """Running servers: device -> address of the server that impersonates it."""

    def __init__(self) -> None:
        super().__init__()
        self.closers: list[Callable[[], object]] = []

    def close(self) -> None:
        """Stop listening and hang up."""
        for close in self.closers:
            close()
        self.closers.clear()
