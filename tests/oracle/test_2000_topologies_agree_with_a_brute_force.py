"""The product's study equals a brute force written from the law alone, on random topologies.

All of them: `pytest tests/oracle`. One that disagrees is replayed by its seed, which the message
names: `agree(SEED)`.
"""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

from controllers.headroom import study
from facility.config import Loop, Power
from facility.topology import Shares, Source, Topology, cases_json
from tests.oracle import laws
from tests.oracle.plants import Draw

TOPOLOGIES = 2000
BLOCK = 100
WITHIN = 1e-6


def close(found: float, wanted: float) -> bool:
    return abs(found - wanted) <= WITHIN * max(1.0, abs(wanted))


class Pair:
    """One plant, seen by both."""

    def __init__(self, seed: int) -> None:
        draw = Draw(seed)
        self.plant = draw.plant()
        self.loop = draw.loop(self.plant)
        # Half of them as files are (nameplates, switches on normal), half as a live hall is.
        self.live = draw.chance(0.5)
        self.sources: dict[str, Source] = {}
        if self.live:
            positions: tuple[Source, ...] = ("normal", "alternate", "unknown")
            for name, element in self.plant["elements"].items():
                if "transfer" in element:
                    self.sources[name] = draw.rng.choice(positions)
        self.unmeasured = self.live and draw.chance(0.5)
        every = laws.all_loads(self.plant)
        self.loads_w = {n: laws.quantity(load["rating"])[0] for n, load in every.items()}
        if self.live:
            self.loads_w = {n: w * draw.rng.uniform(0.0, 1.2) for n, w in self.loads_w.items()}
        self.topology = Topology.of(Power.model_validate_json(json.dumps(self.plant)), self.sources)
        split = self.topology.split.copy()
        if self.unmeasured:
            two = self.topology.feed_counts[self.topology.feed_load] == 2
            split[two] = np.nan
        load_w = np.array([self.loads_w[name] for name in self.topology.loads])
        self.cooling = cases_json(self.topology, self._loops())
        self.shares = Shares.of(self.topology, split)
        self.load_w = load_w
        self.found = study(self.topology, load_w, split)
        self.wanted = laws.study(self.plant, self.loads_w, self.sources, unmeasured=self.unmeasured)

    def _loops(self) -> dict[str, Loop]:
        if self.loop is None:
            return {}
        return {"loop": Loop.model_validate_json(json.dumps(self.loop))}


def differences(pair: Pair) -> list[str]:
    """What the two say differently; [] if nothing."""
    out: list[str] = []
    topology, found, wanted = pair.topology, pair.found, pair.wanted
    if list(topology.case_names) != list(wanted.cases):
        return [f"cases {topology.case_names} != {list(wanted.cases)}"]
    for case, facts in zip(topology.cases, wanted.cases.values(), strict=True):
        if set(case.dead) != facts.dead:
            out.append(f"{case.name}: dead {case.dead} != {sorted(facts.dead)}")
        if set(case.dark) != facts.dark:
            out.append(f"{case.name}: dark {case.dark} != {sorted(facts.dark)}")
    out += _every_load(pair) + _cooling(pair)
    for e, name in enumerate(topology.elements):
        verdict = wanted.elements[name]
        at = int(found.worst_case[e])
        case_name = topology.case_names[at] if at >= 0 else None
        if case_name != verdict.case:
            out.append(f"{name}: binds in {case_name} != {verdict.case}")
            continue
        if not close(float(found.normal_w[e]), verdict.normal_w):
            out.append(f"{name}: normal {found.normal_w[e]} != {verdict.normal_w}")
        for what, one, other in (
            ("worst", found.worst_w[e], verdict.worst_w),
            ("headroom", found.headroom_w[e], verdict.headroom_w),
        ):
            known = math.isfinite(one)
            if known != (other is not None) or (other is not None and not close(one, other)):
                out.append(f"{name}: {what} {one} != {other}")
    for i, name in enumerate(topology.loads):
        room, one = wanted.load_headroom_w[name], float(found.rack_headroom_w[i])
        if room is None:
            same = math.isnan(one)
        else:
            same = one == room if math.isinf(room) else close(one, room)
        if not same:
            out.append(f"{name}: may add {one} != {room}")
    return out


