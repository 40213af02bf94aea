"""A serial line through pyserial, read by the event loop; the only file that imports it."""

from __future__ import annotations

import asyncio
import os
import termios
from typing import Final

import serial

from drivers.address import SerialLine
from drivers.modbus.wire import OnData, OnLost, Wire

_PARITY: Final = {"none": "N", "even": "E", "odd": "O"}


async def open_line(line: SerialLine, on_data: OnData, on_lost: OnLost) -> Wire:
    """Open a line for ourselves alone.

    Raises:
        OSError: no such device, it is taken, or it cannot be set so.
    """
    try:
        port = await asyncio.to_thread(
            serial.Serial,
            line.path,
            line.baud,
            parity=_PARITY[line.parity],
            stopbits=line.stop,
            timeout=0,
            write_timeout=0,
            exclusive=True,
        )
    except (ValueError, termios.error) as error:  # the second from a line that goes meanwhile
        raise OSError(f"{line.path}: {error}") from None
    return _Port(port, on_data, on_lost)


class _Port:
    """An open serial line."""

    def __init__(self, port: serial.Serial, on_data: OnData, on_lost: OnLost) -> None:
        self._port, self._on_data, self._on_lost = port, on_data, on_lost
        self._fd: int = port.fileno()
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._fd, self._read)
        self._open = True

    def write(self, data: bytes) -> None:
        try:
            whole = os.write(self._fd, data) == len(data)
        except OSError:
            whole = False
        if not whole:  # a frame is far smaller than the line's buffer: something is wrong with it
            self._loop.call_soon(self._lose)

    def take_back(self) -> bool:
        return False  # a line sends at once, or is lost

    def close(self) -> None:
        if self._open:
            self._open = False
            self._loop.remove_reader(self._fd)
            self._port.close()

    def _read(self) -> None:
        try:
            data = os.read(self._fd, 4096)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data:
            self._on_data(data)
        else:  # readable and yet nothing there: an adapter that was pulled out
            self._lose()

    def _lose(self) -> None:
        if self._open:
            self.close()
            self._on_lost()
