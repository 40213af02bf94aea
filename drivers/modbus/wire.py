"""An open way to a device, whatever it is made of, and how one is opened."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

OnData = Callable[[bytes], None]
OnLost = Callable[[], None]


class Wire(Protocol):
    """An open way to a device."""

    def write(self, data: bytes) -> None:
        """Send, at once."""

    def take_back(self) -> bool:
        """Throw away what the other side has not taken; whether there was any.

        Nothing can be sent any more after that.
        """

    def close(self) -> None:
        """Let go; nothing is called back any more."""


#: opens a way; raises OSError where there is none
Dial = Callable[[OnData, OnLost], Awaitable[Wire]]
