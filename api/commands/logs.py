"""Where logs go: standard error, so that standard output holds the answer and nothing else."""

from __future__ import annotations

import contextlib
import io
import logging
import sys
from typing import TextIO, cast

import structlog


class SturdyStream(io.TextIOBase):
    """A stream that loses what cannot be written: a log must never end what it tells of.

    Standard error goes away when whoever read it is killed, and refuses on a full disk.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str, /) -> int:
        """Write, or lose it."""
        with contextlib.suppress(OSError, ValueError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Pass on, or lose it."""
        with contextlib.suppress(OSError, ValueError):
            self._stream.flush()


def log_to_stderr(level: int = logging.INFO) -> None:
    """One line a message on standard error, times in UTC."""
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(level),
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.LogfmtRenderer(key_order=["timestamp", "level", "event"]),
        ],
        logger_factory=structlog.PrintLoggerFactory(cast("TextIO", SturdyStream(sys.stderr))),
    )
