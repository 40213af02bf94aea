"""How long cycles took, in the few numbers people look at."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def cycle_milliseconds(took: Sequence[float]) -> dict[str, float]:
    """p50, p99 and max of cycle times, ms; empty before the first cycle."""
    if not took:
        return {}
    array = np.asarray(took)
    p50, p99 = np.percentile(array, (50, 99))
    return {"p50": float(p50), "p99": float(p99), "max": float(array.max())}
