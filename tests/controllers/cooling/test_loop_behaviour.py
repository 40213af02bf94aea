"""What a loop's controller does, one behaviour a test. Control law 4."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from controllers.cooling import LoopMemory, LoopOutcome, control_loop, remember_setpoint
from controllers.cooling.reset import ladder
from facility.commands import Command
from facility.points import Flaw
from tests.controllers.toy import Toy, site_of, small_hall


def test_a_flow_of_exactly_nothing_ended_the_controller_instead_of_lowering_caps() -> None:
    rig = Rig()
    for _ in range(5):
        rig.step()
    rig.toy.flow_share = 0.0
    for _ in range(4):
        out = rig.step()
    assert out.to_min.all()
    assert out.bounds.high_c is not None
    assert np.isfinite(out.bounds.high_c)


class Rig:
    """One loop run second by second; whatever it asks for inside its room is written."""

    def __init__(self, text: str | None = None, **plant: object) -> None:
        self.site = site_of(text or small_hall())
        self.toy = Toy(self.site, **plant)  # type: ignore[arg-type]
        self.memory = LoopMemory.empty(self.site, self.site.loops[0])
        self.writes: list[tuple[float, float]] = []
        self.follow = True

    def step(self, seconds: float = 1.0) -> LoopOutcome:
        caps = np.array([self.toy.caps[n] for n in self.site.nodes])
        racks = np.array([self.toy.rack_w(r) for r in self.site.racks])
        snapshot = self.toy.snapshot()
        out, memory = control_loop(self.site, 0, snapshot, caps, racks, (), self.memory)
        loop = self.site.loops[0]
        value = out.move.value_c
        if value is not None and out.present_c is not None and abs(value - out.present_c) > 0.05:
            commands = tuple(
                Command(p, value, 1, 1, 0, 2.0, out.move.text)
                for p in loop.setpoint_points
                if p is not None
            )
            memory = remember_setpoint(loop, memory, commands, out.move, snapshot.now_s)
            if self.follow:
                self.toy.apply(commands)
            self.writes.append((snapshot.now_s, value))
        self.memory = memory
        self.toy.advance(seconds)
        return out

    def run(
        self,
        seconds: int,
        until: Callable[[LoopOutcome], bool] | None = None,
        every: int = 1,
    ) -> LoopOutcome:
        out = self.step(every)
        for _ in range(seconds // every - 1):
            out = self.step(every)
            if until is not None and until(out):
                break
        return out


def kinds(out: LoopOutcome) -> set[str]:
    return {c.kind for c in out.conditions}


def test_the_floor_is_dew_point_plus_margin_uncertainty_and_undershoot() -> None:
    rig = Rig(humidity=0.6)
    out = rig.step()
    dew = out.bounds.dew_c
    assert dew == pytest.approx(15.75, abs=0.1)
    assert out.bounds.low_c == pytest.approx(dew + 2.0 + 1.0 + 1.5)


def test_a_cdu_without_its_own_protection_may_not_hold_what_is_unsafe_for_ever() -> None:
    dry = Rig(humidity=0.2).step()
    assert dry.bounds.low_c == pytest.approx(16.0 + 3.0)
    assert "design dew point" in dry.bounds.low_because


def test_the_highest_dew_point_of_a_day_is_remembered() -> None:
    rig = Rig(humidity=0.7)
    wet = rig.step().bounds.dew_c
    rig.toy.humidity = 0.4
    rig.toy.advance(3600.0)
    out = rig.step()
    assert out.bounds.low_c == pytest.approx(max(wet + 3.0, 19.0))


def test_a_rising_dew_point_raises_the_set_point_at_the_protection_rate() -> None:
    rig = Rig(setpoint_c=20.0, humidity=0.3, ambient_c=5.5)
    rig.run(30)
    start = rig.toy.setpoints["cdu-1"]
    rig.toy.humidity = 0.95
    began = rig.toy.now_s
    out = rig.run(400, until=lambda o: o.present_c is not None and o.present_c >= o.bounds.low_c)
    low = out.bounds.low_c
    assert low > start + 4.0
    assert rig.toy.setpoints["cdu-1"] == pytest.approx(low, abs=0.11)
    took_min = (rig.toy.now_s - began) / 60.0
    assert (low - start) / took_min <= 2.0 + 0.75
    assert (low - start) / took_min > 1.5
    steps = [b - a for (_, a), (_, b) in zip(rig.writes, rig.writes[1:], strict=False)]
    assert max(steps) <= 2.0 * 15.0 / 60.0 + 0.01


def test_a_lost_dew_point_holds_its_last_maximum_then_takes_the_design_value() -> None:
    rig = Rig(humidity=0.3)
    last = rig.step().bounds.dew_c
    for device in ("air-r01", "air-r02", "wet-r01", "wet-r02"):
        rig.toy.broken.add(device)
    out = rig.run(60)
    assert out.bounds.dew_lost
    assert out.bounds.dew_c == last
    rig.toy.advance(600.0)
    assert rig.step().bounds.dew_c == 16.0


def test_dry_air_that_a_broker_only_remembers_lets_no_set_point_down() -> None:
    """Case 39, the controller's part: a retained value is SUSPECT, and nothing is done on it."""
    rig = Rig(humidity=0.6)
    wet = rig.step().bounds
    rig.toy.humidity = 0.2
    sensors = [str(s.id) for s in rig.site.table.specs if s.id.device[:4] in ("air-", "wet-")]
    rig.toy.doubted.update(sensors)
    out = rig.run(60)
    assert out.bounds.dew_lost
    assert out.bounds.dew_c == wet.dew_c
    assert out.bounds.low_c == pytest.approx(wet.low_c)


