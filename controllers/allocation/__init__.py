"""Caps of GPU nodes: most worth inside every limit, in every case, by priority."""

from controllers.allocation.heat import HeatRow, heat_rows
from controllers.allocation.plan import Plan
from controllers.allocation.problem import Problem
from controllers.allocation.relief import Fitted, lower_to_fit, make_room, relieve
from controllers.allocation.rows import Violation
from controllers.allocation.solve import (
    Solver,
    feasible,
    floors_lack,
    refusal,
    solve,
    water_fill,
)
from controllers.allocation.twins import worth_saying

__all__ = [
    "Fitted",
    "HeatRow",
    "Plan",
    "Problem",
    "Solver",
    "Violation",
    "feasible",
    "floors_lack",
    "heat_rows",
    "lower_to_fit",
    "make_room",
    "refusal",
    "relieve",
    "solve",
    "water_fill",
    "worth_saying",
]
