"""A small plant to store: layouts, scans, decisions, alarms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from facility.commands import (
    Ack,
    AlarmEvent,
    Bounds,
    Command,
    Decision,
    Outcome,
    Rank,
    Setpoint,
    Severity,
)
from facility.points import FloatArray, Layout, PointId, PointSpec, Scan

START_MS = 1_796_000_000_000


class SteppedClock:
    """A clock that moves when told to."""

    def __init__(self, ms: int = START_MS) -> None:
        self.ms = ms

    def utc_ms(self) -> int:
        return self.ms

    def monotonic_s(self) -> float:
        return (self.ms - START_MS) / 1000.0

    def step(self, seconds: float) -> None:
        self.ms += round(seconds * 1000)


def layout(device: str = "pdu-1", points: int = 4, poll_class: str = "fast") -> Layout:
    return Layout(
        device,
        poll_class,
        tuple(
            PointSpec(PointId(device, f"{poll_class}.{i}", "active_power"), 0.0, 1e6)
            for i in range(points)
        ),
    )


def scan(
    of: Layout,
    values: Sequence[float] | FloatArray,
    quality: Sequence[int] | None = None,
    *,
    at_ms: int = START_MS,
    received_ms: int | None = None,
) -> Scan:
    return Scan(
        of,
        np.array(values, dtype=np.float64),
        np.array(quality if quality is not None else [0] * len(of), dtype=np.uint8),
        at_ms,
        at_ms if received_ms is None else received_ms,
        at_ms / 1000.0,
    )


def command(node: str = "n01", value: float = 400.0, sequence: int = 1, epoch: int = 1) -> Command:
    return Command(
        PointId(node, "total", "power_cap"), value, sequence, epoch, START_MS, 2.0, "ups-a2 binds"
    )


def decision(cycle: int, *commands: Command, now_ms: int = START_MS) -> Decision:
    point = PointId("cdu-1", "loop.secondary", "supply_setpoint")
    return Decision(
        cycle=cycle,
        snapshot=cycle,
        last_scan=10 * cycle,
        now_ms=now_ms,
        setpoints=(
            Setpoint(point, 31.5, Bounds(18.0, float("inf")), "dew", True, Rank.PROTECTION),
        ),
        commands=commands,
        withheld=((point, 33.0, "mode observe"),),
        alarms=(alarm(),),
        facts={"headroom": {"binding": None}, "list": [1, 2.5]},
        config_sha256="ab" * 32,
    )


def ack(of: Command, outcome: Outcome = Outcome.APPLIED) -> Ack:
    return Ack(of, outcome, of.value, "", START_MS + 500)


def alarm(
    key: str = "redundancy_lost:ups-a2", active: bool = True, at_ms: int = START_MS
) -> AlarmEvent:
    return AlarmEvent(
        key=key,
        kind=key.split(":")[0],
        subject=key.split(":")[-1],
        severity=Severity.CRITICAL,
        active=active,
        text="12 kW missing after loss of ups-a1",
        at_ms=at_ms,
        page=True,
        numbers={"missing_w": 12000.0, "since_s": None},
    )


def later(event: AlarmEvent, seconds: float, **changes: bool) -> AlarmEvent:
    return replace(event, at_ms=event.at_ms + round(seconds * 1000), **changes)
