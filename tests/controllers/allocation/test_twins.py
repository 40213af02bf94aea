"""One more kW on one of two limits that bind equally is worth nothing: both are named."""

from __future__ import annotations

import json
from typing import Any

import pytest

from controllers.allocation import Plan, Problem, solve, worth_saying
from facility.config import Power
from facility.topology import Topology
from tests.controllers.allocation.test_allocation_by_hand import node


def two_busways(a: str, b: str) -> Topology:
    """Two racks on two busways, either of which carries both racks when the other is lost."""
    elements: dict[str, Any] = {
        "u": {"kind": "source"},
        "row1-a": {"kind": "busway", "fed_by": ["u"], "rating": a},
        "row1-b": {"kind": "busway", "fed_by": ["u"], "rating": b},
    }
    rack = {"feeds": {"a": "row1-a", "b": "row1-b"}, "rating": "20 kW", "overhead": "1 kW"}
    document = {"elements": elements, "racks": {"r1": rack, "r2": rack}}
    return Topology.of(Power.model_validate_json(json.dumps(document)))


def planned(a: str, b: str) -> Plan:
    nodes = {"n1": node(), "n2": node("r2")}
    return solve(Problem.of(two_busways(a, b), nodes, policy="throughput"))


def said(plan: Plan) -> list[tuple[str, str, float]]:
    document = plan.to_json()
    return worth_saying(document["prices"], document["together"])


def test_one_more_kw_is_said_of_both_twins_and_is_true_of_both_only() -> None:
    plan = planned("8 kW", "8 kW")
    ((where, _, gained),) = said(plan)
    assert where == "row1-a and row1-b each"
    assert planned("8.1 kW", "8 kW").tokens_per_s == pytest.approx(plan.tokens_per_s)
    assert planned("8 kW", "8.1 kW").tokens_per_s == pytest.approx(plan.tokens_per_s)
    both = planned("8.1 kW", "8.1 kW").tokens_per_s
    assert (both - plan.tokens_per_s) / 0.1 == pytest.approx(gained, rel=0.1)


def test_the_prices_keep_their_shape_beside_the_groups() -> None:
    plan = planned("8 kW", "8 kW")
    document = plan.to_json()
    assert document["together"] == [["row1-a", "row1-b"]]
    for price in document["prices"]:
        assert set(price) == {"element", "case", "worth_per_kw", "tok_s_per_kw"}
    assert Plan.from_json(json.loads(json.dumps(document))) == plan
    del document["together"]
    assert Plan.from_json(document).together == ()


def test_a_limit_that_binds_alone_is_named_alone() -> None:
    plan = planned("8 kW", "9 kW")
    assert plan.together == ()
    ((where, case, gained),) = said(plan)
    assert (where, case) == ("row1-a", "loss of row1-b")
    assert planned("8.1 kW", "9 kW").tokens_per_s == pytest.approx(
        plan.tokens_per_s + 0.1 * gained, rel=1e-3
    )


def test_prices_of_twins_add_up_and_what_is_unknown_is_left_out() -> None:
    prices: list[dict[str, object]] = [
        {"element": "ups-x", "case": "loss of ups-y", "tok_s_per_kw": 20.0},
        {"element": "ups-y", "case": "loss of ups-x", "tok_s_per_kw": 5.0},
        {"element": "pdu", "case": "normal", "tok_s_per_kw": None},
        {"element": "row", "case": "normal", "tok_s_per_kw": 3.0},
    ]
    assert worth_saying(prices, [["ups-x", "ups-y", "ups-z"]]) == [
        ("ups-x, ups-y and ups-z each", "loss of ups-y", 25.0),
        ("row", "normal", 3.0),
    ]
