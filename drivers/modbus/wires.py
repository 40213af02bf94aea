"""What carries the frames: a TCP connection, the same under TLS, or a serial line."""

from __future__ import annotations

import asyncio
import fcntl
import os
import socket
import ssl
import struct
import sys
import termios
from functools import partial
from typing import cast

from drivers.address import Address, TlsFiles
from drivers.modbus.wire import Dial, OnData, OnLost, Wire


class Stream(asyncio.Protocol):
    """A TCP connection, plain or under TLS."""

    def __init__(self, on_data: OnData, on_lost: OnLost) -> None:
        self._on_data, self._on_lost = on_data, on_lost
        self._open = True
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are none of asyncio's classes: they only behave like them.
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if self._open:
            self._on_data(data)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._open:
            self._open = False
            self._on_lost()

    def write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)

    def take_back(self) -> bool:
        transport = self._transport
        way = None if transport is None else transport.get_extra_info("socket")
        if transport is None or way is None or way.fileno() < 0:
            return False
        if not transport.get_write_buffer_size() and not _untaken(way.fileno()):
            return False
        # uvloop lends a socket that cannot be set; the setting is the connection's, not the file's.
        with socket.socket(fileno=os.dup(way.fileno())) as mine:
            mine.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._open = False
        transport.abort()
        return True

    def close(self) -> None:
        self._open = False
        if self._transport is not None:
            self._transport.close()


def _untaken(fd: int) -> int:
    """Bytes that were sent on a connection and not acknowledged (tcp(7), SIOCOUTQ)."""
    count = fcntl.ioctl(fd, termios.TIOCOUTQ, bytes(4))
    return int.from_bytes(count, sys.byteorder)


def dial_for(address: Address) -> Dial:
    """How the way to an address is opened."""
    if address.line is not None:
        # pyserial loads when a serial line is there: most sites have none.
        from drivers.modbus.serial_line import open_line

        return partial(open_line, address.line)
    return partial(_connect, address)


async def _connect(address: Address, on_data: OnData, on_lost: OnLost) -> Wire:
    loop = asyncio.get_running_loop()
    context, name = None, None
    if address.tls is not None:
        # Read anew for each connection, so that a renewed certificate needs no restart.
        context = await asyncio.to_thread(trust, address.tls)
        name = address.tls.name or address.host
    try:
        _, stream = await loop.create_connection(
            lambda: Stream(on_data, on_lost),
            address.host,
            address.port,
            ssl=context,
            server_hostname=name,
            ssl_shutdown_timeout=1.0 if context else None,
        )
    except UnicodeError as error:  # two dots in a row, or a label of 64 letters
        raise OSError(f"{address.host!r} is no name of a host: {error}") from None
    return stream


def trust(files: TlsFiles) -> ssl.SSLContext:
    """TLS 1.2 or newer with the device's name checked; our own certificate where there is one.

    Raises:
        OSError: a file that cannot be read or holds no such thing.
    """
    context = ssl.create_default_context(cafile=files.ca)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if files.cert is not None:
        context.load_cert_chain(files.cert, files.key)
    return context