def test_one_dew_point_sensor_lost_never_lowers_the_floor() -> None:
    rig = Rig(humidity=0.3)
    rig.toy.changes["air-r01:inlet:humidity"] = 0.8
    low = rig.step().bounds.low_c
    rig.toy.broken.add("air-r01")
    for _ in range(20):
        assert rig.step().bounds.low_c >= low - 1e-9


def test_the_ladder_of_lost_inputs() -> None:
    assert [ladder(s) for s in (0.0, 1.0, 2.0, 179.0, 180.0, 599.0, 600.0, 1799.0, 1800.0)] == [
        "track",
        "track",
        "no raise",
        "no raise",
        "hold",
        "hold",
        "default",
        "default",
        "released",
    ]


def test_a_lost_input_ends_raises_then_holds_then_goes_to_the_default_then_lets_go() -> None:
    rig = Rig(setpoint_c=25.0, ambient_c=10.5)
    rig.run(3)
    rig.toy.changes["cdu-1:loop.secondary:flow"] = None
    out = rig.run(170)
    assert out.move.state != "hold"
    assert not rig.writes
    assert rig.run(100).move.state == "hold"
    out = rig.run(500)
    assert out.move.state == "default"
    assert rig.writes
    assert all(
        abs(b - a) <= 0.51 for (_, a), (_, b) in zip(rig.writes, rig.writes[1:], strict=False)
    )
    assert rig.toy.setpoints["cdu-1"] > 25.0
    count = len(rig.writes)
    rig.toy.advance(1800.0)
    out = rig.step()
    assert out.move.state == "released"
    assert out.proposals == ()
    assert len(rig.writes) == count
    assert "data_blind" in kinds(out)


def test_economic_moves_dwell_and_are_asymmetric_and_die_out() -> None:
    rig = Rig(setpoint_c=25.0, ambient_c=14.5)
    rig.run(4000, every=5)
    times = [t for t, _ in rig.writes]
    gaps = np.diff(times)
    assert len(times) >= 3
    assert (gaps >= 600.0).all()
    raised = np.diff([25.0, *(v for _, v in rig.writes)])
    assert (raised > 0).all()
    assert (raised <= 1.0 + 1e-9).all()
    assert abs(rig.toy.setpoints["cdu-1"] - 29.0) < 0.5
    before = len(rig.writes)
    rig.run(1500, every=5)
    assert len(rig.writes) == before


