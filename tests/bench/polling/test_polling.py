"""The bench of polling works, at the size of a toy."""

from __future__ import annotations

import pytest

from tests.bench.poll import measure
from tests.bench.polling.fleet import PROTOCOLS, UNITS_OF_LOOK, Fleet, binding_of, host_of
from tests.bench.polling.runs import Lengths

TOY = Fleet(snmp=10, modbus=5, mqtt=5, period_s=0.5)


def test_devices_have_as_many_values_as_the_issue_says_and_their_own_addresses() -> None:
    for protocol in PROTOCOLS:
        points = binding_of(protocol, 0, 1.0).all()
        counts = [getattr(point.at, "count", 1) for point in points]
        assert sum(counts) == UNITS_OF_LOOK[protocol]
        hosts = {host_of(protocol, number) for number in range(700)}
        assert len(hosts) == 700


@pytest.mark.system
def test_a_toy_hall_is_polled_and_every_figure_is_there() -> None:
    result = measure(TOY, Lengths(alone_s=1.0, whole_s=2.0, warm_s=1.0, polls=320))
    figures = result["figures"]
    for name in (
        "snmp_cpu_us_per_value",
        "modbus_cpu_us_per_register",
        "mqtt_cpu_us_per_value",
        "cpu_cores",
    ):
        assert figures[name] > 0.0, name
    assert figures["healthy_cycles_ratio"] > 0.5
    assert figures["cpu_cores_of_the_devices"] >= 0.0  # counted in hundredths of a second
    assert figures["polls"] == 320
    assert set(result["ratios"]) <= {"snmp_exporter_cpu_over_ours"}


def test_the_fleet_is_as_sick_as_it_says() -> None:
    states = [Fleet(snmp=700).state(i) for i in range(700)]
    assert (states.count("dead"), states.count("slow")) == (70, 35)
