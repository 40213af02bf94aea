"""Small halls whose best caps can be worked out on paper."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from controllers.allocation import HeatRow, Problem, refusal, relieve, solve, water_fill
from controllers.allocation.curves import best_cap
from facility.config import Node, Power
from facility.topology import Topology

FACTOR = 1.05 / 0.96


def node(rack: str = "r1", **more: Any) -> Node:
    curve = {"tm": "1000 tok/s", "c0": "120 W", "k": "300 W", "n": 4.0}
    document = {"rack": rack, "gpus": 8, "gpu": "h100", "min_cap": "200 W", "max_cap": "700 W"}
    return Node.model_validate_json(json.dumps({**document, "curve": curve, **more}))


def hall(rating: str | None, racks: int = 2, **loads: str) -> Topology:
    elements: dict[str, Any] = {"u": {"kind": "source"}}
    elements["pdu"] = {"kind": "pdu", "fed_by": ["u"]} | ({"rating": rating} if rating else {})
    document = {
        "elements": elements,
        "racks": {
            f"r{i + 1}": {"feeds": {"a": "pdu"}, "rating": "20 kW", "overhead": "1 kW"}
            for i in range(racks)
        },
        "loads": {name: {"feeds": {"a": "pdu"}, "rating": w} for name, w in loads.items()},
    }
    return Topology.of(Power.model_validate_json(json.dumps(document)))


def test_without_limits_throughput_runs_at_the_greatest_cap() -> None:
    plan = solve(Problem.of(hall(None), {"n1": node()}, policy="throughput"))
    assert plan.caps_w == {"n1": 700.0}
    assert plan.because == {"n1": "its greatest cap, 700 W"}
    assert plan.prices == ()


def test_without_limits_efficiency_runs_at_the_optimum_of_the_rack() -> None:
    plan = solve(Problem.of(hall(None), {"n1": node(overhead="400 W")}))
    # h: watts per GPU that the cap does not touch, brought to the board's side of the supply.
    expected = best_cap(node().curve, 1400.0 / 8.0 / FACTOR)  # type: ignore[arg-type]
    assert plan.caps_w["n1"] == pytest.approx(expected, rel=1e-9)
    assert plan.objective == pytest.approx(0.0, abs=1e-9)
    assert plan.because == {"n1": "most tokens per watt of r1"}


def test_equal_nodes_share_what_a_limit_leaves() -> None:
    topology = hall("10 kW")
    plan = solve(
        Problem.of(
            topology, {"n1": node(), "n2": node("r2"), "n3": node("r2")}, policy="throughput"
        )
    )
    expected = (10_000.0 - 2000.0) / (3 * 8 * FACTOR)
    assert list(plan.caps_w.values()) == pytest.approx([expected] * 3, rel=1e-9)
    assert set(plan.because.values()) == {"pdu in the normal case"}
    (price,) = plan.prices
    # T' of each at that cap: one kW is 1000/(8·factor) W of cap of one node, of 8 GPUs.
    x = (expected - 120.0) / 300.0
    slope = 1000.0 / 300.0 * (1.0 + x**4) ** (-5.0 / 4.0)
    assert price.tok_s_per_kw == pytest.approx(slope * 1000.0 / FACTOR, rel=1e-6)
    assert price.worth_per_kw == pytest.approx(price.tok_s_per_kw / 1000.0, rel=1e-3)
    assert (price.element, price.case) == ("pdu", "normal")


def test_one_more_kw_is_worth_what_the_price_says() -> None:
    nodes = {
        "n1": node(),
        "n2": node("r2", curve={"tm": "400 tok/s", "c0": "90 W", "k": "250 W", "n": 3.0}),
        "n3": node("r2", worth=0.002),
    }
    less, more = (
        solve(Problem.of(hall(rating), nodes, policy="throughput"))
        for rating in ("11 kW", "11.01 kW")
    )
    (price,) = less.prices
    assert 100.0 * (more.objective - less.objective) == pytest.approx(price.worth_per_kw, rel=0.01)
    gained = 100.0 * (more.tokens_per_s - less.tokens_per_s)
    assert gained == pytest.approx(price.tok_s_per_kw, rel=0.01)


def test_a_higher_class_takes_first() -> None:
    nodes = {"n1": node(priority="low"), "n2": node("r2", priority="high"), "n3": node("r2")}
    plan = solve(Problem.of(hall("14 kW"), nodes, policy="throughput"))
    left = (14_000.0 - 2000.0) / (8 * FACTOR) - 700.0 - 200.0
    assert plan.caps_w["n2"] == 700.0
    assert plan.caps_w["n3"] == pytest.approx(left, rel=1e-9)
    assert plan.caps_w["n1"] == pytest.approx(200.0, abs=1e-6)


def test_nodes_of_a_group_share_one_cap() -> None:
    nodes = {
        "n1": node(group="job"),
        "n2": node("r2", group="job", max_cap="500 W"),
        "n3": node("r2"),
    }
    plan = solve(Problem.of(hall("12 kW"), nodes, policy="throughput"))
    assert plan.caps_w["n1"] == plan.caps_w["n2"]
    total = sum(8 * FACTOR * cap for cap in plan.caps_w.values()) + 2000.0
    assert total == pytest.approx(12_000.0, rel=1e-9)
    assert plan.caps_w["n1"] == pytest.approx(plan.caps_w["n3"], rel=1e-6)


def test_watts_beyond_demand_are_not_bought() -> None:
    plan = solve(Problem.of(hall(None), {"n1": node(demand="4000 tok/s")}, policy="throughput"))
    assert plan.tokens_per_s == pytest.approx(1.2 * 4000.0)
    assert plan.caps_w["n1"] < 420.0
    assert plan.because["n1"].startswith("demand is met at")


def parked_nodes(count: int) -> dict[str, Node]:
    return {f"n{i}": node(min_cap="100 W", overhead="0 W") for i in range(count)}


def test_what_cannot_run_usefully_is_parked_latest_in_the_file_first() -> None:
    nodes = parked_nodes(4)
    plan = solve(Problem.of(hall("10.2 kW", racks=1), nodes, policy="throughput"))
    assert plan.feasible
    assert plan.parked == {"n3"}
    running = [plan.caps_w[f"n{i}"] for i in range(3)]
    assert running == pytest.approx([running[0]] * 3, rel=1e-9)
    assert plan.caps_w["n3"] == 100.0
    assert plan.because["n3"] == "parked at its floor: pdu in the normal case"
    each = 8 * FACTOR
    assert 3 * each * running[0] + each * 100.0 + 1000.0 == pytest.approx(10_200.0)


def test_parking_earns_what_trying_every_choice_earns() -> None:
    nodes = parked_nodes(4)
    least = best_cap(nodes["n0"].curve, -100.0)  # type: ignore[arg-type]
    for kilowatts in (4.6, 5.9, 6.4, 7.5, 9.2, 10.2, 12.0):
        topology = hall(f"{kilowatts} kW", racks=1)
        plan = solve(Problem.of(topology, nodes, policy="throughput"))
        best = 0.0
        for running in range(1, 5):
            room = (kilowatts * 1000.0 - 1000.0) / (8 * FACTOR) - 100.0 * (4 - running)
            cap = min(room / running, 700.0)
            if cap < least:
                continue  # below the tangent point from its floor a node is parked instead
            x = max(cap - 120.0, 0.0) / 300.0
            best = max(best, running * 8 * x / (1.0 + x**4) ** 0.25)
        assert plan.objective == pytest.approx(best, rel=1e-6)


def test_floors_that_do_not_fit_say_what_is_missing() -> None:
    problem = Problem.of(hall("5 kW", cdu="2 kW"), {"n1": node(), "n2": node("r2")})
    plan = solve(problem)
    over = 2 * (1000.0 + 8 * FACTOR * 200.0) + 2000.0 - 5000.0
    assert not plan.feasible
    assert plan.caps_w == {"n1": 200.0, "n2": 200.0}
    assert plan.missing is not None
    assert (plan.missing.element, plan.missing.case) == ("pdu", "normal")
    assert plan.missing.kw == pytest.approx(over / 1000.0)
    assert "pdu" in plan.missing.would_fix


def test_an_override_is_fixed_or_refused_by_name() -> None:
    nodes = {"n1": node(), "n2": node("r2")}
    problem = Problem.of(hall("8 kW"), nodes, policy="throughput", fixed_w={"n1": 450.0})
    plan = solve(problem)
    assert plan.caps_w["n1"] == 450.0
    assert plan.because["n1"] == "override to 450 W"
    assert refusal(problem, "n2", 230.0) is None
    assert refusal(problem, "n2", 600.0) == "pdu in the normal case would be 3.2 kW over"
    assert refusal(problem, "n2", 100.0) == "n2 accepts 200 to 700 W per GPU"


def test_cooling_bounds_caps_by_node_and_by_loop() -> None:
    nodes = {"n1": node(), "n2": node("r2")}
    heat = HeatRow("loop-1", "loss of u", np.array([0.8, 0.8]), 6400.0)
    problem = Problem.of(
        hall(None), nodes, policy="throughput", thermal_w={"n1": 250.0}, heat=[heat]
    )
    plan = solve(problem)
    assert plan.caps_w["n1"] == 250.0
    assert plan.because["n1"] == "cooling allows 250 W"
    assert plan.caps_w["n2"] == pytest.approx(6000.0 / (8 * FACTOR) - 250.0)
    assert plan.because["n2"] == "loop-1 after loss of u"


def test_a_metered_peak_above_the_caps_takes_room_from_others() -> None:
    nodes = {"n1": node(max_cap="200 W"), "n2": node("r2")}
    problem = Problem.of(hall("9 kW"), nodes, policy="throughput", metered_w={"r1": 5000.0})
    plan = solve(problem)
    expected = (9000.0 - 1.02 * 5000.0 - 1000.0) / (8 * FACTOR)
    assert plan.caps_w["n2"] == pytest.approx(expected)
    assert water_fill(problem).caps_w["n2"] == pytest.approx(expected)


def test_fallbacks_fit_with_every_other_load_at_its_rating() -> None:
    nodes = {"n1": node(fallback="600 W"), "n2": node("r2", fallback="600 W")}
    problem = Problem.of(hall("9 kW", cdu="2 kW"), nodes, load_w={"cdu": 100.0})
    plan = solve(problem)
    expected = (9000.0 - 2000.0 - 2000.0) / (2 * 8 * FACTOR)
    assert list(plan.fallback_w.values()) == pytest.approx([expected] * 2)


def test_a_node_without_a_curve_gets_caps_but_claims_no_tokens() -> None:
    plan = solve(Problem.of(hall("7 kW"), {"n1": node(curve=None), "n2": node("r2")}))
    first, second = plan.nodes
    assert first.tokens_per_s is None
    assert first.cap_w > 200.0
    assert second.tokens_per_s == plan.tokens_per_s


def test_after_a_real_loss_only_the_present_limits_bind() -> None:
    elements = {
        "u": {"kind": "source"},
        "a": {"kind": "pdu", "fed_by": ["u"], "rating": "10 kW"},
        "b": {"kind": "pdu", "fed_by": ["u"], "rating": "6 kW"},
        "c": {"kind": "pdu", "fed_by": ["u"], "rating": "20 kW"},
    }
    racks = {"r1": {"feeds": {x: x for x in "abc"}, "rating": "20 kW"}}
    topology = Topology.of(
        Power.model_validate_json(json.dumps({"elements": elements, "racks": racks}))
    )
    secure, present = (
        solve(
            Problem.of(
                topology, {"n1": node()}, policy="throughput", losses=["c"], present_only=only
            )
        )
        for only in (False, True)
    )
    assert secure.caps_w["n1"] == pytest.approx(6000.0 / (8 * FACTOR))
    assert present.caps_w["n1"] == 700.0


def test_a_present_overload_takes_the_lowest_class_down_to_its_least_cap_first() -> None:
    nodes = {
        "n1": node(priority="high", floor="600 W"),
        "n2": node("r2", priority="low", floor="500 W"),
        "n3": node("r2", floor="500 W"),
    }
    problem = Problem.of(hall("14 kW"), nodes, policy="throughput")
    caps = dict.fromkeys(nodes, 600.0)
    eased = relieve(problem, caps)
    left = (14_000.0 - 2000.0) / (8 * FACTOR) - 600.0 - 200.0
    assert eased == pytest.approx({"n1": 600.0, "n2": 200.0, "n3": left})
    fits = dict.fromkeys(nodes, 300.0)
    assert relieve(problem, fits) == fits
    stuck = Problem.of(hall("14 kW"), nodes, policy="throughput", fixed_w={"n3": 600.0})
    eased = relieve(stuck, caps)
    assert eased == pytest.approx({"n1": left, "n2": 200.0, "n3": 600.0})
    hopeless = Problem.of(hall("3 kW"), nodes, policy="throughput")
    assert relieve(hopeless, caps) == dict.fromkeys(nodes, 200.0)


def test_a_group_of_unlike_nodes_sits_where_its_slopes_add_up() -> None:
    other = {"tm": "400 tok/s", "c0": "90 W", "k": "250 W", "n": 3.0}
    nodes = {
        "n1": node(group="job"),
        "n2": node("r2", group="job", gpu="a100", curve=other),
        "n3": node("r2"),
    }
    topology = hall("12 kW")
    plan = solve(Problem.of(topology, nodes, policy="throughput"))
    total = (12_000.0 - 2000.0) / (8 * FACTOR)

    def earned(shared: float) -> float:
        def tokens(cap: float, tm: float, c0: float, k: float, n: float) -> float:
            x = (cap - c0) / k
            return float(tm * x / (1.0 + x**n) ** (1.0 / n))

        first = tokens(shared, 1000.0, 120.0, 300.0, 4.0) / 1000.0
        second = tokens(shared, 400.0, 90.0, 250.0, 3.0) / 400.0
        return 8 * (first + second + tokens(total - 2 * shared, 1000.0, 120.0, 300.0, 4.0) / 1e3)

    grid = np.linspace(230.0, total / 2 - 100.0, 200_001)
    best = float(grid[int(np.argmax([earned(c) for c in grid[::100]])) * 100])
    assert plan.caps_w["n1"] == plan.caps_w["n2"] == pytest.approx(best, abs=0.5)
    assert plan.objective == pytest.approx(earned(plan.caps_w["n1"]), rel=1e-9)
    assert plan.objective >= earned(best) * (1.0 - 1e-7)


def test_floors_that_fill_a_limit_exactly_are_a_plan() -> None:
    floors = 2000.0 + 2 * 8 * FACTOR * 200.0
    plan = solve(Problem.of(hall(f"{floors!r} W"), {"n1": node(), "n2": node("r2")}))
    assert plan.feasible
    assert plan.caps_w == pytest.approx({"n1": 200.0, "n2": 200.0})


def test_a_loop_that_cannot_take_the_floors_is_what_is_missing() -> None:
    nodes = {"n1": node(), "n2": node("r2")}
    heat = [HeatRow("loop-1", "loss of u", np.array([1.0, 1.0]), 0.0)]
    plan = solve(Problem.of(hall(None), nodes, heat=heat))
    assert plan.missing is not None
    assert (plan.missing.element, plan.missing.case) == ("loop-1", "loss of u")
    assert "heat capacity" in plan.missing.would_fix


def test_water_filling_does_not_creep_over_a_full_limit_on_a_flat_curve() -> None:
    flat = {"tm": "10 tok/s", "c0": "0 W", "k": "10 W", "n": 14.0}
    steep = {"tm": "1000 tok/s", "c0": "0 W", "k": "10 W", "n": 4.0}
    nodes = {
        "n1": node(min_cap="2 W", max_cap="50 W", priority="high", curve=steep),
        "n2": node("r2", min_cap="1 W", max_cap="4 W", priority="low", curve=flat),
    }
    problem = Problem.of(hall("2.2 kW"), nodes, policy="throughput")
    plan = water_fill(problem)
    assert plan.feasible
    assert plan.caps_w["n2"] == pytest.approx(1.0)


def test_two_limits_at_once_are_both_used_up() -> None:
    elements: dict[str, Any] = {
        "u": {"kind": "source"},
        "x": {"kind": "pdu", "fed_by": ["u"], "rating": "5 kW"},
        "y": {"kind": "pdu", "fed_by": ["u"], "rating": "6 kW"},
    }
    racks = {f"r{i + 1}": {"feeds": {"a": f}, "rating": "9 kW"} for i, f in enumerate("xy")}
    topology = Topology.of(
        Power.model_validate_json(json.dumps({"elements": elements, "racks": racks}))
    )
    plan = solve(Problem.of(topology, {"n1": node(), "n2": node("r2")}, policy="throughput"))
    assert plan.caps_w["n1"] == pytest.approx(5000.0 / (8 * FACTOR), rel=1e-5)
    assert plan.caps_w["n2"] == pytest.approx(6000.0 / (8 * FACTOR), rel=1e-5)


@pytest.mark.parametrize("find", [solve, water_fill])
def test_a_curve_that_is_straight_to_the_last_bit_still_uses_all_the_room(find: Any) -> None:
    straight = {"tm": "1000 tok/s", "c0": "8 W", "k": "400 W", "n": 14.0}
    nodes = {"n1": node(min_cap="9 W", curve=straight)}
    nodes["n2"] = node("r2", min_cap="9 W", curve=straight)
    plan = find(Problem.of(hall("2.5 kW"), nodes, policy="throughput"))
    expected = 500.0 / (2 * 8 * FACTOR)
    assert list(plan.caps_w.values()) == pytest.approx([expected] * 2, rel=1e-6)


@pytest.mark.parametrize("policy", ["throughput", "efficiency"])
def test_equal_nodes_of_unlike_racks_get_equal_caps_where_one_limit_binds_both(policy: Any) -> None:
    other = {"tm": "400 tok/s", "c0": "90 W", "k": "250 W", "n": 3.0}
    nodes = {
        "n1": node(),
        "n2": node("r2"),
        "n3": node("r2", gpus=4),
        "n4": node("r1", gpu="a100", curve=other),
        "n5": node("r2", worth=0.002),
    }
    plan = solve(Problem.of(hall("13 kW"), nodes, policy=policy))
    caps = plan.caps_w
    if policy == "throughput":
        # One price per watt: a GPU's cap does not hang on how many there are, or where.
        assert caps["n1"] == pytest.approx(caps["n2"], rel=1e-9)
    assert caps["n2"] == pytest.approx(caps["n3"], rel=1e-9)
    assert caps["n5"] > caps["n2"]
    assert caps["n4"] != caps["n1"]
