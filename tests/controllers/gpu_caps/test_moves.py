"""Raises share the site's ramp one after the other, in the order of the file."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from controllers.gpu_caps.moves import GRAIN_W, _steps

WATTS = st.floats(1.0, 500.0)
NODE = st.tuples(WATTS, st.floats(0.0, 20.0), st.floats(1.0, 9.0))


def _one_by_one(
    nodes: list[tuple[float, float, float]], credit: float, step_w: float
) -> tuple[list[float], float, bool]:
    found: list[float] = []
    for gap, least, wall_w in nodes:
        step = float(np.floor(min(gap, step_w, max(credit, 0.0) / wall_w) / GRAIN_W) * GRAIN_W)
        if step < min(least, gap) or step < GRAIN_W:
            return found, credit, True
        found.append(step)
        credit -= step * wall_w
    return found, credit, False


@given(st.lists(NODE, min_size=1, max_size=40), st.floats(-10.0, 9000.0), st.booleans())
def test_steps_of_all_nodes_are_those_taken_one_by_one(
    nodes: list[tuple[float, float, float]], credit: float, bounded: bool
) -> None:
    step_w = 100.0 if bounded else np.inf
    gap, least, wall_w = (np.array(column) for column in zip(*nodes, strict=True))
    steps, left, ramped = _steps(gap, least, wall_w, credit, step_w)
    assert (steps.tolist(), left, ramped) == _one_by_one(nodes, credit, step_w)
