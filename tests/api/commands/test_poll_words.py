"""`wattkeeper poll` says what to try next: a closer name, a profile, another login."""

from __future__ import annotations

import pytest

from api.commands.poll_mqtt import published_at
from api.commands.poll_words import named, no_profile, nothing_read, silence, unknown_by_itself
from drivers.address import parse_address
from drivers.catalog import profiles
from drivers.device import DeviceIdentity
from drivers.profile.codec import Decoded
from facility.points import Flaw, Grade, PointId, PointSpec, quality

WATTS = PointSpec(PointId("d", "total", "active_power"), -1e9, 1e9, 5.0)


def bad(flaw: Flaw) -> tuple[PointSpec, Decoded]:
    return WATTS, Decoded(float("nan"), quality(Grade.BAD, flaw), "")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("pdu/apc-rpdu3", "there are: pdu/apc-rpdu, pdu/apc-rpdu2; docs"),
        ("cdu/mine", "there are: cdu/a, cdu/b; docs"),
        ("mine", "there are: cdu/a, cdu/b, pdu/apc-rpdu, pdu/apc-rpdu2"),
    ],
)
def test_a_profile_that_is_none_names_those_that_may_be_meant(name: str, said: str) -> None:
    text = no_profile(name, ["cdu/a", "cdu/b", "pdu/apc-rpdu", "pdu/apc-rpdu2"])
    assert said in text
    assert name in text


def test_a_modbus_device_is_told_which_profiles_there_are_for_it() -> None:
    text = unknown_by_itself("modbus", profiles().values())
    assert "meter/eastron-sdm630" in text
    assert "pdu/" not in text


def test_a_wrong_community_was_told_as_silence_and_nothing_more() -> None:
    agent = parse_address("snmp://10.0.0.1")
    assert "community" in silence(agent, "community")
    assert "SNMPv3" in silence(agent, "snmpv3")
    assert silence(parse_address("modbus://10.0.0.1/1"), "community") == ""


@pytest.mark.parametrize(
    ("flaw", "said"),
    [
        (Flaw.REFUSED, "none of the values that pdu/x names"),
        (Flaw.SENTINEL, "says of every value that it has none"),
        (Flaw.UNDECODABLE, "what pdu/x expects"),
        (Flaw.DEVICE_FAULT, "a fault of its own"),
        (Flaw.STALE, "no value came"),
    ],
)
def test_a_device_without_one_value_passed_for_read(flaw: Flaw, said: str) -> None:
    (check,) = nothing_read("pdu/x", [bad(flaw), bad(flaw), bad(Flaw.TIMEOUT)])
    assert not check.ok
    assert said in check.detail


def test_no_point_at_all_is_nothing_read_and_one_value_is_something() -> None:
    assert nothing_read("pdu/x", [])[0].ok is False
    good = (WATTS, Decoded(1.0, quality(Grade.GOOD, Flaw.NONE), "1"))
    assert nothing_read("pdu/x", [good, bad(Flaw.REFUSED)]) == ()


def test_a_vendor_that_its_model_repeats_is_said_once() -> None:
    assert named(DeviceIdentity("APC", "APC InRow", "6.6", "JK1")) == "APC InRow 6.6 JK1"
    assert named(DeviceIdentity("APC", "AP8853", None, None)) == "APC AP8853"
    assert named(DeviceIdentity("Eastron", None, None, None)) == "Eastron"


@pytest.mark.parametrize(
    ("target", "topic"),
    [
        ("mqtt://b/hall/r07", "hall/r07"),
        ("mqtt://b//neuron/bacnet/cdu-1", "/neuron/bacnet/cdu-1"),
        ("mqtt://b/hall/r07/", "hall/r07"),
    ],
)
def test_a_topic_that_begins_with_a_slash_lost_it_and_was_never_heard(
    target: str, topic: str
) -> None:
    address = published_at(target)
    assert address is not None
    assert address.topic == topic
