"""What is known of GPU nodes: token curves, caps in force, and how caps may move."""

from controllers.gpu_caps.curves import StatedCurve, best_cap_w, curves, tokens_per_s
from controllers.gpu_caps.force import CapForce, CapMemory, Sent, caps_in_force
from controllers.gpu_caps.moves import CapMoves, move_caps

__all__ = [
    "CapForce",
    "CapMemory",
    "CapMoves",
    "Sent",
    "StatedCurve",
    "best_cap_w",
    "caps_in_force",
    "curves",
    "move_caps",
    "tokens_per_s",
]
