"""Supply temperature per loop: the bounded economic reset of control law 4."""

from controllers.cooling.faults import forget_leaks
from controllers.cooling.loops import LoopOutcome, control_loop, remember_setpoint
from controllers.cooling.memory import LoopMemory

__all__ = ["LoopMemory", "LoopOutcome", "control_loop", "forget_leaks", "remember_setpoint"]
