"""Devices from a facility file: what does not fit is refused before anybody is talked to."""

from __future__ import annotations

import random

import pytest

from drivers.address import Address, parse_address
from drivers.catalog import build_device
from drivers.credentials import Credentials
from drivers.device import ProfiledDevice
from drivers.transport import Links, Patience
from facility.clock import SystemClock
from facility.config import DeviceConfig


def build(profile: str, address: str, **more: object) -> object:
    config = DeviceConfig(profile=profile, address=address, **more)
    return build_device(config, "d", address, {"ro": Credentials()}, SystemClock())


@pytest.mark.parametrize(
    ("profile", "address", "more", "why"),
    [
        ("pdu/none", "snmp://h", {}, "no profile"),
        ("pdu/apc-rpdu2", "modbus://h/1", {}, "speaks snmp"),
        ("cdu/orv3-rpu", "snmp://h", {}, "speaks modbus"),
        ("pdu/apc-rpdu2", "snmp://h", {"auth": "rw"}, "no credentials"),
        ("pdu/apc-rpdu2", "snmp://h", {"parameters": {"plugs": "3"}}, "no parameter 'plugs'"),
        ("sensor/json-mqtt", "mqtt:hall/r01", {}, "an mqtt: address"),  # and a broker
    ],
)
def test_what_does_not_fit_is_refused(
    profile: str, address: str, more: dict[str, object], why: str
) -> None:
    with pytest.raises(ValueError, match=why):
        build(profile, address, **more)


@pytest.mark.parametrize(
    ("address", "writable"),
    [("modbus://127.0.0.1:5020/1", True), ("modbus://10.0.0.5/1", False)],
)
def test_points_of_a_sim_profile_are_writable_on_loopback_only(
    address: str, writable: bool
) -> None:
    device = build("cdu/wattkeeper-sim", address)
    assert isinstance(device, ProfiledDevice)
    specs = [spec for layout in device.layouts for spec in layout.points if spec.writable]
    assert bool(specs) is writable


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("snmp://pdu-1", Address("snmp", "pdu-1", 161)),
        ("snmp://[::1]:1161", Address("snmp", "::1", 1161)),
        ("modbus://10.0.0.5", Address("modbus", "10.0.0.5", 502)),
        ("modbus://10.0.0.5:5020/17", Address("modbus", "10.0.0.5", 5020, 17)),
        ("mqtt:hall/r01/top", Address("mqtt", topic="hall/r01/top")),
        ("sim:", Address("sim")),
    ],
)
def test_addresses_are_read(text: str, address: Address) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize(
    "text",
    [
        "",
        "h",
        "snmp:h",
        "snmp://",
        "snmp://h:0",
        "snmp://h:x",
        "snmp://u@h",
        "snmp://h/1",
        "modbus://h/256",
        "modbus://h/a",
        "mqtt:",
        "mqtt://broker",
        "ftp://h",
        "snmp://h?x=1",
    ],
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        parse_address(text)


def test_a_secret_shows_in_no_log() -> None:
    assert "hunter2" not in repr(Credentials(secret="hunter2"))


class Hands:
    """A clock whose hands the test moves."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def monotonic_s(self) -> float:
        return self.now_s

    def utc_ms(self) -> int:
        return round(self.now_s * 1000.0)


def test_patience_doubles_to_its_limit_and_ends_with_an_answer() -> None:
    clock = Hands()
    patience = Patience(clock, random.Random(1))
    waits = []
    for _ in range(8):
        patience.silent()
        started_s = clock.now_s
        while patience.waiting:
            clock.now_s += 0.01
        waits.append(clock.now_s - started_s)
    assert 0.8 <= waits[0] <= 1.22
    assert waits[0] < waits[1] < waits[2] < waits[3]
    assert all(0.8 * 15.0 <= wait <= 1.2 * 15.0 + 0.02 for wait in waits[4:])
    assert len({round(wait, 2) for wait in waits[4:]}) > 1  # jitter
    patience.silent()
    patience.answered()
    assert not patience.waiting


def test_units_behind_one_gateway_share_what_stands_under_its_name() -> None:
    links = Links(SystemClock())
    assert links.shared(list, "a", list) is links.shared(list, "a", list)
    assert links.shared(list, "a", list) is not links.shared(list, "b", list)
