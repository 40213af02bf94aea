"""What no device can be made of is said before anything starts, by the code that would make it."""

from __future__ import annotations

import pytest

from drivers.catalog import build_device
from drivers.known import DriverKnowledge
from facility.clock import SystemClock
from facility.config import DeviceConfig

KNOWN = DriverKnowledge.shipped()


@pytest.mark.parametrize(
    ("profile", "address", "parameters", "key"),
    [
        ("pdu/apc-rpdu2", "snmp://h:161", {}, None),
        ("cdu/wattkeeper-sim", "modbus://h/255", {}, None),
        ("sensor/json-mqtt", "mqtt:hall/r1", {}, None),
        ("cdu/wattkeeper-sim", "modbus://h:502/256", {}, "address"),
        ("cdu/wattkeeper-sim", "modbus://h:502/x", {}, "address"),
        ("cdu/wattkeeper-sim", "snmp://h", {}, "address"),
        ("pdu/apc-rpdu2", "snmp://h:99999", {}, "address"),
        ("pdu/apc-rpdu2", "snmp://", {}, "address"),
        ("pdu/apc-rpdu2", "snmp://[::1", {}, "address"),
        ("pdu/apc-rpdu2", "mqtt:x", {}, "address"),
        ("pdu/apc-rpdu2", "", {}, "address"),
        ("sensor/json-mqtt", "mqtt:", {}, "address"),
        ("sensor/json-mqtt", "mqtt:hall/#", {}, "address"),
        ("sensor/json-mqtt", "mqtt:\0", {}, "address"),
        ("pdu/apc-rpdu2", "snmp://h", {"nonsense": "1"}, "parameters"),
        ("pdu/chatsworth", "snmp://h", {}, "parameters"),
        ("pdu/chatsworth", "snmp://h", {"branches": "1-00AA11BB22CC,"}, None),
        ("pdu/rittal-cmc3", "snmp://h", {"device": "two"}, "parameters"),
        ("pdu/apc-rpdu2", "snmp://h", {"nonsense": "9" * 5000}, "parameters"),
    ],
)
def test_an_entry_that_no_device_can_be_made_of_names_its_wrong_key(
    profile: str, address: str, parameters: dict[str, str], key: str | None
) -> None:
    entry = DeviceConfig(profile=profile, address=address, parameters=parameters)
    fault = KNOWN.device_fault(entry)
    assert (None if fault is None else fault[0]) == key
    if key is not None and not address.startswith("mqtt"):
        with pytest.raises(ValueError, match=r"."):
            build_device(entry, "d", address, {}, SystemClock())


@pytest.mark.parametrize(
    ("url", "prefix", "key"),
    [
        ("mqtt://h", "wattkeeper", None),
        ("mqtts://h:8883", "site/one", None),
        ("http://h", "wattkeeper", "broker"),
        ("mqtt://user:word@h", "wattkeeper", "broker"),
        ("mqtt://h:99999", "wattkeeper", "broker"),
        ("mqtt://[h", "wattkeeper", "broker"),
        ("mqtt://h", "", "topic_prefix"),
        ("mqtt://h", "#", "topic_prefix"),
        ("mqtt://h", "a/+/b", "topic_prefix"),
    ],
)
def test_a_broker_that_nobody_can_reach_is_named(url: str, prefix: str, key: str | None) -> None:
    fault = KNOWN.broker_fault(url, prefix)
    assert (None if fault is None else fault[0]) == key


@pytest.mark.parametrize(
    ("first", "second", "more", "clash"),
    [
        ({"element": "row-a"}, {"element": "row-b"}, {}, True),
        ({"rack": "r1", "feed": "a"}, {"rack": "r1", "feed": "b"}, {}, True),
        ({"node": "n1"}, {"node": "n2"}, {}, True),
        ({"element": "pdu-r1"}, {"rack": "r1", "feed": "a"}, {}, False),
        ({"rack": "r1"}, {"rack": "r2"}, {}, False),
        ({"element": "row-a"}, {"element": "row-b"}, {"address": "modbus://gw/8"}, False),
        ({"element": "row-a"}, {"element": "row-b"}, {"auth": "other"}, False),
        ({"element": "row-a"}, {"element": "row-b"}, {"parameters": {"device": "2"}}, False),
    ],
)
def test_an_address_that_was_copied_made_one_device_two_meters(
    first: dict[str, str], second: dict[str, str], more: dict[str, object], clash: bool
) -> None:
    one = {"profile": "meter/eastron-sdm630", "address": "modbus://gw:502/7"}
    devices = {
        "one": DeviceConfig.model_validate({**one, "measures": first}),
        "two": DeviceConfig.model_validate({**one, "measures": second, **more}),
    }
    found = list(DriverKnowledge.shipped().clashes(devices))
    assert [(name, key) for name, key, _ in found] == ([("two", "address")] if clash else [])
    assert all("one is the same device" in words for *_, words in found)
