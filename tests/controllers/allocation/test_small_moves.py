"""Caps that would move by less than 1 % stay, yet a node that comes back still gets its watts."""

from __future__ import annotations

import numpy as np
import pytest

from controllers.allocation import Problem, feasible, make_room, solve
from controllers.allocation.rows import Rows
from facility.points import FloatArray
from tests.controllers.allocation.test_allocation_by_hand import FACTOR, hall, node

LEAST_W = 7.0


def crowd(count: int, rating_kw: float) -> Problem:
    """`count` equal nodes of 8 GPUs on one PDU."""
    nodes = {f"n{i:02d}": node() for i in range(count)}
    return Problem.of(hall(f"{rating_kw} kW", racks=1), nodes, policy="throughput")


def room_made(problem: Problem, in_force: FloatArray) -> FloatArray:
    plan = solve(problem)
    least = np.full(len(in_force), LEAST_W)
    return make_room(Rows(problem), in_force, plan.columns.cap_w, least)


def test_a_node_that_comes_back_gets_its_watts_though_each_other_would_yield_too_little() -> None:
    count = 41
    each_w = 300.0
    problem = crowd(count, (1000.0 + 8 * FACTOR * each_w * count) / 1000.0)
    # One was held down by cooling, and the others took its watts: 2.5 W each.
    in_force = np.full(count, each_w + 2.5)
    in_force[0] = 200.0
    desired = room_made(problem, in_force)
    assert feasible(problem, desired) is None
    assert desired[0] == pytest.approx(each_w)
    moves = desired[1:] - in_force[1:]
    assert np.all((moves == 0.0) | (moves == -LEAST_W))
    # No more of them yield than it takes: 100 W.
    assert np.sum(moves < 0.0) == int(np.ceil(100.0 / LEAST_W))


def test_what_fits_is_left_as_it_is_wanted() -> None:
    problem = crowd(4, 30.0)
    in_force = np.array([700.0, 700.0, 500.0, 695.0])
    desired = room_made(problem, in_force)
    assert desired.tolist() == [700.0] * 4


def test_where_nobody_can_yield_a_raise_is_cut_to_what_fits() -> None:
    problem = crowd(2, (1000.0 + 8 * FACTOR * (202.0 + 300.0)) / 1000.0)
    # Both should be at 251 W, but the first is close to its floor.
    in_force = np.array([202.0, 290.0])
    wanted = np.array([200.0, 302.0])
    desired = make_room(Rows(problem), in_force, wanted, np.full(2, 7.0))
    assert desired[0] == 202.0
    assert desired[1] == pytest.approx(300.0)
    assert feasible(problem, desired) is None