def test_an_economic_move_down_is_never_a_plunge() -> None:
    rig = Rig(setpoint_c=38.0, ambient_c=12.0)
    rig.run(2500, every=5)
    steps = np.diff([38.0, *(v for _, v in rig.writes)])
    assert len(steps) >= 3
    assert (steps < 0).all()
    assert (steps >= -2.0 - 1e-9).all()


def test_no_more_writes_an_hour_than_allowed() -> None:
    text = small_hall().replace(
        'cooling: {ambient: "weather:outdoor:temperature"}',
        'cooling: {ambient: "weather:outdoor:temperature", dwell: 10 s, raise_rate: 6 K/min, '
        "writes_per_hour: 3, period: 10 s}",
    )
    rig = Rig(text, setpoint_c=22.0, ambient_c=20.0)
    rig.run(900, every=2)
    assert len(rig.writes) == 3


def test_a_plant_that_gets_hotter_moves_the_set_point_down_at_once() -> None:
    rig = Rig(setpoint_c=40.0, ambient_c=25.0, cap_w=700.0, share=0.95, margin_at_30_w0=50.0)
    out = rig.run(5)
    assert out.bounds.high_c is not None
    assert out.bounds.high_c < 40.0
    assert rig.writes
    assert rig.writes[0][1] < 40.0
    assert all(b < a for (_, a), (_, b) in zip(rig.writes, rig.writes[1:], strict=False))


def test_u_counts_every_gpu_at_its_cap_and_the_flow_after_the_worst_loss() -> None:
    low_cap = Rig(cap_w=300.0, share=0.9, margin_at_30_w0=45.0).step().bounds.high_c
    high_cap = Rig(cap_w=600.0, share=0.45, margin_at_30_w0=45.0).step().bounds.high_c
    assert low_cap is not None
    assert high_cap is not None
    assert high_cap < low_cap - 5.0


def test_a_raise_of_caps_up_to_the_thermal_cap_never_invalidates_u() -> None:
    rig = Rig(cap_w=400.0, setpoint_c=35.0, margin_at_30_w0=50.0)
    out = rig.step()
    allowed = float(np.min(out.thermal_cap_w))
    assert 200.0 < allowed < 2000.0
    after = Rig(cap_w=allowed, share=0.9 * 400.0 / allowed, setpoint_c=35.0, margin_at_30_w0=50.0)
    bounds = after.step().bounds
    assert bounds.high_c is not None
    # Equality up to the gain that a positive margin is divided by.
    assert bounds.high_c >= 35.0 - 2.5 - 0.35


def test_when_l_is_above_u_l_is_held_and_caps_are_to_be_shed() -> None:
    rig = Rig(setpoint_c=30.0, humidity=0.97, cap_w=700.0, margin_at_30_w0=33.0)
    rig.toy.changes["air-r01:inlet:temperature"] = 30.0
    out = rig.run(5)
    assert out.conflict
    assert out.bounds.high_c is not None
    assert out.bounds.low_c > out.bounds.high_c
    assert float(np.min(out.thermal_cap_w)) < 700.0
    out = rig.run(600)
    assert rig.toy.setpoints["cdu-1"] == pytest.approx(out.bounds.low_c, abs=0.11)
    assert "overload" in kinds(out)


def test_a_gpu_without_margin_counts_as_the_worst_of_its_type() -> None:
    rig = Rig()
    rig.toy.changes["r01-n1:gpu.0:margin"] = 20.0
    worst = rig.step().bounds.high_c
    rig.toy.changes["r01-n1:gpu.0:margin"] = None
    for _ in range(30):
        assert rig.step().bounds.high_c == pytest.approx(worst)


