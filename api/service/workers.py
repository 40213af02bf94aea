"""Where blocking work runs: threads in the field, in line under a virtual clock."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")


class ThreadWorkers:
    """A small pool: solvers release the interpreter's lock, so two threads are enough."""

    def __init__(self, threads: int = 2) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="worker")

    def submit(self, work: Callable[..., T], *args: Any) -> Future[T]:
        """Start it in a thread."""
        return self._pool.submit(work, *args)

    def close(self) -> None:
        """Take no more; work that has not started is dropped."""
        self._pool.shutdown(wait=False, cancel_futures=True)


class InlineWorkers:
    """Does the work at once: under virtual time a thread would be outrun by the clock."""

    def submit(self, work: Callable[..., T], *args: Any) -> Future[T]:
        """Do it now; the future is done when this returns."""
        future: Future[T] = Future()
        try:
            future.set_result(work(*args))
        except Exception as error:  # noqa: BLE001 - the future carries it to who asks
            future.set_exception(error)
        return future
