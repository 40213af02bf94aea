"""Tokens per watt from counters and power."""

from __future__ import annotations

import numpy as np
import pytest

from controllers.efficiency import EfficiencyMemory, account
from tests.controllers.toy import Toy, site_of, small_hall


class Meter:
    def __init__(self, **plant: float) -> None:
        self.site = site_of(small_hall())
        self.toy = Toy(self.site, **plant)  # type: ignore[arg-type]
        self.memory = EfficiencyMemory.empty(self.site)

    def run(self, seconds: int, *, metered: bool = True) -> dict[str, object]:
        facts: dict[str, object] = {}
        for _ in range(seconds):
            racks = np.array([self.toy.rack_w(r) for r in self.site.racks])
            racks = racks if metered else np.full_like(racks, np.nan)
            found, self.memory = account(self.site, self.toy.snapshot(), racks, self.memory)
            facts = dict(found)
            self.toy.advance()
        return facts


def expected(toy: Toy) -> float:
    x = (toy.cap_w - 120.0) / 300.0
    tokens = 16 * 1000.0 * x / (1.0 + x**4) ** 0.25
    return tokens / toy.rack_w("r01")


def test_tokens_per_joule_are_tokens_over_the_racks_joules() -> None:
    meter = Meter(cap_w=400.0)
    facts = meter.run(40)
    rack = facts["racks"]["r01"]  # type: ignore[index]
    assert rack["tokens_per_joule"] == pytest.approx(expected(meter.toy), rel=1e-3)
    assert facts["hall"]["tokens_per_joule"] == pytest.approx(expected(meter.toy), rel=1e-3)  # type: ignore[index]


def test_no_claim_before_five_seconds_and_no_p5_before_five_minutes() -> None:
    meter = Meter()
    assert meter.run(4)["hall"]["tokens_per_joule"] is None  # type: ignore[index]
    assert meter.run(200)["hall"]["sustained_p5"] is None  # type: ignore[index]
    assert meter.run(120)["hall"]["sustained_p5"] == pytest.approx(expected(meter.toy), rel=1e-2)  # type: ignore[index]


def test_without_meters_there_is_no_claim() -> None:
    hall = Meter().run(30, metered=False)["hall"]
    assert hall["tokens_per_joule"] is None  # type: ignore[index]
    assert hall["power_w"] is None  # type: ignore[index]


def test_a_counter_that_starts_again_costs_two_steps_and_makes_no_jump() -> None:
    meter = Meter(cap_w=400.0)
    meter.run(20)
    meter.toy.tokens["r01-n1"] = 0.0
    facts = meter.run(60)
    assert facts["hall"]["tokens_per_joule"] == pytest.approx(expected(meter.toy), rel=1e-3)  # type: ignore[index]


ENGINES = """
  engine-[1-2]: {profile: engine/vllm, address: "http://x:800{1}", measures: {node: r01-n1}}
control:
"""


def test_a_counter_that_reads_zero_once_makes_no_tokens_of_its_return() -> None:
    """Case 43: a counter reads 0 once and goes on from where it was."""
    meter = Meter(cap_w=400.0)
    meter.toy.tokens["r01-n1"] = 4e7
    meter.run(20)
    was = meter.toy.tokens["r01-n1"]
    meter.toy.tokens["r01-n1"] = 0.0
    meter.run(5)
    meter.toy.tokens["r01-n1"] += was
    facts = meter.run(60)
    assert facts["racks"]["r01"]["tokens_per_joule"] == pytest.approx(  # type: ignore[index]
        expected(meter.toy), rel=0.1
    )


def test_tokens_of_the_engines_on_a_node_take_the_place_of_the_agents() -> None:
    """Two servers on one node are both counted, and the agent's own number is not added to them."""
    site = site_of(small_hall().replace("\ncontrol:\n", ENGINES))
    names = [site.table.specs[i].id.device for i in site.token_points.tolist()]
    assert names == ["engine-1", "engine-2", "r01-n2", "r02-n1", "r02-n2"]
    assert [site.nodes[i] for i in site.token_node] == ["r01-n1", "r01-n1", *names[2:]]
    toy, memory = Toy(site), EfficiencyMemory.empty(site)
    counted = {"engine-1": 5e6, "engine-2": 1000.0}
    for second in range(30):
        counted["engine-1"] += 100.0
        counted["engine-2"] = 7.0 if second == 12 else counted["engine-2"] + 50.0
        told = counted | {"r01-n2": 40.0 * second}
        toy.changes = {f"{name}:total:tokens_generated": count for name, count in told.items()}
        racks = np.full(len(site.racks), 1000.0)
        _, memory = account(site, toy.snapshot(), racks, memory)
        toy.advance()
    steps = memory.steps[:, 0, 0]
    # A restart of one engine makes no claim for its step and the next, and no jump.
    assert np.isnan(steps).sum() == 2
    assert steps[~np.isnan(steps)] == pytest.approx(5 * (100.0 + 50.0 + 40.0))


def test_an_engine_that_counts_no_tokens_leaves_the_agents_in_their_place() -> None:
    engine = ENGINES.replace("engine/vllm", "engine/triton-trtllm")
    site = site_of(small_hall().replace("\ncontrol:\n", engine))
    assert [site.table.specs[i].id.device for i in site.token_points] == list(site.nodes)
