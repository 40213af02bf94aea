"""One UDP socket for all agents of a process.

A socket of its own for each agent would take a hall of devices past the usual limit of 1,024 open
files. Whoever is not being asked is not listened to: a datagram counts only when it comes from the
address and port that a question is out to, and then only when the question's own reader takes it.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

#: (host, port) of IPv4; (host, port, flow, scope) of IPv6
Sockaddr = tuple[Any, ...]
#: says what a datagram means; None when it is not the answer
Read = Callable[[bytes], object | None]

#: errors of sending that pass by themselves, as good as lost on the way: full buffers and queues,
#: and a firewall of ours (or its table of connections, when full) that drops
LOST: Final = frozenset({errno.EAGAIN, errno.ENOBUFS, errno.ENOMEM, errno.EPERM})
#: how often it is looked who waits for too long, seconds: the error of a timeout
TICK_S: Final = 0.02
#: answers taken in a row before others get their turn
BURST: Final = 32
#: asked of the kernel, which grants what it is allowed to: a room for answers that come together
RECEIVE_OCTETS: Final = 4 * 1024 * 1024


class _Waiting:
    """Somebody who waits for an answer, until a time of the event loop.

    `others` waits for an answer of the same address: one agent may be known by two names.
    """

    __slots__ = ("future", "others", "read", "until_s")

    def __init__(self, future: asyncio.Future[object | None], read: Read, until_s: float) -> None:
        self.future = future
        self.read = read
        self.until_s = until_s
        self.others: _Waiting | None = None


class Wire:
    """The socket of one address family; opened when first needed, closed with its last user."""

    def __init__(self, family: int) -> None:
        self.family = family
        self._socket: socket.socket | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: dict[Sockaddr, _Waiting] = {}
        self._buffer = memoryview(bytearray(65536))
        self._users = 0
        self._ticking = False
        #: datagrams that nobody waited for, or that were not the answer
        self.strays = 0

    def join(self) -> None:
        """Count one user more."""
        self._users += 1

    def leave(self) -> None:
        """Count one user less; the socket closes behind the last."""
        self._users -= 1
        if self._users <= 0:
            self._close()

    async def ask(
        self, to: Sockaddr, message: bytes, read: Read, timeout_s: float
    ) -> object | None:
        """Send a message, and wait until `read` takes an answer from that very address.

        Returns:
            What `read` made of it; None after the timeout, or when it could not be sent.
        """
        loop = asyncio.get_running_loop()
        if self._socket is None or self._loop is not loop:
            try:
                self._open(loop)
            except OSError:  # no such family in this kernel, or no file descriptor left
                return None
        assert self._socket is not None
        future: asyncio.Future[object | None] = loop.create_future()
        waiting = _Waiting(future, read, loop.time() + timeout_s)
        waiting.others = self._waiting.get(to)
        self._waiting[to] = waiting
        if not self._ticking:
            self._ticking = True
            loop.call_later(TICK_S, self._tick, loop)
        try:
            self._socket.sendto(message, to)
            return await future
        except OSError as error:
            return await future if error.errno in LOST else None
        finally:
            self._forget(to, waiting)

    def _forget(self, to: Sockaddr, gone: _Waiting) -> None:
        first = self._waiting.get(to)
        if first is gone:
            if gone.others is None:
                del self._waiting[to]
            else:
                self._waiting[to] = gone.others
            return
        while first is not None:
            if first.others is gone:
                first.others = gone.others
                return
            first = first.others

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        """Give up what waits for too long: one timer for all is cheaper than one for each."""
        now_s = loop.time()
        for first in self._waiting.values():
            waiting: _Waiting | None = first
            while waiting is not None:
                if waiting.until_s <= now_s and not waiting.future.done():
                    waiting.future.set_result(None)
                waiting = waiting.others
        self._ticking = bool(self._waiting)
        if self._ticking:
            loop.call_later(TICK_S, self._tick, loop)

    def _open(self, loop: asyncio.AbstractEventLoop) -> None:
        self._close()
        self._ticking = False
        self._waiting.clear()
        made = socket.socket(self.family, socket.SOCK_DGRAM)
        made.setblocking(False)
        with suppress(OSError):
            made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_OCTETS)
        loop.add_reader(made.fileno(), self._readable)
        self._socket, self._loop = made, loop

    def _close(self) -> None:
        if self._socket is None or self._loop is None:
            return
        if not self._loop.is_closed():
            self._loop.remove_reader(self._socket.fileno())
        self._socket.close()
        self._socket = None

    def _readable(self) -> None:
        for _ in range(BURST):
            if self._socket is None:
                return
            try:
                size, sender = self._socket.recvfrom_into(self._buffer)
            except OSError:  # nothing more, or the network's word on an earlier request
                return
            if not self._taken(self._waiting.get(sender), size):
                self.strays += 1
            elif len(self._waiting) == 1:
                return

    def _taken(self, waiting: _Waiting | None, size: int) -> bool:
        """Whether the datagram in the buffer is what somebody waits for."""
        while waiting is not None:
            if not waiting.future.done():
                answer = waiting.read(bytes(self._buffer[:size]))
                if answer is not None:
                    waiting.future.set_result(answer)
                    return True
            waiting = waiting.others
        return False