def _cooling(pair: Pair) -> list[str]:
    """Dark CDUs, and the flow and heat capacity that each case leaves."""
    out: list[str] = []
    for told, (case, facts) in zip(pair.cooling, pair.wanted.cases.items(), strict=True):
        dark = {*told["dark_racks"], *told["dark_loads"]}
        if told["case"] != case or dark != facts.dark:
            out.append(f"{case}: told {told}")
        if pair.loop is None:
            continue
        gone, flow, heat_w = laws.cooling_left(pair.loop, facts.dark)
        (left,) = told["loops"]
        same = close(left["flow_lpm"], flow) and close(left["heat_capacity_w"], heat_w)
        if left["dark_cdus"] != gone or not same:
            out.append(f"{case}: cooling {left} != {gone}, {flow}, {heat_w}")
    return out


def _every_load(pair: Pair) -> list[str]:
    """Each element in each case, and each phase where the loads say theirs."""
    out: list[str] = []
    s, cells = pair.shares.structure, pair.shares.loads_w(pair.load_w)
    at = {(int(c), int(k)): w for c, k, w in zip(s.cell_check, s.cell_case, cells, strict=True)}
    phases = ("L1", "L2", "L3")
    for check in range(len(s.check_element)):
        element = pair.topology.elements[int(s.check_element[check])]
        phase = int(s.check_phase[check])
        key = (element, laws.WHOLE if phase < 0 else phases[phase])
        for k, facts in enumerate(pair.wanted.cases.values()):
            if element in facts.dead:
                continue
            load_w = at.get((check, k), at.get((check, 0)))
            expected = facts.carried_w.get(key, 0.0)
            if load_w is None or not close(float(load_w), expected):
                out.append(f"{key} in {pair.topology.case_names[k]}: {load_w} != {expected}")
    return out


def agree(seed: int) -> None:
    """Raise if the two differ on the plant of a seed."""
    pair = Pair(seed)
    found = differences(pair)
    assert not found, f"seed {seed}: " + "; ".join(found[:5]) + f"\n{json.dumps(pair.plant)}"


@pytest.mark.parametrize("block", range(0, TOPOLOGIES, BLOCK))
def test_dark_loads_worst_loads_and_binding_cases_are_the_same(block: int) -> None:
    for seed in range(block, block + BLOCK):
        agree(seed)


def test_the_random_plants_have_everything_that_the_law_speaks_of() -> None:
    seen: set[str] = set()
    for seed in range(200):
        plant = Draw(seed).plant()
        groups = plant["groups"]
        for element in plant["elements"].values():
            seen.add(element["kind"])
            seen |= {key for key in element if key not in ("kind", "fed_by")}
            rating = element.get("rating", [])
            for one in rating if isinstance(rating, list) else [rating]:
                seen.add("A" if isinstance(one, dict) else laws.quantity(one)[1])
            seen |= {"fed by a group" for p in element.get("fed_by", ()) if p in groups}
        seen |= {"nested" for g in groups.values() if set(g["members"]) & set(groups)}
        seen |= {"needs fewer" for g in groups.values() if g.get("needs", 9) < len(g["members"])}
        for load in laws.all_loads(plant).values():
            seen |= {key for key in load if key in ("split", "phases", "psu", "needs")}
        seen |= {"maintenance"} if plant["maintenance"] else set()
        seen |= {"cooling"} if plant["loads"] else set()
    assert seen >= {
        *("source", "transformer", "ups", "switchboard", "pdu", "busway", "branch", "switch"),
        *("rack_pdu", "shelf", "transfer", "autonomy", "modules", "continuous", "power_factor"),
        *("W", "VA", "A", "fed by a group", "nested", "needs fewer", "maintenance", "cooling"),
        *("split", "phases", "psu", "needs", "overload"),
    }


def test_the_brute_force_shares_no_code_with_the_product() -> None:
    import ast
    from pathlib import Path

    for name in ("laws.py", "plants.py"):
        tree = ast.parse((Path(__file__).parent / name).read_text("utf-8"))
        roots = {
            (node.module or "").split(".")[0]
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom)
        } | {a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names}
        assert not roots & {"facility", "controllers", "drivers", "api", "numpy"}


def test_a_fault_of_the_product_would_be_seen() -> None:
    """The comparison can fail: a load of 1 W more, or another case, is told."""
    pair: Any = Pair(3)
    assert not differences(pair)
    pair.found.normal_w[0] += 1.0
    assert differences(pair)


@pytest.mark.soak
@pytest.mark.parametrize("block", range(TOPOLOGIES, TOPOLOGIES + 10_000, 1000))
def test_ten_thousand_more_agree(block: int) -> None:
    for seed in range(block, block + 1000):
        agree(seed)
