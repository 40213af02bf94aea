"""Where a Modbus device is, and which addresses cannot stand side by side."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drivers.address import SerialLine, TlsFiles, parse_address
from drivers.known import DriverKnowledge
from facility.config import DeviceConfig

KNOWN = DriverKnowledge.shipped()


def test_each_form_is_read() -> None:
    plain = parse_address("modbus://cdu-1")
    assert (plain.host, plain.port, plain.unit) == ("cdu-1", 502, 1)
    assert plain.endpoint == "modbus://cdu-1:502"
    rtu = parse_address("modbus+rtu://[::1]:4001/17")
    assert (rtu.host, rtu.port, rtu.unit, rtu.protocol) == ("::1", 4001, 17, "modbus")
    tls = parse_address("modbus+tls://cdu-1/3?ca=/etc/ca.pem&cert=/c.pem&key=/k.pem&name=cdu")
    assert (tls.port, tls.unit) == (802, 3)
    assert tls.tls == TlsFiles("/etc/ca.pem", "/c.pem", "/k.pem", "cdu")
    line = parse_address("modbus+serial:///dev/ttyUSB0/12?baud=9600&parity=none&stop=2")
    assert line.line == SerialLine("/dev/ttyUSB0", 9600, "none", 2)
    assert (line.unit, line.endpoint) == (12, "modbus+serial:///dev/ttyUSB0")
    assert parse_address("modbus+serial:///dev/pts/3/1").line == SerialLine("/dev/pts/3")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("modbus+rtu://h", "port"),
        ("modbus+rtu://h:0/1", "port 0"),
        ("modbus://h/256", "no Modbus unit"),
        ("modbus://h/1?baud=9600", "question mark"),
        ("modbus+tls://h?key=/k", "without a certificate"),
        ("modbus+tls://h?verify=no", "no option 'verify'"),
        ("modbus+tls://h?ca=", "without a value"),
        ("modbus+tls://h?ca=/a&ca=/b", "twice"),
        ("modbus+serial:///dev/ttyUSB0", "no Modbus unit"),
        ("modbus+serial:///dev/ttyUSB0/0", "1 to 247"),
        ("modbus+serial:///dev/ttyUSB0/248", "1 to 247"),
        ("modbus+serial://ttyUSB0/1", "/dev/NAME"),
        ("modbus+serial:///dev/ttyUSB0/1?baud=9601", "baud"),
        ("modbus+serial:///dev/ttyUSB0/1?parity=mark", "parity"),
        ("modbus+serial:///dev/ttyUSB0/1?stop=3", "stop"),
        ("modbus+serial:///dev/ttyUSB0/1?bits=7", "no option 'bits'"),
        ("modbus+ascii://h:1/1", "is no snmp://"),
        ("snmp://h/1", "snmp://host"),
    ],
)
def test_what_is_no_address_says_why(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why.replace("?", r"\?")):
        parse_address(text)


@given(
    st.sampled_from(("modbus", "modbus+rtu", "modbus+tls", "modbus+serial", "snmp", "mqtt")),
    st.text(max_size=30),
)
def test_any_text_is_an_address_or_a_value_error(scheme: str, rest: str) -> None:
    for text in (f"{scheme}:{rest}", f"{scheme}://{rest}", f"{scheme}:///{rest}"):
        try:
            assert parse_address(text).endpoint
        except ValueError:
            continue


@pytest.mark.parametrize(
    ("first", "second", "clash"),
    [
        ("modbus+serial:///dev/a/1?baud=9600", "modbus+serial:///dev/a/2?baud=9600", False),
        ("modbus+serial:///dev/a/1?baud=9600", "modbus+serial:///dev/a/2", True),
        ("modbus+serial:///dev/a/1?baud=9600", "modbus+serial:///dev/b/2", False),
        ("modbus://gw:4001/1", "modbus+rtu://gw:4001/2", True),
        ("modbus+tls://gw/1?ca=/a", "modbus+tls://gw/2?ca=/b", True),
        ("modbus://gw/1", "modbus+tls://gw/2", False),
        ("modbus://gw/1", "nonsense", False),
    ],
)
def test_one_line_with_two_settings_is_a_fault_of_the_second(
    first: str, second: str, clash: bool
) -> None:
    devices = {
        name: DeviceConfig(profile="cdu/orv3-rpu", address=address)
        for name, address in (("one", first), ("two", second))
    }
    found = list(KNOWN.clashes(devices))
    assert [(name, key) for name, key, _ in found] == ([("two", "address")] if clash else [])
    assert all("one" in words for _, _, words in found)