def test_a_type_whose_margins_all_fall_silent_never_raises_u() -> None:
    rig = Rig()
    for node in ("r01-n1", "r01-n2"):
        rig.toy.changes |= {f"{node}:gpu.{g}:margin": 25.0 for g in range(8)}
    worst = rig.run(5).bounds.high_c
    assert worst is not None
    rig.toy.broken.update(rig.site.nodes)
    for _ in range(40):
        high = rig.step(20.0).bounds.high_c
        assert high is not None
        assert high <= worst + 1e-9


def test_after_a_pumps_flow_is_lost_nothing_rises_until_it_is_back() -> None:
    rig = Rig(setpoint_c=25.0, ambient_c=14.5)
    rig.run(5)
    before = rig.step().bounds.high_c
    rig.toy.flow_share = 0.85
    out = rig.run(700, every=5)
    count = len(rig.writes)
    assert out.no_raise.all()
    assert out.bounds.high_c is not None
    assert before is not None
    assert out.bounds.high_c <= before + 1e-9
    rig.run(100, every=5)
    assert len(rig.writes) == count
    rig.toy.flow_share = 1.0
    assert not rig.run(30).no_raise.any()


def test_a_pump_lost_is_reported_and_moves_no_cap_to_its_minimum() -> None:
    rig = Rig()
    rig.run(5)
    rig.toy.changes["cdu-1:pump.1:state"] = 2.0
    rig.toy.flow_share = 0.85
    out = rig.run(5)
    assert "pump_lost" in kinds(out)
    assert not out.to_min.any()


def test_a_dead_flow_in_two_reads_takes_caps_to_their_minimum() -> None:
    rig = Rig()
    rig.run(5)
    rig.toy.flow_share = 0.05
    assert not rig.step().to_min.any()
    out = rig.step()
    assert out.to_min.all()
    assert "flow_lost" in kinds(out)
    rig.toy.flow_share = 1.0
    assert rig.run(30).to_min.all()
    assert not rig.run(60).to_min.any()


def test_one_dead_read_seen_by_two_cycles_is_no_lost_flow() -> None:
    rig = Rig()
    rig.run(5)
    rig.toy.flow_share = 0.05
    caps = np.array([rig.toy.caps[n] for n in rig.site.nodes])
    racks = np.array([rig.toy.rack_w(r) for r in rig.site.racks])
    once = rig.toy.snapshot()
    for _ in range(3):
        out, rig.memory = control_loop(rig.site, 0, once, caps, racks, (), rig.memory)
        assert not out.to_min.any()
    rig.toy.advance(1.0)
    assert rig.step().to_min.all()


def test_pumps_that_all_stand_are_a_lost_flow() -> None:
    rig = Rig()
    for cdu in ("cdu-1", "cdu-2"):
        for pump in ("pump.1", "pump.2"):
            rig.toy.changes[f"{cdu}:{pump}:state"] = 0.0
    rig.step()
    assert rig.step().to_min.all()


def test_gpus_hotter_than_their_power_explains_are_a_lost_flow() -> None:
    rig = Rig()
    rig.run(5)
    for node in ("r01-n1", "r02-n1"):
        for g in (0, 1):
            rig.toy.changes[f"{node}:gpu.{g}:temperature"] = 75.0
    assert rig.step().to_min.all()


def test_an_ordinary_load_step_is_no_lost_flow() -> None:
    rig = Rig(cap_w=700.0, share=0.2)
    rig.run(10)
    rig.toy.share = 0.98
    for _ in range(60):
        assert not rig.step().to_min.any()


def test_a_leak_is_confirmed_by_two_sensors() -> None:
    rig = Rig()
    rig.step()
    rig.toy.changes["air-r01:leak:leak"] = 1.0
    out = rig.step()
    assert not out.to_floor.any()
    assert out.no_raise[0]
    rig.toy.changes["wet-r01:leak:leak"] = 1.0
    out = rig.step()
    assert out.to_floor.tolist() == [True, True, False, False]
    assert any(c.kind == "leak" and c.page for c in out.conditions)


