"""What a full phase lacks and is worth, told in watts of its element as headroom tells it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from controllers.allocation import Plan, Problem, solve
from controllers.headroom import Headroom, study
from facility.config import Node, Power
from facility.topology import Topology


def found(amps: str, load: str = "4 kW") -> tuple[Plan, Headroom]:
    """One rack of one node beside a load that sits on one phase of the same PDU."""
    power: dict[str, Any] = {
        "elements": {
            "u": {"kind": "source"},
            "pdu": {
                "kind": "pdu",
                "fed_by": ["u"],
                "rating": {"current": amps, "voltage_ln": "230 V"},
                "power_factor": 1.0,
            },
        },
        "racks": {"r1": {"feeds": {"a": "pdu"}, "rating": "9 kW"}},
        "loads": {"pump": {"feeds": {"a": "pdu"}, "rating": load, "phases": {"a": {"L1": 1.0}}}},
    }
    node = {
        "rack": "r1",
        "gpus": 8,
        "gpu": "h100",
        "min_cap": "200 W",
        "max_cap": "700 W",
        "curve": {"tm": "1000 tok/s", "c0": "120 W", "k": "300 W", "n": 4.0},
    }
    topology = Topology.of(Power.model_validate_json(json.dumps(power)))
    nodes = {"n1": Node.model_validate_json(json.dumps(node))}
    problem = Problem.of(topology, nodes, policy="throughput")
    plan = solve(problem)
    return plan, study(topology, problem.load_w(problem.unit_caps(plan.caps_w)))


def test_what_a_full_phase_lacks_is_the_headroom_that_its_element_lacks() -> None:
    plan, left = found("20 A")
    assert plan.missing is not None
    assert left.binding is not None
    element, case, headroom_w = left.binding
    assert (plan.missing.element, plan.missing.case) == (element, case) == ("pdu", "normal")
    assert plan.missing.kw == pytest.approx(-headroom_w / 1000.0)
    assert f"raise its rating by {plan.missing.kw:.1f} kW" in plan.missing.would_fix
    assert f"take {plan.missing.kw / 3.0:.1f} kW of load off the fullest phase of pdu" in (
        plan.missing.would_fix
    )


def test_the_rating_that_a_full_phase_asks_for_does_fix_it() -> None:
    plan, _ = found("20 A")
    assert plan.missing is not None
    # 80 % of the amps at 230 V on each of three phases.
    more_a = plan.missing.kw * 1000.0 / 3.0 / 230.0 / 0.8
    assert not found(f"{20.0 + 0.999 * more_a} A")[0].feasible
    assert found(f"{20.0 + 1.001 * more_a} A")[0].feasible


def test_one_more_kw_on_an_element_gives_a_full_phase_a_third_of_it() -> None:
    kw_per_a = 3.0 * 230.0 * 0.8 / 1000.0
    step = 0.01
    plan, less, more = found("30 A")[0], found(f"{30 - step} A")[0], found(f"{30 + step} A")[0]
    gained = (more.tokens_per_s - less.tokens_per_s) / (2.0 * step * kw_per_a)
    (price,) = plan.prices
    assert (price.element, price.case) == ("pdu", "normal")
    assert price.tok_s_per_kw == pytest.approx(gained, rel=1e-3)
    assert price.worth_per_kw == pytest.approx(gained / 1000.0, rel=1e-3)
