"""What the store learns of points from profiles and the facility file."""

from __future__ import annotations

import pytest

from api.service.point_rules import MARGIN, class_of, rules_of
from drivers.profile.counting import Counting, counting
from facility.config import Keep
from facility.loading import load
from facility.points import PointId
from tests.conftest import ROOT
from tests.drivers.wires import profile_of

FACILITY = load(ROOT / "facility" / "demo.yaml")


def test_energy_is_bounded_by_what_its_meter_measures_and_steps_as_its_register_does() -> None:
    rule = rules_of(FACILITY).counter(PointId("pdu-r01-a", "total", "energy"))
    assert rule.fastest_per_s == pytest.approx(MARGIN * FACILITY.power.racks["r01"].rating / 3600)
    assert rule.resolution == 100.0
    assert rule.wraps_at is None
    outlet = rules_of(FACILITY).counter(PointId("pdu-r01-a", "outlet.7", "energy"))
    assert outlet == rule


def test_a_point_that_nobody_knows_any_more_has_the_plainest_rules() -> None:
    rules = rules_of(FACILITY)
    gone = PointId("gone", "total", "energy")
    assert rules.counter(gone).fastest_per_s == pytest.approx(5e7 / 3600)
    assert rules.keep(gone).raw == 30.0
    assert rules.keep(gone).days == pytest.approx(1826.25)


@pytest.mark.parametrize(
    ("device", "name"),
    [("pdu-r01-a", "power"), ("cdu-1", "cooling"), ("r01-n1", "gpu"), ("gone", "other")],
)
def test_devices_fall_into_classes(device: str, name: str) -> None:
    assert class_of(FACILITY, device) == name


def test_each_class_may_be_kept_for_its_own_time() -> None:
    store = FACILITY.store.model_copy(
        update={
            "retention": {
                "gpu": Keep.model_validate({"raw": "7 d"}),
                "power": Keep.model_validate({"rollups": "10 d"}),
            }
        }
    )
    rules = rules_of(FACILITY.model_copy(update={"store": store}))
    gpu = rules.keep(PointId("r01-n1", "gpu.0", "temperature"))
    power = rules.keep(PointId("pdu-r01-a", "total", "active_power"))
    assert (gpu.raw, gpu.quarters) == (7.0, pytest.approx(1826.25))
    assert (power.raw, power.quarters, power.days) == (30.0, 10.0, 10.0)


def test_a_profile_tells_where_its_counters_wrap() -> None:
    at = {"modbus": {"address": 0, "type": "u32"}}
    meter = {"part": "total", "kind": "energy", "at": at, "scale": 0.1, "unit": "kWh"}
    profile = profile_of(meter | {"wraps_at": "429496729.6 kWh"})
    assert counting(profile, "total", "energy") == Counting(100.0, 429_496_729_600.0)
    assert counting(profile, "outlet.1", "energy") is None
    assert counting(profile_of(meter), "total", "energy") == Counting(100.0, None)