def test_a_leak_is_confirmed_by_one_sensor_and_a_falling_level() -> None:
    rig = Rig()
    rig.run(3)
    rig.toy.changes["air-r02:leak:leak"] = 1.0
    rig.toy.changes["cdu-1:total:level"] = 0.7
    out = rig.step()
    assert out.to_floor.tolist() == [False, False, True, True]


def wet(rig: Rig, value: float | None) -> None:
    for sensor in ("air-r01", "wet-r01"):
        rig.toy.changes[f"{sensor}:leak:leak"] = value


def test_a_leak_that_dried_let_caps_rise_within_seconds() -> None:
    rig = Rig()
    rig.step()
    wet(rig, 1.0)
    rig.run(3)
    wet(rig, 0.0)
    out = rig.run(590)
    assert out.no_raise.tolist() == [True, True, False, False]
    assert not out.to_floor.any()
    assert any(c.kind == "leak" and c.subject == "r01" and c.page for c in out.conditions)
    out = rig.run(15)
    assert not out.no_raise.any()
    assert "leak" not in kinds(out)


def test_a_leak_sensor_that_falls_silent_does_not_dry() -> None:
    rig = Rig()
    rig.step()
    wet(rig, 1.0)
    rig.run(3)
    wet(rig, None)
    assert rig.run(700).no_raise[0]
    wet(rig, 0.0)
    assert rig.run(590).no_raise[0]
    assert not rig.run(15).no_raise[0]


def test_one_wet_sensor_alone_is_not_held_on_to() -> None:
    rig = Rig()
    rig.step()
    rig.toy.changes["air-r01:leak:leak"] = 1.0
    assert rig.run(3).no_raise[0]
    rig.toy.changes["air-r01:leak:leak"] = 0.0
    assert not rig.run(2).no_raise[0]


def test_a_broken_leak_sensor_is_no_leak() -> None:
    rig = Rig()
    rig.toy.changes["air-r01:leak:leak"] = None
    rig.toy.flaws["air-r01:leak:leak"] = Flaw.DEVICE_FAULT
    out = rig.step()
    assert not out.to_floor.any()
    assert "leak_sensor_fault" in kinds(out)
    assert "leak" not in kinds(out)


def test_a_set_point_that_is_not_taken_freezes_moves() -> None:
    rig = Rig(setpoint_c=25.0, ambient_c=14.5)
    rig.follow = False
    out = rig.run(30)
    assert len(rig.writes) == 1
    assert out.move.state == "frozen"
    assert "supply_not_tracking" in kinds(out)


def test_a_supply_that_does_not_follow_in_five_minutes_freezes_moves() -> None:
    rig = Rig(setpoint_c=28.0, ambient_c=14.5)
    rig.toy.changes["cdu-1:loop.secondary:supply_temperature"] = 33.0
    rig.toy.changes["cdu-2:loop.secondary:supply_temperature"] = 33.0
    out = rig.run(302)
    assert out.move.state == "frozen"
    assert "supply_not_tracking" in kinds(out)


def test_somebody_elses_set_point_is_shown_and_not_fought() -> None:
    rig = Rig(setpoint_c=25.0, ambient_c=14.5)
    rig.run(30)
    assert len(rig.writes) == 1
    for cdu in rig.toy.setpoints:
        rig.toy.setpoints[cdu] = 27.5
    out = rig.run(1300, every=5)
    assert len(rig.writes) == 1
    assert out.move.state == "foreign"
    assert "foreign_write" in kinds(out)


def test_supply_near_the_dew_point_is_a_condensation_risk() -> None:
    rig = Rig(setpoint_c=18.0, humidity=0.7)
    assert "condensation_risk" in kinds(rig.step())
