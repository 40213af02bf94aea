"""Caps in force that break a limit come down to what fits, and no further than they must."""

from __future__ import annotations

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from controllers.allocation import Problem, lower_to_fit
from controllers.allocation.rows import Rows
from tests.controllers.allocation.test_allocation_properties import Hall, halls


def asked(hall: Hall, share: float) -> tuple[Rows, dict[str, float], dict[str, float]]:
    """Rows, caps in force and floors of a hall."""
    floors = {name: node.floor or node.min_cap for name, node in hall.nodes.items()}
    caps = {n: floors[n] + share * (node.max_cap - floors[n]) for n, node in hall.nodes.items()}
    return Rows(Problem.of(hall.topology(), hall.nodes)), caps, floors


@settings(max_examples=150, deadline=None)
@given(halls(concave=False, classes=True), st.sampled_from([0.0, 0.4, 1.0]))
def test_caps_come_down_until_they_fit_and_only_where_a_limit_is_full(
    hall: Hall, share: float
) -> None:
    rows, caps, floors = asked(hall, share)
    over = hall.over(floors)
    assume(abs(over) > 1e-6)
    names = list(hall.nodes)
    force, least = (np.array([d[n] for n in names]) for d in (caps, floors))
    found = lower_to_fit(rows, force, least)
    assert (found is None) == (over > 0.0)
    if found is None:
        return
    fitted = dict(zip(names, found.caps_w.tolist(), strict=True))
    assert hall.over(fitted) <= 1e-5
    assert np.all(found.caps_w >= least)
    assert np.all(found.caps_w <= force)
    lowered = {i for i in range(len(names)) if found.caps_w[i] < force[i] - 1e-6}
    assert lowered <= set(found.because)
    if hall.over(caps) < 0.0:
        assert fitted == caps
    for i in lowered:
        more = {**fitted, names[i]: fitted[names[i]] + 0.05}
        assert hall.over(more) > 0.0


@settings(max_examples=80, deadline=None)
@given(halls(concave=False, classes=True))
def test_a_higher_class_comes_down_only_where_the_lower_ones_have_nothing_left(hall: Hall) -> None:
    rows, caps, floors = asked(hall, 1.0)
    assume(hall.over(floors) < -1e-6)
    names = list(hall.nodes)
    force, least = (np.array([d[n] for n in names]) for d in (caps, floors))
    found = lower_to_fit(rows, force, least)
    assert found is not None
    order = ["low", "normal", "high"]
    rank = [order.index(hall.nodes[n].priority) for n in names]
    for i in np.flatnonzero(found.caps_w < force - 1e-6).tolist():
        alone = {
            n: floors[n] if rank[k] < rank[i] else found.caps_w[k] for k, n in enumerate(names)
        }
        alone[names[i]] += 0.05
        assert hall.over(alone) > 0.0
