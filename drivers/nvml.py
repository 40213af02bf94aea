"""A node's GPUs through NVML; the only file that imports pynvml.

Every driver call runs in the daemon thread of its GPU with a deadline, because a call into a
sick driver may never return: a hung GPU blocks neither the others nor the end of the process,
and gets no further call until the hung one is back. Calls are those of nvidia-ml-py 13 (NVML's
`nvml.h`); the power limit is set by version 1 of the setter, since the wrapper of version 2
drops the driver's return code.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, Final, TypeVar

import pynvml

from drivers.agent.gpu import Board, Fault, GpuReading, LimitAnswer

T = TypeVar("T")

READ_S: Final = 0.8
WRITE_S: Final = 1.5
OPEN_S: Final = 30.0
MILLI: Final = 1000.0
#: NVML counts energy in mJ.
MILLIJOULES_PER_WH: Final = 3.6e6

_FAULTS: Final[dict[int, Fault]] = {
    pynvml.NVML_ERROR_NO_PERMISSION: "no_permission",
    pynvml.NVML_ERROR_INVALID_ARGUMENT: "out_of_range",
    pynvml.NVML_ERROR_NOT_SUPPORTED: "not_supported",
    pynvml.NVML_ERROR_FUNCTION_NOT_FOUND: "not_supported",
    pynvml.NVML_ERROR_GPU_IS_LOST: "gpu_lost",
    pynvml.NVML_ERROR_NOT_FOUND: "gpu_lost",
    pynvml.NVML_ERROR_TIMEOUT: "timeout",
    pynvml.NVML_ERROR_LIBRARY_NOT_FOUND: "no_driver",
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED: "no_driver",
    pynvml.NVML_ERROR_UNINITIALIZED: "no_driver",
}


def _fault(error: pynvml.NVMLError) -> Fault:
    return _FAULTS.get(int(error.value), "unknown")


def _ask(call: Callable[..., Any], *args: Any) -> Any:
    """The call's answer, or None if this board or driver does not have it.

    Raises:
        pynvml.NVMLError: any other error.
    """
    try:
        return call(*args)
    except pynvml.NVMLError as error:
        if _fault(error) == "not_supported":
            return None
        raise


def _scaled(value: Any, divisor: float) -> float | None:
    return None if value is None else float(value) / divisor


class _Worker:
    """One daemon thread that makes the driver calls of one GPU, one at a time."""

    def __init__(self, name: str) -> None:
        self._jobs: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None]
        self._jobs = queue.SimpleQueue()
        self._turn = asyncio.Lock()
        self._last: Future[Any] | None = None
        threading.Thread(target=self._work, name=name, daemon=True).start()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            future, call = job
            try:
                future.set_result(call())
            except Exception as error:  # noqa: BLE001 - it is raised again where it is awaited
                future.set_exception(error)

    async def call(self, work: Callable[[], T], deadline_s: float) -> T:
        """Run `work` in the thread.

        Raises:
            TimeoutError: not done in time, or an earlier call still hangs. The call is then
                never started late: a limit is set now or not at all.
        """
        async with asyncio.timeout(deadline_s):
            async with self._turn:
                if self._last is not None and not self._last.done():
                    raise TimeoutError
                future: Future[T] = Future()
                self._last = future
                self._jobs.put((future, work))
                return await asyncio.shield(asyncio.wrap_future(future))

    def stop(self) -> None:
        """End the thread once its call is back."""
        self._jobs.put(None)


class Nvml:
    """`NvmlPort` on the driver of this machine."""

    def __init__(
        self, *, read_s: float = READ_S, write_s: float = WRITE_S, open_s: float = OPEN_S
    ) -> None:
        """Prepare; the driver is loaded by `boards`. Deadlines in seconds."""
        self._read_s, self._write_s, self._open_s = read_s, write_s, open_s
        self._opener = _Worker("nvml")
        self._workers: dict[str, _Worker] = {}

    async def boards(self) -> Sequence[Board]:
        """The GPUs present now, by index; empty when there is no driver or it hangs."""
        try:
            found = await self._opener.call(_boards, self._open_s)
        except (pynvml.NVMLError, TimeoutError):
            return ()
        for board in found:
            if board.uuid not in self._workers:
                self._workers[board.uuid] = _Worker(f"nvml {board.index}")
        return found

    async def read(self, uuid: str) -> GpuReading:
        """One look; a GPU that does not answer in time reads as `timeout`."""
        worker = self._workers.get(uuid)
        if worker is None:
            return GpuReading(fault="gpu_lost")
        try:
            return await worker.call(lambda: _read(uuid), self._read_s)
        except TimeoutError:
            return GpuReading(fault="timeout")

    async def set_limit(self, uuid: str, watts: float) -> LimitAnswer:
        """Set the limit and read it back; on a timeout nothing is known."""
        worker = self._workers.get(uuid)
        if worker is None:
            return LimitAnswer(None, None, "gpu_lost")
        try:
            return await worker.call(lambda: _set(uuid, watts), self._write_s)
        except TimeoutError:
            return LimitAnswer(None, None, "timeout")

    async def close(self) -> None:
        """End the threads that can end; limits stay."""
        for worker in (*self._workers.values(), self._opener):
            worker.stop()


def _boards() -> tuple[Board, ...]:
    pynvml.nvmlInit()
    found: list[Board] = []
    for index in range(pynvml.nvmlDeviceGetCount()):
        try:
            handle = pynvml.nvmlDeviceGetHandleByIndex(index)
            uuid = str(pynvml.nvmlDeviceGetUUID(handle))
            span = _ask(pynvml.nvmlDeviceGetPowerManagementLimitConstraints, handle)
            default = _ask(pynvml.nvmlDeviceGetPowerManagementDefaultLimit, handle)
        except pynvml.NVMLError:
            continue  # a lost GPU keeps its index; the others go on
        low, high = span if span is not None else (None, None)
        found.append(
            Board(index, uuid, _scaled(low, MILLI), _scaled(high, MILLI), _scaled(default, MILLI))
        )
    return tuple(found)


def _read(uuid: str) -> GpuReading:
    try:
        handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
        energy = _ask(pynvml.nvmlDeviceGetTotalEnergyConsumption, handle)
        clock = _ask(pynvml.nvmlDeviceGetClockInfo, handle, pynvml.NVML_CLOCK_SM)
        margin = _ask(pynvml.nvmlDeviceGetMarginTemperature, handle)
        events = _ask(pynvml.nvmlDeviceGetCurrentClocksEventReasons, handle)
        return GpuReading(
            limit_w=_scaled(_ask(pynvml.nvmlDeviceGetPowerManagementLimit, handle), MILLI),
            enforced_w=_scaled(_ask(pynvml.nvmlDeviceGetEnforcedPowerLimit, handle), MILLI),
            power_w=_scaled(_ask(pynvml.nvmlDeviceGetPowerUsage, handle), MILLI),
            energy_wh=_scaled(energy, MILLIJOULES_PER_WH),
            temperature_c=_temperature(handle),
            margin_k=_scaled(margin, 1.0),
            clock_hz=_scaled(clock, 1e-6),
            events=None if events is None else int(events),
        )
    except pynvml.NVMLError as error:
        return GpuReading(fault=_fault(error))


def _temperature(handle: Any) -> float | None:
    """Core temperature; drivers before CUDA 12.8 have only the older call."""
    value = _ask(pynvml.nvmlDeviceGetTemperatureV, handle, pynvml.NVML_TEMPERATURE_GPU)
    if value is None:
        value = _ask(pynvml.nvmlDeviceGetTemperature, handle, pynvml.NVML_TEMPERATURE_GPU)
    return _scaled(value, 1.0)


def _set(uuid: str, watts: float) -> LimitAnswer:
    fault: Fault | None = None
    try:
        handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
    except pynvml.NVMLError as error:
        return LimitAnswer(None, None, _fault(error))
    try:
        pynvml.nvmlDeviceSetPowerManagementLimit(handle, round(watts * MILLI))
    except pynvml.NVMLError as error:
        fault = _fault(error)
    try:
        limit = _scaled(_ask(pynvml.nvmlDeviceGetPowerManagementLimit, handle), MILLI)
        enforced = _scaled(_ask(pynvml.nvmlDeviceGetEnforcedPowerLimit, handle), MILLI)
    except pynvml.NVMLError as error:
        return LimitAnswer(None, None, fault or _fault(error))
    return LimitAnswer(limit, enforced, fault)
