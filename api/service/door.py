"""Who may keep a connection open: a stranger's sockets must not cost the plant its own.

Devices, database and broker need file descriptors of the same process, so that connections are
counted, and one whose request does not arrive in time is closed (slowloris).
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

MOST_CONNECTIONS: Final = 512
#: a request's head and body (64 KiB at most) must have arrived after this
ARRIVAL_S: Final = 15.0


class Door(H11Protocol):
    """uvicorn's HTTP/1.1, with a limit of connections and of a request's time of arrival."""

    most: int = MOST_CONNECTIONS
    arrival_s: float = ARRIVAL_S

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._refused = False
        self._timer: asyncio.TimerHandle | None = None
        self._waiting_for: object = self

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Let in, unless the house is full."""
        if len(self.connections) >= self.most:
            self._refused = True
            transport.abort()
            return
        super().connection_made(transport)
        self._look()

    def data_received(self, data: bytes) -> None:
        """Take what comes from those who were let in."""
        if not self._refused:
            super().data_received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        if self._timer is not None:
            self._timer.cancel()
        if not self._refused:
            super().connection_lost(exc)

    def _look(self) -> None:
        """Close when the same request was still awaited a whole `arrival_s` ago."""
        cycle: RequestResponseCycle | None = self.cycle
        awaited: object = None
        if cycle is None or cycle.response_complete or cycle.more_body:
            awaited = cycle if cycle is not None else self.transport
        if awaited is not None and awaited is self._waiting_for:
            self.transport.close()
            return
        self._waiting_for = awaited
        self._timer = self.loop.call_later(self.arrival_s, self._look)
