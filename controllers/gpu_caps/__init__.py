"""GPU caps: which are in force, and how they may move. Curves live with the allocation."""

from controllers.gpu_caps.force import CapForce, CapMemory, SentCaps, caps_in_force
from controllers.gpu_caps.moves import CapMoves, move_caps

__all__ = [
    "CapForce",
    "CapMemory",
    "CapMoves",
    "SentCaps",
    "caps_in_force",
    "move_caps",
]
