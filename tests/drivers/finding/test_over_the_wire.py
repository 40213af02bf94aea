"""A simulated agent is found, numbered and read as a real one is: through UDP, by the same code."""

from __future__ import annotations

import pytest

from drivers.address import parse_address
from drivers.catalog import build_transport, profiles
from drivers.credentials import Credentials
from drivers.device import ProfiledDevice
from drivers.finding import claim_of, find_rows, recognise
from drivers.profile.binding import bind
from drivers.sim.serve_snmp import serve_snmp
from drivers.sim.source import Instruments
from drivers.snmp import SnmpTransport
from facility.clock import SystemClock
from facility.config import DeviceConfig
from tests.drivers.wires import links

CASES = [
    ("pdu/rittal-cmc3", {"device": "2"}, {"total:active_power": 3210, "phase.2:current": 4.56}),
    ("pdu/sentry4", {"phases": "1,2,2-1-3"}, {"phase.2:voltage": 231.4, "phase.2-1-3:current": 2}),
    ("pdu/eaton-epdu", {}, {"phase.1:current": 7.125, "total:active_power": 1600}),
    (
        "pdu/chatsworth",
        {"branches": "1-00AA11BB22CC,2-0x00249b3503f6"},
        {"branch.1-00aa11bb22cc:current": 3.21, "branch.2-0x00249b3503f6:active_power": 640},
    ),
]


@pytest.mark.parametrize(("name", "parameters", "values"), CASES, ids=[c[0] for c in CASES])
async def test_an_agent_is_recognised_walked_and_read(
    name: str, parameters: dict[str, str], values: dict[str, float]
) -> None:
    config = DeviceConfig(profile=name, address="snmp://127.0.0.1", parameters=parameters)
    served = await serve_snmp(Instruments.of("d", values), {"d": config})
    try:
        address, shared = parse_address(served["d"]), links()
        agent = SnmpTransport(address, shared, Credentials())
        known = [p for p in profiles().values() if p.protocol == "snmp"]
        claim = await claim_of(agent, known)
        assert claim is not None
        profile = profiles()[name]
        if not profile.match.describes:
            assert recognise(known, claim) is profile
        wire = build_transport(profile, address, Credentials(), shared)
        found = await find_rows(profile, wire)
        device = ProfiledDevice(bind(profile, "d", parameters, found=found), wire, SystemClock())
        seen: dict[str, float] = {}
        for layout in device.layouts:
            for spec, decoded in zip(layout.points, await device.look(layout), strict=True):
                seen[f"{spec.id.part}:{spec.id.kind}"] = decoded.value
        for point, value in values.items():
            assert seen[point] == pytest.approx(value), point
        await device.close()
        await agent.close()
    finally:
        served.close()
