"""Overheads that the file does not state are measured; until then the nameplate bounds them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controllers.cycle.question import pose
from controllers.kept import Kept
from controllers.loads import LoadsMemory, RackLoads, rack_loads
from controllers.overheads import unstated
from facility.topology import Shares
from tests.controllers.rig import Hall
from tests.controllers.toy import Toy, site_of, small_hall

FACTOR = 1.05 / 0.96
#: Two nodes of 900 W each are stated; the rack's own overhead is not.
TEXT = small_hall().replace(
    "r01: {feeds: {a: row-a, b: row-b}, rating: 14 kW, overhead: 500 W}",
    "r01: {feeds: {a: row-a, b: row-b}, rating: 14 kW}",
)
STATED_W = 1800.0
BOARDS_W = 16 * 0.9 * 300.0


class Watch:
    def __init__(self, kept: Kept | None = None) -> None:
        self.site = site_of(TEXT)
        self.toy = Toy(self.site)
        self.memory = LoadsMemory.empty(self.site)
        self.overhead(1800.0)
        overheads = self.memory.overheads.recalled(self.site, kept)
        object.__setattr__(self.memory, "overheads", overheads)

    def overhead(self, watts: float) -> None:
        for side in "ab":
            half = (BOARDS_W / 0.96 + watts) / 2.0
            self.toy.changes[f"pdu-r01-{side}:total:active_power"] = half

    def look(self, seconds: float = 20.0) -> RackLoads:
        caps = np.full(len(self.site.nodes), 300.0)
        self.toy.advance(seconds)
        loads = rack_loads(self.site, self.toy.snapshot(), caps, self.memory)
        self.memory = loads.memory
        return loads

    def minutes(self, count: int) -> RackLoads:
        for _ in range(2 * count):
            loads = self.look(30.0)
        return loads


def test_an_overhead_that_nobody_stated_or_measured_is_what_the_nameplate_leaves() -> None:
    watch = Watch()
    assert unstated(watch.site).stated_w == pytest.approx([STATED_W])
    # 14 kW less 16 boards of 700 W leave less than what the file states of its nodes: that counts.
    assert watch.look().besides_w == pytest.approx(np.zeros(4))
    wide = site_of(TEXT.replace("rating: 14 kW}", "rating: 20 kW}"))
    loads = rack_loads(wide, Toy(wide).snapshot(), np.full(4, 300.0), LoadsMemory.empty(wide))
    assert loads.caps_term_w[0] == pytest.approx(20_000.0 - 16 * FACTOR * 400.0)
    assert loads.besides_w[1:] == pytest.approx(np.zeros(3))


def test_a_measured_overhead_counts_at_the_p99_of_its_minutes() -> None:
    watch = Watch()
    watch.overhead(2600.0)
    # Before there is enough of it, it only adds.
    assert watch.minutes(12).besides_w[0] == pytest.approx(800.0)
    watch.overhead(2400.0)
    loads = watch.minutes(61)
    assert loads.besides_w[0] == pytest.approx(800.0)
    assert loads.caps_term_w[0] == pytest.approx(STATED_W + 800.0 + 16 * FACTOR * 300.0)
    # A day later the 2.6 kW are forgotten.
    watch.toy.advance(86_400.0)
    assert watch.minutes(72).besides_w[0] == pytest.approx(600.0)


def test_the_allocation_counts_a_measured_overhead_as_the_loads_do() -> None:
    watch = Watch()
    watch.overhead(2600.0)
    loads = watch.minutes(12)
    topology = watch.site.topology
    shares = Shares.of(topology, loads.split)
    free = np.full(4, np.inf)
    problem = pose(watch.site, topology, loads, free, {}, present_only=False, shares=shares).check
    caps = problem.unit_caps(np.full(4, 300.0))
    assert problem.load_w(caps) == pytest.approx(loads.load_w)


def test_a_restart_remembers_the_overhead_of_a_rack_that_holds_the_same_nodes() -> None:
    (key,) = unstated(site_of(TEXT)).keys
    assert Watch(Kept(0, overhead_w={key: 2500.0})).look().besides_w[0] == pytest.approx(700.0)
    other = key.replace("r01-n2", "r01-n9")
    assert Watch(Kept(0, overhead_w={other: 2500.0})).look().besides_w[0] == 0.0
    watch = Watch()
    watch.overhead(2600.0)
    assert watch.minutes(20).memory.overheads.to_keep(watch.site) == {}
    kept = watch.minutes(60).memory.overheads.to_keep(watch.site)
    assert kept == {key: pytest.approx(2600.0)}


def test_a_meter_that_reads_less_than_the_boards_teaches_no_overhead() -> None:
    watch = Watch()
    watch.overhead(-2000.0)
    assert np.isnan(watch.minutes(80).memory.overheads.measured_w()).all()


@settings(max_examples=5, deadline=None)
@given(st.sets(st.sampled_from(["pdu-r01-a", "pdu-r01-b", "r01-n1"]), min_size=1))
def test_losing_readings_never_lowers_an_overhead(broken: set[str]) -> None:
    watch = Watch()
    watch.overhead(2600.0)
    before = watch.minutes(70).besides_w[0]
    watch.toy.broken |= broken
    assert watch.minutes(5).besides_w[0] >= before
    # When nothing is left of what was measured, the nameplate bounds it again.
    watch.toy.advance(86_400.0 * 2)
    assert watch.look().besides_w[0] == 0.0


def test_a_stated_overhead_is_never_measured() -> None:
    site = site_of(small_hall())
    assert len(unstated(site).rows) == 0
    assert Hall(Toy(site)).run(3).facts["headroom"]["ok"]
