"""Trip clocks follow control law 1 by hand-computed figures, and their laws hold."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controllers.headroom import study
from controllers.kept import Kept
from controllers.trips import Bands, TripMemory, Trips, rested, trip_clocks, trip_conditions
from controllers.trips.clocks import advance
from facility.points import Flaw
from tests.controllers.toy import Toy, site_of, small_hall

POINTS = "overload: [[110 %, 600 s], [125 %, 60 s], [150 %, 10 s]]"


def bands(
    points: list[tuple[float, float]], *, inverse: bool = False, hot_c: float = math.inf
) -> Bands:
    points = sorted(points)
    return Bands(
        elements=("x",),
        rows=np.array([0]),
        rating_w=np.array([100.0]),
        continuous=np.array([1.0]),
        ratio=np.array([[r for r, _ in points]]),
        seconds=np.array([[*(t for _, t in points), 0.0]]),
        inverse=np.array([inverse]),
        hot_c=np.array([hot_c]),
        air=np.zeros((1, 0), dtype=np.int64),
    )


UPS = [(1.10, 600.0), (1.25, 60.0), (1.50, 10.0)]


def allowed(b: Bands, ratio: float, *, hot: bool = False) -> float:
    return float(b.allowed_s(np.array([ratio]), np.array([hot]))[0])


@pytest.mark.parametrize(
    ("ratio", "seconds"),
    [
        (0.5, math.inf),
        (1.0, math.inf),
        (1.001, 600.0),
        (1.10, 600.0),
        (1.1001, 60.0),
        (1.25, 60.0),
        (1.3, 10.0),
        (1.5, 10.0),
        (1.51, 0.0),
    ],
)
def test_the_first_listed_point_at_or_above_the_load_counts(ratio: float, seconds: float) -> None:
    assert allowed(bands(UPS), ratio) == seconds


def test_between_points_of_an_inverse_curve_time_falls_log_log() -> None:
    b = bands(UPS, inverse=True)
    # ln(1.175/1.1)/ln(1.25/1.1) = 0.51596; 600^(1 - 0.51596) * 60^0.51596
    assert allowed(b, 1.175) == pytest.approx(182.88, abs=0.05)
    assert allowed(b, 1.05) == 600.0
    assert allowed(b, 1.25) == pytest.approx(60.0)
    assert allowed(b, 1.51) == 0.0


def test_heat_halves_the_bands_and_cools_nothing_faster() -> None:
    b = bands(UPS)
    assert allowed(b, 1.2, hot=True) == 30.0
    half = np.array([0.5])
    cool, hot = np.array([False]), np.array([True])
    low = np.array([0.9])
    assert advance(b, half, low, hot, 600.0) == advance(b, half, low, cool, 600.0)


def test_x_rises_over_the_rating_and_runs_down_below_it() -> None:
    b, cool = bands(UPS), np.array([False])
    x = advance(b, np.array([0.0]), np.array([1.2]), cool, 30.0)
    assert x[0] == pytest.approx(0.5)
    assert advance(b, x, np.array([1.2]), cool, 30.0)[0] == pytest.approx(1.0)
    assert advance(b, x, np.array([0.99]), cool, 600.0)[0] == pytest.approx(0.5 / math.e)
    assert advance(b, x, np.array([1.0]), cool, 600.0)[0] == 0.5
    assert advance(b, x, np.array([1.6]), cool, 0.0)[0] == 1.0


def test_the_largest_load_that_leaves_time_to_shed() -> None:
    b, cool = bands(UPS), np.array([False])
    assert b.largest_ratio(np.array([0.0]), cool, 10.0)[0] == 1.5
    assert b.largest_ratio(np.array([0.1]), cool, 10.0)[0] == 1.25
    assert b.largest_ratio(np.array([0.99]), cool, 10.0)[0] == 1.0
    curve = bands(UPS, inverse=True)
    r = curve.largest_ratio(np.array([0.2]), cool, 20.0)
    assert 0.8 * allowed(curve, float(r[0])) == pytest.approx(20.0)


@settings(max_examples=200, deadline=None)
@given(
    low=st.lists(st.floats(0.0, 2.0), min_size=1, max_size=12),
    more=st.lists(st.floats(0.0, 1.0), min_size=12, max_size=12),
    dt=st.floats(0.1, 30.0),
    inverse=st.booleans(),
    hot=st.booleans(),
)
def test_a_clock_never_trips_later_at_a_higher_load(
    low: list[float], more: list[float], dt: float, inverse: bool, hot: bool
) -> None:
    b, flag = bands(UPS, inverse=inverse), np.array([False])
    x, y = np.zeros(1), np.zeros(1)
    for ratio, extra in zip(low, more, strict=False):
        x = advance(b, x, np.array([ratio]), flag, dt)
        y = advance(b, y, np.array([ratio + extra]), np.array([hot]), dt)
        assert y[0] >= x[0] - 1e-12


class Watch:
    """The toy hall with overload points at both UPS and at row-a, which has no meter."""

    def __init__(self, cap_w: float = 300.0) -> None:
        text = small_hall().replace("autonomy: 300 s}", f"autonomy: 300 s, {POINTS}}}")
        text = text.replace(
            "row-a: {kind: busway, fed_by: [ups-a1], rating: 24 kW}",
            f"row-a: {{kind: busway, fed_by: [ups-a1], rating: 24 kW, {POINTS}}}",
        )
        self.toy = Toy(site_of(text), cap_w=cap_w)
        self.site = self.toy.site
        self.memory = TripMemory()
        self.kept: Kept | None = rested(self.site, self.toy.now_ms)

    def step(self, seconds: float = 1.0) -> Trips:
        topology = self.site.topology
        headroom = study(topology, topology.nameplate_w)
        trips, self.memory = trip_clocks(
            self.site,
            topology,
            self.toy.snapshot(),
            headroom,
            self.memory,
            doubt=False,
            kept=self.kept,
        )
        self.toy.advance(seconds)
        return trips

    def of(self, trips: Trips, element: str) -> int:
        return trips.bands.elements.index(element)


def test_a_metered_element_over_its_rating_says_the_seconds_to_its_trip() -> None:
    watch = Watch()
    watch.toy.changes["ups-a1:total:active_power"] = 35_000.0
    trips = watch.step()
    c = watch.of(trips, "ups-a1")
    assert trips.ratio[c] == pytest.approx(35.0 * 1.02 / 30.0)
    assert trips.to_trip_s[c] == 60.0
    for _ in range(30):
        trips = watch.step()
    assert trips.used[c] == pytest.approx(0.5)
    assert trips.to_trip_s[c] == pytest.approx(30.0)
    told = {x.key: x for x in trip_conditions(watch.site, trips)}
    assert set(told) == {"trip_near:ups-a1"}
    assert "ups-a1 trips in 30 s at 119 % of its rating" in told["trip_near:ups-a1"].text


def test_the_clock_of_an_element_without_a_meter_runs_on_its_feeds_meters() -> None:
    watch = Watch()
    # cdu-1 and cdu-2 have no meter: what row-a carries is not all known, so the worst counts.
    trips = watch.step()
    c = watch.of(trips, "row-a")
    assert not trips.known[c]
    # Nameplates: (2 * 14 kW + 2 * 500 W) / 2 in the normal case.
    assert trips.load_w[c] == pytest.approx(14_500.0)


def test_a_ups_whose_meter_falls_silent_counts_at_no_less_than_it_told() -> None:
    watch = Watch()
    watch.toy.changes["ups-a1:total:active_power"] = 40_000.0
    before = watch.step()
    c = watch.of(before, "ups-a1")
    watch.toy.changes["ups-a1:total:active_power"] = None
    after = watch.step()
    assert not after.known[c]
    assert after.load_w[c] >= before.load_w[c]
    assert after.used[c] > before.used[c]


def test_a_look_that_comes_late_counts_the_worse_of_both_ends() -> None:
    watch = Watch()
    watch.toy.changes["ups-a1:total:active_power"] = 35_000.0
    watch.step(20.0)
    watch.toy.changes["ups-a1:total:active_power"] = 10_000.0
    trips = watch.step()
    c = watch.of(trips, "ups-a1")
    assert trips.used[c] == pytest.approx(20.0 / 60.0)
    assert math.isinf(trips.to_trip_s[c])


def met(watch: Watch, kept: Kept | None) -> float:
    """x of UPS-A1 at the first look of a run that was left `kept`."""
    watch.memory, watch.kept = TripMemory(), kept
    return float(watch.step(0.0).used[0])


def left(watch: Watch, used: float, load_w: float, ago_s: float) -> Kept:
    at_ms = watch.toy.now_ms - round(1000.0 * ago_s)
    return Kept(at_ms, {"ups-a1": used}, {"ups-a1": load_w})


def test_a_restart_forgets_no_overload_that_a_breaker_still_feels() -> None:
    watch = Watch()
    watch.toy.changes["ups-a1:total:active_power"] = 10_000.0
    # Nobody looked for 10 min: what the load was meanwhile is unknown, so nothing has rested.
    assert met(watch, left(watch, 0.5, 10_000.0, 600.0)) == 0.5
    # 119 %, 60 s: 15 s of it besides, whichever end of the gap it was seen at.
    assert met(watch, left(watch, 0.5, 35_700.0, 15.0)) == pytest.approx(0.75)
    watch.toy.changes["ups-a1:total:active_power"] = 35_000.0
    assert met(watch, left(watch, 0.5, 10_000.0, 15.0)) == pytest.approx(0.75)


def test_an_overload_met_at_the_start_counts_for_as_long_as_nobody_looked() -> None:
    watch = Watch()
    watch.toy.changes["ups-a1:total:active_power"] = 35_000.0
    assert met(watch, left(watch, 0.0, 0.0, 15.0)) == pytest.approx(0.25)
    assert met(watch, left(watch, 0.0, 0.0, 86_400.0)) == 1.0


@pytest.mark.parametrize("what", ["nothing", "of another element", "without its load"])
def test_a_clock_of_which_nothing_was_written_down_may_be_about_to_trip(what: str) -> None:
    watch = Watch()
    watch.toy.changes["ups-a1:total:active_power"] = 10_000.0
    now_ms = watch.toy.now_ms
    kept = {
        "nothing": None,
        "of another element": Kept(now_ms - 5000, {"ups-b1": 0.0}, {"ups-b1": 0.0}),
        "without its load": Kept(now_ms - 5000, {"ups-a1": 0.0}),
    }[what]
    assert met(watch, kept) == 1.0
    assert math.isinf(watch.step().to_trip_s[0])
    # It rests as any other does.
    watch.step(600.0)
    assert watch.step().used[0] == pytest.approx(math.exp(-601.0 / 600.0))


def test_a_calendar_set_back_hides_no_overload() -> None:
    watch = Watch()
    watch.toy.changes["ups-a1:total:active_power"] = 35_000.0
    assert met(watch, left(watch, 0.0, 10_000.0, -86_400.0)) == 1.0
    watch.toy.changes["ups-a1:total:active_power"] = 10_000.0
    assert met(watch, left(watch, 0.3, 10_000.0, -86_400.0)) == 0.3


def test_a_feed_that_rises_steadily_reaches_its_limit_in_the_minutes_told() -> None:
    watch = Watch()
    # 30 kW limit; 20 kW with 2 % added is 20.4 kW and rises by 0.306 kW a minute.
    for second in range(0, 16 * 60 + 1, 5):
        watch.toy.changes["ups-a1:total:active_power"] = 20_000.0 + 300.0 * second / 60.0
        trips = watch.step(5.0)
    e = watch.site.topology.element_index["ups-a1"]
    now_w = 1.02 * (20_000.0 + 300.0 * 16.0)
    expected = (30_000.0 - now_w) / (1.02 * 300.0)
    assert trips.to_limit_min[e] == pytest.approx(expected, abs=0.6)
    (told,) = [x for x in trip_conditions(watch.site, trips) if x.kind == "limit_ahead"]
    minutes = math.floor(trips.to_limit_min[e])
    assert f"ups-a1 reaches its limit of 30 kW in {minutes} min" in told.text
    assert not told.page


@pytest.mark.parametrize("shape", ["step", "wobble", "fall"])
def test_what_is_no_trend_promises_nothing(shape: str) -> None:
    watch = Watch()
    for second in range(0, 16 * 60 + 1, 5):
        load = {
            "step": 15_000.0 if second < 480 else 25_000.0,
            "wobble": 20_000.0 + 3000.0 * math.sin(second / 40.0),
            "fall": 25_000.0 - second,
        }[shape]
        watch.toy.changes["ups-a1:total:active_power"] = load
        trips = watch.step(5.0)
    assert not [x for x in trip_conditions(watch.site, trips) if x.kind == "limit_ahead"]


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.floats(5e3, 6e4), min_size=1, max_size=5), st.integers(1, 5), st.sampled_from("bs")
)
def test_a_reading_that_gets_worse_never_slows_a_clock(
    loads: list[float], looks: int, how: str
) -> None:
    """The meter dies (b) or is doubted (s) while the load stays; its twin's goes on being read."""
    good, worse = Watch(), Watch()
    for load in loads:
        for watch in (good, worse):
            watch.toy.changes["ups-a1:total:active_power"] = load
            watch.step(3.0)
    if how == "b":
        worse.toy.broken.add("ups-a1")
    else:
        worse.toy.flaws["ups-a1:total:active_power"] = Flaw.IMPLAUSIBLE
        worse.toy.changes["ups-a1:total:active_power"] = None
    for _ in range(looks):
        x, y = good.step(3.0), worse.step(3.0)
        assert (y.used >= x.used - 1e-12).all()
        assert (y.to_trip_s <= x.to_trip_s + 1e-9).all()


def test_a_meter_that_turned_round_rests_no_clock() -> None:
    watch = Watch()
    watch.toy.changes["ups-a1:total:active_power"] = 35_000.0
    for _ in range(10):
        watch.step()
    watch.toy.changes["ups-a1:total:active_power"] = -35_000.0
    watch.step()
    before = watch.memory.used[0]
    assert watch.step().used[0] > before


def test_memory_of_another_site_starts_anew() -> None:
    watch = Watch()
    watch.step()
    watch.memory = replace(watch.memory, used=np.zeros(9), metered_w=np.zeros(9))
    assert watch.step().used.shape == (3,)
