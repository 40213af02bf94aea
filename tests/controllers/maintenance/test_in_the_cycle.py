"""Maintenance through whole cycles: what it takes out, silences and freezes, and how it ends."""

from __future__ import annotations

import json

import pytest

from controllers.cycle.state import CycleInput
from facility.commands import AlarmEvent
from facility.maintenance import LEAD_MS, Maintenance
from tests.controllers.rig import Hall
from tests.controllers.toy import Toy, site_of, small_hall

THREE = """
    ups-a1: {kind: ups, fed_by: [utility-1], rating: 12 kW}
    ups-a2: {kind: ups, fed_by: [utility-1], rating: 12 kW}
    ups-a3: {kind: ups, fed_by: [utility-1], rating: 12 kW}
"""


def three_ups() -> str:
    """Side A on three UPSs, any one of which is enough to keep it alive."""
    one = "    ups-a1: {kind: ups, fed_by: [utility-1], rating: 30 kW, autonomy: 300 s}\n"
    text = small_hall(ROW="60 kW").replace(one, THREE)
    text = text.replace("fed_by: [ups-a1], rating", "fed_by: [bus-a], rating")
    group = "  groups:\n    bus-a: {members: [ups-a1, ups-a2, ups-a3], needs: 1}\n"
    return text.replace("  racks:\n    r01: {feeds", f"{group}  racks:\n    r01: {{feeds").replace(
        "  ups-[a,b]1:",
        "  ups-a[2-3]: {profile: ups/rfc1628, address: 'snmp://x:1', "
        'measures: {element: "ups-a{1}"}}\n  ups-[a,b]1:',
    )


def hall(text: str | None = None) -> Hall:
    return Hall(Toy(site_of(text or small_hall()), cap_w=300.0))


def work(h: Hall, subject: str, kind: str = "element", **more: object) -> Maintenance:
    now = h.toy.now_ms
    base = {"since_ms": now, "until_ms": now + 60_000, "by": "kim", "reason": "battery test"}
    return Maintenance("m1", kind, subject, ticket="CHG-7", **{**base, **more})  # type: ignore[arg-type]


def caps(h: Hall) -> list[float]:
    return [h.toy.caps[n] for n in h.site.nodes]


def last_of(h: Hall, key: str) -> AlarmEvent:
    return [e for e in h.events if e.key == key][-1]


def test_caps_come_down_before_the_start_and_rise_again_after_the_end() -> None:
    h = hall(three_ups())
    h.run(40)
    before = max(caps(h))
    start = h.toy.now_ms + LEAD_MS + 20_000
    h.maintenance = (work(h, "ups-a2", since_ms=start, until_ms=start + 40_000),)
    h.run(19)
    assert max(caps(h)) == before
    planned = h.decisions[-1].facts["maintenance"][0]
    assert (planned["state"], planned["secured"]) == ("planned", None)
    h.run(60)
    assert max(caps(h)) < before - 5.0
    securing = h.decisions[-1].facts["maintenance"][0]
    assert (securing["state"], securing["secured"]) == ("securing", True)
    assert h.decisions[-1].facts["headroom"]["ok"]
    h.run(200)
    assert h.decisions[-1].facts["maintenance"] == []
    assert max(caps(h)) == pytest.approx(before, abs=3.0)


def test_what_hangs_below_is_silent_and_journalled_and_comes_back_when_it_ends() -> None:
    h = hall()
    h.run(30)
    h.maintenance = (work(h, "ups-a1", until_ms=h.toy.now_ms + 40_000),)
    h.run(2)
    assert h.raised()["maintenance:element:ups-a1"].parent is None
    # The UPS and side A's meters fall silent, a meter of side B does too.
    h.toy.broken |= {"ups-a1", "pdu-r01-a", "pdu-r02-b"}
    h.run(20)
    below = last_of(h, "device_unreachable:pdu-r01-a")
    assert below.active
    assert below.parent == "maintenance:element:ups-a1"
    assert not below.page
    assert last_of(h, "device_unreachable:ups-a1").parent == "maintenance:element:ups-a1"
    assert last_of(h, "device_unreachable:pdu-r02-b").parent is None
    h.run(30)
    assert not last_of(h, "maintenance:element:ups-a1").active
    back = last_of(h, "device_unreachable:pdu-r01-a")
    assert back.active
    assert back.parent is None


def test_an_alarm_that_pages_does_so_only_when_the_maintenance_is_over() -> None:
    h = hall()
    h.run(30)
    h.maintenance = (work(h, "cdu-1", "load"),)
    h.run(2)
    h.toy.changes["cdu-1:pump.1:rotation"] = 0.0
    h.run(30)
    silent = last_of(h, "pump_lost:cdu-1")
    assert silent.parent == "maintenance:load:cdu-1"
    assert not silent.page
    h.run(40)
    told = last_of(h, "pump_lost:cdu-1")
    assert told.active
    assert told.parent is None
    assert told.page


def test_a_limit_broken_elsewhere_is_not_silenced() -> None:
    h = hall()
    h.run(5)
    h.maintenance = (work(h, "ups-a1"),)
    h.toy.changes["ups-b1:total:active_power"] = 32_000.0
    h.run(10)
    over = last_of(h, "overload:ups-b1")
    assert over.active
    assert over.page
    assert over.parent is None


def test_frozen_caps_hold_until_the_end() -> None:
    h = hall()
    h.maintenance = (work(h, "r01", "rack", freeze=("rack:r01",)),)
    h.run(50)
    assert caps(h)[:2] == [300.0, 300.0]
    assert min(caps(h)[2:]) > 480.0
    h.run(60)
    assert min(caps(h)) > 480.0


def test_frozen_caps_still_come_down_for_protection() -> None:
    h = hall()
    h.run(30)
    before = caps(h)
    h.maintenance = (work(h, "r01", "rack", freeze=("hall",)),)
    h.toy.changes |= {"wet-r01:leak:leak": 1.0, "cdu-1:total:leak": 1.0}
    h.run(10)
    assert max(caps(h)[:2]) == 250.0
    assert caps(h)[2:] == before[2:]


def test_nothing_is_written_to_a_device_that_is_worked_on() -> None:
    h = hall()
    h.maintenance = (work(h, "r01-n1", "device"), work(h, "cdu-1", "device"))
    decision = h.run(50)
    touched = {c.point.device for c in h.toy.written}
    assert "r01-n1" not in touched
    assert "cdu-1" not in touched
    assert "r02-n1" in touched
    assert decision.facts["maintenance"][0]["state"] == "open"


def test_a_cdu_in_maintenance_cools_nothing_and_caps_follow() -> None:
    text = small_hall(ROW="60 kW").replace("heat_capacity: 60 kW", "heat_capacity: 48 kW")
    h = hall(text)
    h.run(40)
    before = max(caps(h))
    h.maintenance = (work(h, "cdu-1", "load"),)
    h.run(40)
    # 48 kW x 0.5 for the CDU that is out, and once more for the one that may fail.
    assert max(caps(h)) < before - 5.0


def test_its_inputs_can_be_recorded_and_read_back() -> None:
    h = hall()
    h.maintenance = (work(h, "ups-a1", freeze=("loop:loop-1",), accepted=("single_fed",)),)
    h.step()
    inputs = h.inputs()
    text = json.dumps(inputs.to_json())
    assert CycleInput.from_json(json.loads(text), inputs.snapshot) == inputs
    assert inputs.taken_out == ("ups-a1",)
