"""A few threads that only read; in line where time is virtual."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, TypeVar

import sqlalchemy as sa
from sqlalchemy.pool import StaticPool

from facility.store.errors import HistoryLimit, StoreUnavailable
from facility.store.migrate import unreachable

T = TypeVar("T")
_MOST_WAITING: Final = 64


class Readers:
    """Runs questions on query-only connections.

    Args:
        inline: no threads.
        threads: how many questions are answered at a time.
        name: of the threads.
    """

    def __init__(
        self, engine: sa.Engine, *, inline: bool, threads: int = 2, name: str = "store-reader"
    ) -> None:
        self._engine = engine
        self._room = threading.BoundedSemaphore(_MOST_WAITING)
        self._pool = None if inline else ThreadPoolExecutor(threads, name)

    def ask(self, question: Callable[[sa.Connection], T]) -> Future[T]:
        """One question in one transaction of its own."""

        def in_one_transaction(engine: sa.Engine) -> T:
            with engine.begin() as connection:
                return question(connection)

        return self.ask_in_pages(in_one_transaction)

    def ask_in_pages(self, question: Callable[[sa.Engine], T]) -> Future[T]:
        """A question that opens its transactions itself, one per page."""
        if self._pool is None:
            done: Future[T] = Future()
            try:
                done.set_result(self._answer(question))
            except Exception as error:  # noqa: BLE001 - the future carries it to who asked
                done.set_exception(error)
            return done
        if not self._room.acquire(blocking=False):
            refused: Future[T] = Future()
            refused.set_exception(StoreUnavailable(f"{_MOST_WAITING} questions wait already"))
            return refused
        future = self._pool.submit(self._answer, question)
        future.add_done_callback(lambda _: self._room.release())
        return future

    def _answer(self, question: Callable[[sa.Engine], T]) -> T:
        try:
            return question(self._engine)
        except sa.exc.DBAPIError as error:
            raise unreachable(error) from error
        except sa.exc.TimeoutError as error:
            raise StoreUnavailable("no connection to the database is free") from error
        except HistoryLimit:
            raise  # said before anything was read
        except Exception:
            self._start_anew()
            raise

    def _start_anew(self) -> None:
        """Let go of connections that an error came through.

        A statement that it left open keeps SQLite's connection at that moment, and whoever gets it
        next would be told the past of then. The one of a store in memory is the store itself.
        """
        if not isinstance(self._engine.pool, StaticPool):
            self._engine.dispose()

    def close(self) -> None:
        """Answer what was asked, then stop."""
        if self._pool is not None:
            self._pool.shutdown()
        self._engine.dispose()
