"""The limits that a release puts back: found before our first write, or the board's default.

A GPU of which neither can be told is not written at all: nobody could give it back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal

import structlog

from drivers.agent.gpu import Board, Fault, NvmlPort
from drivers.agent.report import GpuAck

#: Where a prior limit comes from: read before our first write, or taken for it unread.
Origin = Literal["found", "default"]
#: Answers after which nothing of ours is on the GPU: refused, or lost with its driver's memory.
UNTOUCHED: Final[frozenset[Fault]] = frozenset(
    {"no_permission", "out_of_range", "not_supported", "gpu_lost", "no_driver", "no_prior"}
)

_log = structlog.get_logger("wattkeeper.agent")


class Priors:
    """What each GPU goes back to.

    Attributes:
        limits_w: GPU UUID -> the limit that a release puts back, W.
        assumed: those of them that are the board's default because none could be read.
    """

    def __init__(self, limits_w: Mapping[str, float], assumed: Iterable[str], node: str) -> None:
        """Take up what an earlier run kept; `node` is named in the log."""
        self.limits_w: dict[str, float] = dict(limits_w)
        self.assumed: set[str] = set(assumed) & self.limits_w.keys()
        self._node = node
        self._told: set[str] = set()

    def origin(self, uuid: str) -> Origin | None:
        """Where the GPU's prior limit comes from, None while it has none."""
        if uuid not in self.limits_w:
            return None
        return "default" if uuid in self.assumed else "found"

    async def find(self, nvml: NvmlPort, boards: Sequence[Board], *, assume: bool) -> bool:
        """Learn the limits of GPUs that have none yet, before anything is written to them.

        Args:
            nvml: the GPUs.
            boards: those about to be written.
            assume: take a board's default for a limit that cannot be read. A lowering does not:
                it writes only where the limit in force was read, and is tried again.

        Returns:
            Whether there is something new to save.
        """
        unknown = [board for board in boards if board.uuid not in self.limits_w]
        readings = await asyncio.gather(*(nvml.read(board.uuid) for board in unknown))
        for board, reading in zip(unknown, readings, strict=True):
            if reading.limit_w is not None:
                self.limits_w[board.uuid] = reading.limit_w
            elif assume and board.default_w is not None:
                self.limits_w[board.uuid] = board.default_w
                self.assumed.add(board.uuid)
            self._tell(board, assume)
        return any(board.uuid in self.limits_w for board in unknown)

    def settle(self, acks: Sequence[GpuAck]) -> bool:
        """Forget defaults taken for GPUs that then were not written: the next look may find more.

        Returns:
            Whether something was forgotten.
        """
        idle = {ack.uuid for ack in acks if ack.answer.fault in UNTOUCHED} & self.assumed
        self.forget(idle)
        return bool(idle)

    def forget(self, uuids: Iterable[str]) -> None:
        """These have been given back, or were never ours."""
        for uuid in uuids:
            self.limits_w.pop(uuid, None)
            self.assumed.discard(uuid)

    def _tell(self, board: Board, assume: bool) -> None:
        """Log once per GPU what could not be read and what follows."""
        if self.origin(board.uuid) == "found" or not assume or board.uuid in self._told:
            return
        self._told.add(board.uuid)
        if board.uuid in self.assumed:
            event = "limit before our first write is unreadable; a release goes to the default"
        else:
            event = "GPU is not written: neither its limit nor its default can be read"
        _log.warning(event, node=self._node, gpu=board.uuid, default_w=board.default_w)
