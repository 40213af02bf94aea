"""One control cycle as a pure function: what is known in, what is asked for out."""

from controllers.cycle.admitting import admit
from controllers.cycle.decide import decide
from controllers.cycle.overrides import Admission
from controllers.cycle.state import CycleInput, FinishedPlan, Memory, PlanRequest, answer

__all__ = [
    "Admission",
    "CycleInput",
    "FinishedPlan",
    "Memory",
    "PlanRequest",
    "admit",
    "answer",
    "decide",
]
