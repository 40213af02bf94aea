"""A simulated node's GPUs and inference engine behind the ports that the real agent uses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from drivers.agent.gpu import Board, GpuReading, LimitAnswer, TokenCounts


class PlantGpu(Protocol):
    """One GPU as the plant knows it; W, degC, K, Hz; None where the model has no such sensor."""

    @property
    def power_w(self) -> float: ...
    @property
    def temperature_c(self) -> float: ...
    @property
    def margin_k(self) -> float | None: ...
    @property
    def limit_w(self) -> float: ...
    @property
    def enforced_w(self) -> float: ...
    @property
    def clock_hz(self) -> float: ...
    @property
    def event_bits(self) -> int: ...
    @property
    def min_w(self) -> float: ...
    @property
    def max_w(self) -> float: ...
    @property
    def default_w(self) -> float: ...
    @property
    def uuid(self) -> str: ...


class GpuPlant(Protocol):
    """What the plant lets the outside see and do of its GPUs."""

    def gpu_reading(self, node: str, i: int) -> PlantGpu:
        """GPU `i` of a node now."""

    def set_gpu_limit(self, node: str, i: int, watts: float) -> None:
        """Set its power limit."""

    def tokens(self, node: str) -> tuple[float, float, float, float]:
        """Counters (prompt, generated) and gauges (running, waiting) of the node's engine."""


class PlantNvml:
    """`NvmlPort` over one node of the plant; answers at once, without threads."""

    def __init__(self, plant: GpuPlant, node: str, gpus: int) -> None:
        self._plant, self._node = plant, node
        self._index = {plant.gpu_reading(node, i).uuid: i for i in range(gpus)}

    async def boards(self) -> Sequence[Board]:
        """Every GPU of the node."""
        found = []
        for uuid, i in self._index.items():
            gpu = self._plant.gpu_reading(self._node, i)
            found.append(Board(i, uuid, gpu.min_w, gpu.max_w, gpu.default_w))
        return found

    async def read(self, uuid: str) -> GpuReading:
        """One look at the plant; it keeps no energy counter of a board."""
        if uuid not in self._index:
            return GpuReading(fault="gpu_lost")
        gpu = self._plant.gpu_reading(self._node, self._index[uuid])
        return GpuReading(
            limit_w=gpu.limit_w,
            enforced_w=gpu.enforced_w,
            power_w=gpu.power_w,
            temperature_c=gpu.temperature_c,
            margin_k=gpu.margin_k,
            clock_hz=gpu.clock_hz,
            events=int(gpu.event_bits),
        )

    async def set_limit(self, uuid: str, watts: float) -> LimitAnswer:
        """Set and read back; out of the board's range is refused, as NVML does."""
        if uuid not in self._index:
            return LimitAnswer(None, None, "gpu_lost")
        i = self._index[uuid]
        gpu = self._plant.gpu_reading(self._node, i)
        if not gpu.min_w <= watts <= gpu.max_w:
            return LimitAnswer(gpu.limit_w, gpu.enforced_w, "out_of_range")
        self._plant.set_gpu_limit(self._node, i, watts)
        after = self._plant.gpu_reading(self._node, i)
        return LimitAnswer(after.limit_w, after.enforced_w)

    async def close(self) -> None:
        """Nothing to let go of."""


class PlantTokens:
    """`TokenSource` over one node of the plant."""

    def __init__(self, plant: GpuPlant, node: str) -> None:
        self._plant, self._node = plant, node

    async def counts(self) -> TokenCounts | None:
        """The engine's counters now."""
        prompt, generated, running, waiting = self._plant.tokens(self._node)
        return TokenCounts(prompt, generated, running, waiting)
