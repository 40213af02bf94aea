"""One cause, one story: the broker, a gateway, a rack's meters."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controllers.alarms.reach import device_conditions
from facility.commands import AlarmEvent
from facility.points import Flaw, Grade, quality
from tests.controllers.rig import Hall
from tests.controllers.toy import Toy, site_of, small_hall

RACK_1 = {"pdu-r01-a", "pdu-r01-b"}


def hall_of(text: str) -> Hall:
    return Hall(Toy(site_of(text), cap_w=300.0))


def unfolded(h: Hall) -> list[str]:
    """What people are told: raised, and not explained by another alarm."""
    return [e.key for e in h.events if e.active and e.parent is None]


def folded(h: Hall) -> dict[str, str]:
    last: dict[str, AlarmEvent] = {e.key: e for e in h.events if e.active}
    return {key: e.parent for key, e in last.items() if e.parent is not None}


def test_a_lost_broker_raised_an_alarm_for_every_sensor_and_agent() -> None:
    h = hall_of(small_hall())
    h.run(20)
    published = {d for d, c in h.site.facility.devices.items() if c.address.startswith("mqtt:")}
    h.toy.broken |= published | set(h.site.nodes)
    h.run(30)
    assert unfolded(h) == ["broker_unreachable:broker"]
    assert [e.key for e in h.events if e.page] == ["broker_unreachable:broker"]
    assert {f"device_unreachable:{d}" for d in published} <= set(folded(h))
    text = h.raised()["broker_unreachable:broker"].text
    assert f"4 of 4 agents and {len(published)} sensors are silent" in text
    assert "hold their caps for 10 min" in text
    h.toy.broken.clear()
    h.run(40)
    assert not h.memory.alarms.active
    assert unfolded(h) == ["broker_unreachable:broker"]


def test_a_dead_gateway_raised_an_alarm_for_every_device_behind_it() -> None:
    text = small_hall().replace(
        'pdu-r[01-02]-[a,b]:\n    {profile: pdu/apc-rpdu2, address: "snmp://x:1"',
        'pdu-r[01-02]-[a,b]:\n    {profile: pdu/apc-rpdu2, address: "snmp://gw:161"',
    )
    assert "gw:161" in text
    h = hall_of(text)
    h.run(20)
    h.toy.broken |= {f"pdu-r{r:02d}-{s}" for r in (1, 2) for s in "ab"}
    h.run(30)
    assert "endpoint_unreachable:gw:161" in unfolded(h)
    assert not [key for key in unfolded(h) if key.startswith(("device_", "data_blind"))]
    assert folded(h)["data_blind:r01"] == "endpoint_unreachable:gw:161"


def test_one_rack_without_meters_was_told_three_times() -> None:
    h = hall_of(small_hall())
    h.run(20)
    h.toy.broken |= RACK_1
    h.run(30)
    assert unfolded(h) == ["data_blind:r01"]
    assert folded(h) == {f"device_unreachable:{d}": "data_blind:r01" for d in RACK_1}
    assert "Check pdu-r01-a and pdu-r01-b." in h.raised()["data_blind:r01"].text


def test_one_meter_of_two_is_the_meters_own_story() -> None:
    h = hall_of(small_hall())
    h.run(20)
    h.toy.broken.add("pdu-r01-a")
    h.run(30)
    assert "device_unreachable:pdu-r01-a" in unfolded(h)
    assert "data_blind:r01" not in unfolded(h)


def test_one_silent_agent_is_told_by_name() -> None:
    h = hall_of(small_hall())
    h.run(20)
    h.toy.broken.add(h.site.nodes[0])
    h.run(30)
    assert unfolded(h) == [f"agent_silent:{h.site.nodes[0]}"]


def test_a_start_paged_for_a_broker_whose_agents_had_not_spoken_yet() -> None:
    h = hall_of(small_hall())
    h.toy.broken |= set(h.site.nodes)
    h.run(8)
    h.toy.broken.clear()
    h.run(20)
    assert not [key for key in unfolded(h) if key.startswith(("broker", "agent", "device"))]


def test_what_is_still_missing_after_the_start_is_told() -> None:
    h = hall_of(small_hall())
    h.toy.broken |= RACK_1
    h.run(20)
    assert "data_blind:r01" in unfolded(h)


@pytest.mark.parametrize(
    ("flaw", "said"),
    [
        (Flaw.TIMEOUT, "no answer. Check its link and its supply."),
        (Flaw.REFUSED, "has no such values. Check its profile, firmware and login."),
        (Flaw.DEVICE_FAULT, "a fault of its own. Look at the device itself."),
    ],
)
def test_a_device_that_answered_was_said_to_have_a_broken_link(flaw: Flaw, said: str) -> None:
    h = hall_of(small_hall())
    h.run(20)
    snapshot = h.toy.snapshot()
    told = snapshot.quality.copy()
    told[h.site.device_points["pdu-r01-a"]] = quality(Grade.BAD, flaw)
    (alarm,) = device_conditions(h.site, replace(snapshot, quality=told), {})
    assert alarm.key == "device_unreachable:pdu-r01-a"
    assert alarm.text.endswith(said)
