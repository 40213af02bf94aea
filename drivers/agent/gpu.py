"""What the agent asks of a node's GPUs; NVML in the field, the simulated plant in tests.

GPUs are known by UUID: indexes change when a GPU is lost or a driver is reloaded. What a GPU
cannot tell is None, never 0. Neither call raises for what GPUs do: a fault is a word.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

#: Why a GPU did not answer or obey.
Fault = Literal[
    "no_permission",  # setting a limit needs root or CAP_SYS_ADMIN
    "out_of_range",  # the board refuses this limit
    "not_supported",  # vGPU, laptop, Jetson; or the driver lacks the call
    "gpu_lost",  # fell off the bus
    "timeout",  # the driver call has not come back
    "no_driver",  # the library or the driver cannot be loaded
    "no_prior",  # not written by us: no limit could be read to give back later
    "unknown",  # any other NVML error
]


@dataclass(frozen=True, slots=True)
class Board:
    """What does not change while the driver runs; W; None where the board does not say."""

    index: int
    uuid: str
    min_w: float | None
    max_w: float | None
    default_w: float | None

    def clamp(self, watts: float) -> float:
        """The limit nearest to `watts` that the board accepts, as far as it says."""
        if self.min_w is not None:
            watts = max(watts, self.min_w)
        return watts if self.max_w is None else min(watts, self.max_w)


@dataclass(frozen=True, slots=True)
class GpuReading:
    """One look at one GPU.

    Attributes:
        limit_w: requested limit, as read back.
        enforced_w: the least of all limiters, the out-of-band ones too.
        power_w: board draw, averaged by the driver (1 s on Hopper).
        energy_wh: counter since the driver was loaded.
        temperature_c: core.
        margin_k: K to the nearest slowdown; None before Ada.
        clock_hz: SM clock.
        events: NVML clock-event bits (power cap 0x4, thermal 0x20 and 0x40, power brake 0x80).
        fault: why nothing, or not everything, was read; None when all is well.
    """

    limit_w: float | None = None
    enforced_w: float | None = None
    power_w: float | None = None
    energy_wh: float | None = None
    temperature_c: float | None = None
    margin_k: float | None = None
    clock_hz: float | None = None
    events: int | None = None
    fault: Fault | None = None


@dataclass(frozen=True, slots=True)
class LimitAnswer:
    """What came of setting a limit: read back, not assumed; W."""

    limit_w: float | None
    enforced_w: float | None
    fault: Fault | None = None


@dataclass(frozen=True, slots=True)
class TokenCounts:
    """What the node's inference engine has done since it started, and what it holds now."""

    prompt: float
    generated: float
    running: float
    waiting: float


class NvmlPort(Protocol):
    """The GPUs of one node. Every call keeps its own deadline."""

    async def boards(self) -> Sequence[Board]:
        """The GPUs present now, by index; empty when there is no driver."""

    async def read(self, uuid: str) -> GpuReading:
        """One look."""

    async def set_limit(self, uuid: str, watts: float) -> LimitAnswer:
        """Set the power limit, then read back requested and enforced."""

    async def close(self) -> None:
        """Let go; limits stay as they are."""


class TokenSource(Protocol):
    """Where token counters come from, if from anywhere."""

    async def counts(self) -> TokenCounts | None:
        """The engine's counters now; None when it does not answer."""
