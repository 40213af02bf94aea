"""Who an agent is, and what it must be told of its node."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Settings:
    """What an agent must be told.

    Attributes:
        node: its name in the facility file.
        prefix: first level of the topics.
        boot_id: of this boot of the machine; another one than the saved means a reboot.
        fallback_w: W per GPU until a controller names another; None writes nothing at boot.
        floor_w: no cap goes below it, whoever asks; None leaves it to the board.
        period_s: between statuses.
    """

    node: str
    prefix: str
    boot_id: str
    fallback_w: float | None = None
    floor_w: float | None = None
    period_s: float = 1.0
