"""Work on the plant: what it takes out, what it silences, what it freezes, what it would cost."""

from controllers.maintenance.below import alarm_key, hangs_below, work_conditions
from controllers.maintenance.freezing import frozen_nodes, leave_caps, let_be, told, worked_on

__all__ = [
    "alarm_key",
    "frozen_nodes",
    "hangs_below",
    "leave_caps",
    "let_be",
    "told",
    "work_conditions",
    "worked_on",
]
