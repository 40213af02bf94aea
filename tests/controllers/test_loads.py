"""Live loads: what counts, what is held, and that missing data never makes room."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controllers.headroom import study
from controllers.loads import BoolArray, LoadsMemory, RackLoads, rack_loads
from tests.controllers.toy import Toy, site_of, small_hall

FACTOR = 1.05 / 0.96


def caps_term(cap_w: float) -> float:
    """Of a toy rack: 500 W, two nodes of 900 W and eight GPUs."""
    return 500.0 + 2 * (900.0 + FACTOR * 8 * cap_w)


def bare_rack() -> str:
    """The toy hall and a third rack, metered and without nodes."""
    rack = "    r03: {feeds: {a: row-a, b: row-b}, rating: 9 kW}\n"
    text = small_hall().replace("  loads:\n", rack + "  loads:\n", 1)
    return text.replace("pdu-r[01-02]-[a,b]", "pdu-r[01-03]-[a,b]")


class Watch:
    def __init__(self, text: str | None = None) -> None:
        self.site = site_of(text or small_hall())
        self.toy = Toy(self.site)
        self.memory = LoadsMemory.empty(self.site)

    def look(self, cap_w: float = 300.0, dead: BoolArray | None = None) -> RackLoads:
        caps = np.full(len(self.site.nodes), cap_w)
        self.toy.advance()
        loads = rack_loads(self.site, self.toy.snapshot(), caps, self.memory, dead)
        self.memory = loads.memory
        return loads


def test_a_rack_counts_at_the_most_that_its_caps_allow() -> None:
    loads = Watch().look()
    assert loads.caps_term_w == pytest.approx([caps_term(300.0)] * 2)
    assert loads.load_w[:2] == pytest.approx([caps_term(300.0)] * 2)
    assert loads.meter_w[0] == pytest.approx(500 + 2 * (900 + 8 * 0.9 * 300))
    assert loads.blind == ()
    assert loads.untrusted_elements == frozenset()


def test_a_meter_above_the_caps_counts_with_its_accuracy_for_five_minutes() -> None:
    watch = Watch()
    for side in "ab":
        watch.toy.changes[f"pdu-r01-{side}:total:active_power"] = 6000.0
    assert watch.look().load_w[0] == pytest.approx(1.02 * 12_000.0)
    watch.toy.changes.clear()
    for _ in range(10):
        loads = watch.look()
        watch.toy.advance(20.0)
    assert loads.load_w[0] == pytest.approx(1.02 * 12_000.0)
    for _ in range(6):
        watch.toy.advance(25.0)
        loads = watch.look()
    assert loads.load_w[0] == pytest.approx(caps_term(300.0))


def test_loads_without_meters_count_at_their_nameplate() -> None:
    loads = Watch().look()
    site = Watch().site
    assert loads.unmanaged_w(site) == {"cdu-1": 500.0, "cdu-2": 500.0}
    assert set(loads.peaks_w(site)) == {"r01", "r02"}


def test_a_measured_split_is_used_and_an_unmeasured_one_is_unknown() -> None:
    watch = Watch()
    watch.toy.changes["pdu-r01-a:total:active_power"] = 3000.0
    watch.toy.changes["pdu-r01-b:total:active_power"] = 1000.0
    loads = watch.look()
    assert loads.split[:2] == pytest.approx([0.75, 0.25])
    assert np.isnan(loads.split[4:]).all()
    watch.toy.broken.add("pdu-r01-b")
    loads = watch.look()
    # Unknown now, and not known to be any better than when it was measured.
    assert loads.split[:2] == pytest.approx([-0.75, -0.75])
    assert np.isnan(loads.meter_w[0])
    assert not np.isnan(loads.meter_w[1])


def test_a_silent_meter_leaves_the_last_peak_standing() -> None:
    watch = Watch()
    for side in "ab":
        watch.toy.changes[f"pdu-r01-{side}:total:active_power"] = 6000.0
    watch.look()
    watch.toy.broken.update({"pdu-r01-a", "pdu-r01-b"})
    for _ in range(20):
        watch.toy.advance(30.0)
        loads = watch.look()
    assert loads.load_w[0] == pytest.approx(1.02 * 12_000.0)
    assert loads.estimate_w[0] == pytest.approx(12_000.0)
    assert loads.blind == ("r01",)


def test_elements_without_good_data_are_not_trusted() -> None:
    watch = Watch()
    watch.toy.broken.add("pdu-r01-a")
    assert watch.look().untrusted_elements == {"row-a", "utility-1"}
    watch.toy.broken = {"ups-b1"}
    assert watch.look().untrusted_elements == {"ups-b1"}


@settings(max_examples=25, deadline=None)
@given(
    st.sets(st.sampled_from(["pdu-r01-a", "pdu-r01-b", "pdu-r02-a", "pdu-r02-b"])),
    st.floats(200.0, 700.0),
)
def test_losing_meters_never_makes_room(broken: set[str], cap_w: float) -> None:
    whole, partly = Watch(), Watch()
    for watch in (whole, partly):
        watch.look(cap_w)
    partly.toy.broken |= broken
    before, after = whole.look(cap_w), partly.look(cap_w)
    assert np.all(after.load_w >= before.load_w - 1e-9)
    assert after.untrusted_elements >= before.untrusted_elements
    topology = whole.site.topology
    room = [study(topology, loads.load_w, loads.split).headroom_w for loads in (before, after)]
    rated = np.isfinite(room[0])
    assert np.all(room[1][rated] <= room[0][rated] + 1e-6)


def test_a_rack_without_nodes_is_unmetered_only_when_its_peak_is_five_minutes_old() -> None:
    watch = Watch(bare_rack())
    rack = watch.site.topology.load_index["r03"]
    for side in "ab":
        watch.toy.changes[f"pdu-r03-{side}:total:active_power"] = 1000.0
    assert watch.look().load_w[rack] == pytest.approx(2040.0)
    watch.toy.broken.add("pdu-r03-b")
    watch.toy.changes["pdu-r03-a:total:active_power"] = 2000.0
    assert watch.look().load_w[rack] == pytest.approx(2040.0)
    watch.toy.changes["pdu-r03-a:total:active_power"] = 3000.0
    assert watch.look().load_w[rack] == pytest.approx(3060.0)
    watch.toy.advance(330.0)
    assert watch.look().load_w[rack] == 9000.0


def test_a_feed_that_is_believed_dead_carries_nothing_and_teaches_no_split() -> None:
    watch = Watch(bare_rack())
    topology = watch.site.topology
    rack, a, b = (
        topology.load_index["r03"],
        topology.feed_index["r03", "a"],
        topology.feed_index["r03", "b"],
    )
    for side in "ab":
        watch.toy.changes[f"pdu-r03-{side}:total:active_power"] = 1000.0
    watch.look()
    watch.toy.broken.add("pdu-r03-b")
    watch.toy.changes["pdu-r03-a:total:active_power"] = 2000.0
    dead = topology.without(["row-b"]).dead_feeds
    assert dead[b]
    assert not dead[a]
    for _ in range(400):
        loads = watch.look(dead=dead)
    assert loads.load_w[rack] == pytest.approx(2040.0)
    assert loads.memory.split[[a, b]] == pytest.approx([0.5, 0.5])


def test_a_switch_whose_side_nobody_measures_loads_both_sides() -> None:
    text = small_hall().replace(
        "  racks:\n",
        "    sts: {kind: switch, transfer: {normal: row-a, alternate: row-b}, rating: 20 kW}\n"
        "  racks:\n",
        1,
    )
    text = text.replace("cdu-1: {feeds: {a: row-a, b: row-b}", "cdu-1: {feeds: {a: sts}")
    topology = site_of(text).topology
    load_w = np.array([0.0, 0.0, 3000.0, 0.0])
    normal = {e["element"]: e["normal_w"] for e in study(topology, load_w).to_json()["elements"]}
    assert (normal["row-a"], normal["row-b"], normal["sts"]) == (3000.0, 3000.0, 3000.0)
    assert topology.without(["row-a"]).sources == {"sts": "unknown"}


def test_a_load_that_moves_between_feeds_is_never_counted_twice() -> None:
    watch = Watch()
    a, b = (f"pdu-r01-{side}:total:active_power" for side in "ab")
    for reading_a, reading_b in ((6000, 6000), (6000, 12_000), (0, 12_000), (0, 12_000)):
        watch.toy.changes |= {a: float(reading_a), b: float(reading_b)}
        assert watch.look().peak_w[0] == pytest.approx(12_000.0)


def test_a_load_that_swings_every_second_counts_at_its_peaks() -> None:
    watch = Watch()
    for second in range(20):
        for side in "ab":
            watch.toy.changes[f"pdu-r01-{side}:total:active_power"] = 3000.0 + 4000.0 * (second % 2)
        loads = watch.look()
    assert loads.peak_w[0] == pytest.approx(14_000.0)


def test_a_load_that_rises_on_one_feed_counts_once_the_other_can_be_no_old_reading() -> None:
    watch = Watch()
    for _ in range(5):
        watch.look()
    before = watch.look().peak_w[0]
    watch.toy.changes["pdu-r01-b:total:active_power"] = 9000.0
    assert watch.look().peak_w[0] == pytest.approx(before, rel=0.05)
    for _ in range(8):
        loads = watch.look()
    assert loads.peak_w[0] == pytest.approx(loads.meter_w[0])


def test_a_dead_meter_that_keeps_its_last_reading_counts_its_load_once() -> None:
    watch = Watch()
    a, b = (f"pdu-r01-{side}:total:active_power" for side in "ab")
    watch.toy.changes |= {a: 6000.0, b: 6000.0}
    for _ in range(5):
        watch.look()
    watch.toy.changes[b] = 12_000.0
    for _ in range(5):
        assert watch.look().peak_w[0] == pytest.approx(12_000.0)


@pytest.mark.parametrize("worse", ["silent", "doubted", "reversed"])
@pytest.mark.parametrize("share", [0.5, 0.6, 0.8, 0.97])
@pytest.mark.parametrize("side", ["a", "b"])
def test_a_reading_that_gets_worse_never_makes_room_on_either_feed(
    worse: str, share: float, side: str
) -> None:
    """The load of r01 is skewed; then one of its meters dies, is doubted at 0 W, or turns round."""
    whole, partly = Watch(bare_rack()), Watch(bare_rack())
    for watch in (whole, partly):
        for rack, watts in (("r01", 5000.0), ("r03", 4000.0)):
            watch.toy.changes[f"pdu-{rack}-a:total:active_power"] = share * watts
            watch.toy.changes[f"pdu-{rack}-b:total:active_power"] = (1.0 - share) * watts
        for _ in range(12):
            watch.look()
    for rack in ("r01", "r03"):
        point = f"pdu-{rack}-{side}:total:active_power"
        if worse == "silent":
            partly.toy.broken.add(f"pdu-{rack}-{side}")
        elif worse == "doubted":
            partly.toy.changes[point] = 0.0
            partly.toy.doubted.add(point)
        else:
            partly.toy.changes[point] = -float(partly.toy.changes[point] or 0.0)
    topology = whole.site.topology
    # r03 has no nodes: without a meter for 5 min it counts at its nameplate.
    for _ in range(14):
        before, after = whole.look(), partly.look()
        for watch in (whole, partly):
            watch.toy.advance(29.0)
        assert np.all(after.load_w >= before.load_w - 1e-6)
        room = [study(topology, x.load_w, x.split).headroom_w for x in (before, after)]
        rated = np.isfinite(room[0])
        assert np.all(room[1][rated] <= room[0][rated] + 1e-6)
    assert after.load_w[topology.load_index["r03"]] == 9000.0


def test_a_stated_split_counts_as_it_was_measured_when_its_meter_dies() -> None:
    feeds = "r01: {feeds: {a: row-a, b: row-b}"
    watch = Watch(small_hall().replace(feeds, feeds + ", split: {a: 1, b: 1}"))
    assert watch.look().split[:2] == pytest.approx([0.5, 0.5])
    watch.toy.changes["pdu-r01-a:total:active_power"] = 4000.0
    watch.toy.changes["pdu-r01-b:total:active_power"] = 1000.0
    watch.toy.advance(600.0)
    watch.look()
    watch.toy.broken.add("pdu-r01-a")
    assert watch.look().split[:2] == pytest.approx([0.8, 0.2], abs=0.01)
