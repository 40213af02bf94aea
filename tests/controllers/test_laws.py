"""The law of worse readings: less or worse data never allows more. Design §4, control law 4."""

from __future__ import annotations

import copy
from functools import lru_cache

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from controllers.cycle import CycleInput, Memory, decide
from facility.commands import Decision
from tests.controllers.rig import Hall
from tests.controllers.toy import Toy, site_of, small_hall

DEVICES = (
    "pdu-r01-a",
    "pdu-r01-b",
    "pdu-r02-a",
    "ups-a1",
    "cdu-1",
    "air-r01",
    "air-r02",
    "wet-r01",
    "r01-n1",
    "r02-n2",
)
HIGHER = (
    "pdu-r01-a:total:active_power",
    "pdu-r02-b:total:active_power",
    "air-r01:inlet:humidity",
    "wet-r02:inlet:humidity",
)
LOWER = (
    "r01-n1:gpu.0:margin",
    "r01-n2:gpu.3:margin",
    "r02-n1:gpu.7:margin",
    "cdu-1:loop.secondary:flow",
    "cdu-2:loop.secondary:flow",
)
GONE = (
    *HIGHER,
    *LOWER,
    "cdu-2:loop.secondary:supply_temperature",
    "r01-n1:total:power_cap",
    "r02-n1:gpu.2:active_power",
)

worsenings = st.lists(
    st.one_of(
        st.tuples(st.just("dead"), st.sampled_from(DEVICES), st.just(0.0)),
        st.tuples(st.just("gone"), st.sampled_from(GONE), st.just(0.0)),
        st.tuples(st.just("higher"), st.sampled_from(HIGHER), st.floats(1.0, 1.6)),
        st.tuples(st.just("lower"), st.sampled_from(LOWER), st.floats(0.0, 30.0)),
    ),
    min_size=1,
    max_size=4,
)


@lru_cache(maxsize=4)
def warm(row: str, seconds: int, margin_k: float) -> Hall:
    """A hall after some seconds; tests work on copies."""
    text = small_hall(ROW=row)
    hall = Hall(Toy(site_of(text), cap_w=300.0, humidity=0.5, margin_at_30_w0=margin_k))
    hall.run(seconds)
    return hall


def worsen(toy: Toy, changes: list[tuple[str, str, float]]) -> None:
    for how, what, amount in changes:
        if how == "dead":
            toy.broken.add(what)
        elif how == "gone":
            toy.changes[what] = None
        elif toy.changes.get(what, 0.0) is not None:
            point = next(p for p in toy.site.table.index if str(p) == what)
            now = toy.value(point)
            assert now is not None
            if how == "higher":
                toy.changes[what] = min(now * amount, 0.99 if "humidity" in what else 1e9)
            else:
                toy.changes[what] = now - amount


def both(hall: Hall, changes: list[tuple[str, str, float]]) -> tuple[Decision, Decision]:
    memory: Memory = hall.memory
    toy = copy.deepcopy(hall.toy, {id(hall.toy.site): hall.toy.site})
    twin = Hall(toy)
    twin.cycle, twin.acks, twin.plan = hall.cycle + 1, hall.acks, hall.plan
    good: CycleInput = twin.inputs()
    worsen(toy, changes)
    worse = twin.inputs()
    return decide(hall.site, memory, good)[0], decide(hall.site, memory, worse)[0]


def caps(decision: Decision) -> dict[str, float]:
    return {s.point.device: s.value for s in decision.setpoints if s.point.kind == "power_cap"}


def element_w(hall: Hall, decision: Decision) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """W that the caps asked for put on each rack (every element carries whole racks here)."""
    out = np.zeros(len(hall.site.racks))
    for node, cap in caps(decision).items():
        i = hall.site.node_index[node]
        out[hall.site.node_rack[i]] += hall.site.gpus[i] * cap
    return out


@settings(max_examples=40)
@given(worsenings, st.sampled_from([("24 kW", 20), ("16 kW", 20), ("24 kW", 1)]))
def test_worse_readings_never_allow_more_watts(
    changes: list[tuple[str, str, float]], state: tuple[str, int]
) -> None:
    hall = warm(*state, 60.0)
    good, worse = both(hall, changes)
    silent = {what for how, what, _ in changes if how == "dead"} & set(hall.site.nodes)
    silent |= {what.split(":")[0] for how, what, _ in changes if what.endswith("power_cap")}
    assert sum(element_w(hall, worse)) <= sum(element_w(hall, good)) + 1e-6
    for node, cap in caps(worse).items():
        assert cap <= caps(good)[node] + 1e-6 or node in silent
    raised = {c.point for c in worse.commands if c.raises and c.point.kind == "power_cap"}
    assert raised <= {c.point for c in good.commands if c.raises}


@settings(max_examples=40)
@given(worsenings, st.sampled_from([60.0, 32.0]))
def test_worse_readings_never_raise_u_nor_lower_l(
    changes: list[tuple[str, str, float]], margin_k: float
) -> None:
    hall = warm("24 kW", 20, margin_k)
    good, worse = both(hall, changes)
    before, after = good.facts["cooling"]["loop-1"], worse.facts["cooling"]["loop-1"]
    assert after["L"] >= before["L"] - 1e-9
    assert after["U"] is not None
    assert after["U"] <= before["U"] + 1e-9


@settings(max_examples=25)
@given(worsenings)
def test_worse_readings_never_show_more_headroom(changes: list[tuple[str, str, float]]) -> None:
    hall = warm("24 kW", 20, 60.0)
    good, worse = both(hall, changes)
    before = {e["element"]: e["headroom_w"] for e in good.facts["headroom"]["elements"]}
    for element in worse.facts["headroom"]["elements"]:
        old = before[element["element"]]
        if old is not None and element["headroom_w"] is not None:
            assert element["headroom_w"] <= old + 1e-6
