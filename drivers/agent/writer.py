"""Writing limits to all GPUs of a node at once, each clamped to its board and read back."""

from __future__ import annotations

import asyncio
from collections.abc import Container, Mapping, Sequence

from drivers.agent.gpu import Board, LimitAnswer, NvmlPort
from drivers.agent.report import GpuAck


class LimitWriter:
    """Sets limits.

    Attributes:
        written_w: GPU UUID -> limit read back after our last write, W; a later reading that
            differs was written by somebody else.
    """

    def __init__(self, nvml: NvmlPort, floor_w: float | None) -> None:
        self._nvml = nvml
        self._floor_w = floor_w
        self.written_w: dict[str, float] = {}

    def target_w(self, board: Board, watts: float) -> float:
        """What the board is asked for when `watts` is wanted: floor, then its own range."""
        return board.clamp(watts if self._floor_w is None else max(watts, self._floor_w))

    async def set_all(
        self, boards: Sequence[Board], watts: float, returnable: Container[str]
    ) -> list[GpuAck]:
        """Set every GPU, up or down, except those that nobody could give back."""
        answers = await asyncio.gather(*(self._cap(board, watts, returnable) for board in boards))
        return [GpuAck(b.uuid, watts, a) for b, a in zip(boards, answers, strict=True)]

    async def lower_all(
        self, boards: Sequence[Board], watts: float, returnable: Container[str]
    ) -> tuple[list[GpuAck], bool]:
        """Bring every GPU down to `watts`, none up; and whether all are known to be there."""
        acks = await asyncio.gather(*(self._lower(board, watts, returnable) for board in boards))
        return list(acks), all(ack.answer.fault is None for ack in acks)

    async def restore(self, boards: Sequence[Board], prior_w: Mapping[str, float]) -> list[GpuAck]:
        """Put back the limit of each GPU for which one is kept, and name those that are gone."""
        here = {board.uuid: board for board in boards}
        answers = await asyncio.gather(
            *(self._put_back(here.get(uuid), watts) for uuid, watts in prior_w.items())
        )
        acks = [GpuAck(u, w, a) for (u, w), a in zip(prior_w.items(), answers, strict=True)]
        for uuid in [*self.written_w]:
            if uuid not in prior_w:
                acks.append(GpuAck(uuid, None, LimitAnswer(None, None, "no_prior")))
        self.written_w.clear()
        return acks

    async def _put_back(self, board: Board | None, watts: float) -> LimitAnswer:
        return (
            LimitAnswer(None, None, "gpu_lost") if board is None else await self._set(board, watts)
        )

    async def _cap(self, board: Board, watts: float, returnable: Container[str]) -> LimitAnswer:
        if board.uuid not in returnable:
            return LimitAnswer(None, None, "no_prior")
        return await self._set(board, self.target_w(board, watts))

    async def _lower(self, board: Board, watts: float, returnable: Container[str]) -> GpuAck:
        reading = await self._nvml.read(board.uuid)
        if reading.limit_w is None:
            # A write without knowing the limit in force might raise it.
            fault = reading.fault or "not_supported"
            return GpuAck(board.uuid, watts, LimitAnswer(None, reading.enforced_w, fault))
        target_w = self.target_w(board, watts)
        if target_w >= reading.limit_w:
            return GpuAck(board.uuid, watts, LimitAnswer(reading.limit_w, reading.enforced_w))
        if board.uuid not in returnable:
            unwritten = LimitAnswer(reading.limit_w, reading.enforced_w, "no_prior")
            return GpuAck(board.uuid, watts, unwritten)
        return GpuAck(board.uuid, watts, await self._set(board, target_w))

    async def _set(self, board: Board, watts: float) -> LimitAnswer:
        answer = await self._nvml.set_limit(board.uuid, watts)
        if answer.limit_w is not None and answer.fault is None:
            self.written_w[board.uuid] = answer.limit_w
        return answer
