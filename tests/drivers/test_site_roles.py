"""Devices of a facility file play their role by the parts that their profiles name."""

from __future__ import annotations

import numpy as np
import pytest

from drivers.catalog import profiles
from drivers.known import DriverKnowledge
from drivers.profile.binding import bind
from facility.checking import check
from facility.loading import load_text
from facility.points import PointTable
from facility.site import SiteModel
from tests.controllers.toy import small_hall

ADDRESSES = {"snmp": "snmp://x:1", "modbus": "modbus://x:1/1"}
#: coolers that a liquid loop can be seen by: supply, return and flow of its water
LOOPS = ("cooling/rittal-lcp-cmc3", "cooling/rittal-lcp-cmctc", "cooling/apc-inrow-rc")
LOOPS += ("cooling/liebert-icom-cw", "cdu/orv3-rpu", "cdu/orv3-rpu2", "cdu/offset-code-plc")
#: UPSs whose power and state an element has
UPSS = ("ups/eaton-mge", "ups/huawei-ups2000", "ups/huawei-ups5000", "ups/socomec-netvision")
UPSS += ("ups/liebert-gp", "ups/apc-symmetra", "ups/delta-mini-snmp", "ups/eaton-xups")
#: what measures a feed of a rack
METERS = ("meter/janitza-umg96", "meter/janitza-b23", "meter/schneider-pm5xxx", "shelf/orv3-psu")
METERS += (
    "meter/schneider-iem3000",
    "meter/abb-b",
    "meter/eastron-sdm630",
    "meter/siemens-pac2200",
)


def hall_with(was: str, now: str) -> SiteModel:
    """The small hall with another profile in the place of one, checked and laid out."""
    entry, other = (
        f'profile: {name}, address: "{ADDRESSES[profiles()[name].protocol]}"' for name in (was, now)
    )
    assert entry in small_hall()
    loaded = load_text(small_hall().replace(entry, other))
    problems = check(loaded, DriverKnowledge.shipped())
    assert not [p for p in problems if now in p.problem]
    facility = loaded.facility
    layouts = [
        layout
        for name, device in facility.devices.items()
        for layout in bind(profiles()[device.profile], name, device.parameters).layouts
    ]
    return SiteModel.of(facility, PointTable.of(layouts))


@pytest.mark.parametrize("profile", LOOPS)
def test_a_cooler_measures_a_loop(profile: str) -> None:
    loop = hall_with("cdu/wattkeeper-sim", profile).loops[0]
    for indexes in (loop.supply, loop.returned, loop.flow):
        assert np.all(indexes >= 0)
    kinds = {(p.part, p.kind) for p in profiles()[profile].points}
    assert np.all((loop.leak >= 0) == (("total", "leak") in kinds))
    assert loop.setpoint_points == (None, None)  # seen at most, and never written


@pytest.mark.parametrize("profile", UPSS)
def test_a_ups_measures_its_element(profile: str) -> None:
    site = hall_with("ups/rfc1628", profile)
    at = [site.topology.elements.index(name) for name in ("ups-a1", "ups-b1")]
    assert np.all(site.element_meter[at] >= 0)
    assert np.all(site.element_state[at] >= 0)


@pytest.mark.parametrize("profile", METERS)
def test_a_meter_measures_a_feed(profile: str) -> None:
    assert np.all(hall_with("pdu/apc-rpdu2", profile).feed_meter[:4] >= 0)
