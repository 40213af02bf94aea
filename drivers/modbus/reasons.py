"""Why a connection or a serial line could not be opened, for people. Pure."""

from __future__ import annotations

import os
import socket
import ssl


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
