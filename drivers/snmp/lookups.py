"""Host names looked up in threads of their own.

A name server that is gone holds a thread for half a minute, long after whoever asked has given up.
The threads of the event loop are few, and log-ins and files wait for them too.
"""

from __future__ import annotations

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final

THREADS: Final = 4


class Lookups:
    """Asks for the addresses of names; one for all agents of a process."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="lookup")

    async def find(self, host: str, port: int) -> list[Any]:
        """What `socket.getaddrinfo` says of a host for datagrams.

        Raises:
            OSError: it is not known.
            UnicodeError: it is no name at all.
        """
        ask = partial(socket.getaddrinfo, host, port, type=socket.SOCK_DGRAM)
        return await asyncio.get_running_loop().run_in_executor(self._pool, ask)
