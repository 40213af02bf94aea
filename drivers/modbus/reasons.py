"""Why a Modbus unit gave no answer, in the words of whoever has to go and look. Pure."""

from __future__ import annotations

import os
import socket
import ssl
from typing import Final

#: a gateway that was reached, and the unit behind it that was not
NOT_BEHIND: Final = "the gateway is there, but says that unit {unit} does not answer"
REFUSES: Final = "unit {unit} answers: {why}"
SILENT: Final = "there is a connection, but unit {unit} is silent"
HUNG_UP: Final = "the other side closes the connection: it may serve one client, who is another"
JUNK: Final = "what unit {unit} sends is no answer: a wrong framing, rate or parity, or noise"


def no_connection(error: OSError, host: str, limit_s: float) -> str:
    """Why a connection or a serial line could not be opened.

    Args:
        error: as it was raised.
        host: whom we wanted; empty of a serial line.
        limit_s: how long was waited, seconds.
    """
    if isinstance(error, socket.gaierror):
        return f"{host} is not known by name"
    if isinstance(error, TimeoutError) and error.errno is None:
        return f"no connection within {limit_s:g} s"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is refused: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"no TLS: {getattr(error, 'reason', None) or error}"[:200]
    # asyncio and pyserial put numbers, addresses and the same words twice into their texts.
    words = os.strerror(error.errno) if error.errno else str(error) or type(error).__name__
    return f"cannot connect: {words}"[:200] if host else f"cannot be opened: {words}"[:200]
