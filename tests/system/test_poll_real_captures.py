"""`poll` on recordings of real devices, played by snmpsim: physics decides what is right.

snmpsim-data (BSD) is installed with the tests; the captures that `WATTKEEPER_CAPTURES` names are
under the GPL and stay outside the repo.
"""

from __future__ import annotations

import asyncio
import bz2
import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from api.commands.poll import poll
from drivers.address import parse_address
from drivers.credentials import Credentials
from drivers.snmp import SYS_DESCR, SnmpTransport
from facility.clock import SystemClock
from facility.points import Flaw
from tests.conftest import ROOT
from tests.drivers.wires import links

pytestmark = [
    pytest.mark.system,
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning:pysnmp"),
]

SHIPPED = ("apc-8641.snmprec", "apc-8932.snmprec", "apc-7902b.snmprec", "eaton-93e-80.snmprec.bz2")
SHARED = (
    "apc_ap8959eu3",
    "apc_ap8853",
    "apc_apdu9959eu3",
    "raritan-pdu_px2",
    "raritan-pdu_px2-temp",
    "raritan-pdu_px3",
    "eaton-mgeups_93ps",
    "generex-ups_cs141",
    "huaweiups_ups2000",
    "deltaups_rfc1628string",
    "rittal-lcp_cmciii-pu-lcp",
    "apc_inrow-dx",
    "liebert_apm",
    "socomec-ups",
)
START_S = 60.0


def responder() -> str:
    """The snmpsim program, beside this Python or in a virtual environment of its own."""
    places = (Path(sys.executable).parent, ROOT / ".venv-snmpsim" / "bin")
    found = [str(p / "snmpsim-command-responder") for p in places]
    program = next((f for f in found if Path(f).exists()), shutil.which(Path(found[0]).name))
    if program is None:
        pytest.skip("snmpsim is not installed")
    return program


def shipped_folder() -> Path:
    spec = find_spec("snmpsim_data")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("snmpsim-data is not installed")
    return Path(next(iter(spec.submodule_search_locations))) / "data" / "UPS"


def free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def answers(target: str, community: str) -> bool:
    agent = SnmpTransport(parse_address(target), links(), Credentials(secret=community))
    return not isinstance(await agent.get(SYS_DESCR), Flaw)


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Every capture that is here, on one agent; the community chooses the device."""
    folder = tmp_path_factory.mktemp("snmpsim")
    data = folder / "data"
    data.mkdir()
    for name in SHIPPED:
        raw = (shipped_folder() / name).read_bytes()
        content = bz2.decompress(raw) if name.endswith(".bz2") else raw
        (data / name.removesuffix(".bz2")).write_bytes(content)
    shared = os.environ.get("WATTKEEPER_CAPTURES")
    for name in SHARED if shared else ():
        source = Path(str(shared)) / "snmprec" / f"{name}.snmprec"
        (data / source.name).write_bytes(source.read_bytes())
    port = free_port()
    program = [
        responder(),
        f"--data-dir={data}",
        f"--cache-dir={folder / 'cache'}",
        f"--agent-udpv4-endpoint=127.0.0.1:{port}",
        "--logging-method=null",
    ]
    if os.geteuid() == 0:  # snmpsim insists on naming whom it runs as
        program += ["--process-user=root", "--process-group=root"]
    process = subprocess.Popen(
        program, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        clock = SystemClock()
        address, deadline_s = f"snmp://127.0.0.1:{port}", clock.monotonic_s() + START_S
        while not asyncio.run(answers(address, "apc-8641")):
            assert process.poll() is None, "snmpsim ended at once"
            assert clock.monotonic_s() < deadline_s, "snmpsim does not answer"
        yield address
    finally:
        process.kill()
        process.wait()


def read(
    capsys: pytest.CaptureFixture[str], target: str, community: str, profile: str = "auto"
) -> dict[str, Any]:
    assert poll(profile, target, None, community, True, None, True) == 0
    out = capsys.readouterr().out
    document: dict[str, Any] = json.loads(out)
    assert set(document) == {
        "profile",
        "target",
        "device",
        "at",
        "seconds",
        "requests",
        "readings",
        "checks",
    }
    return document


def values(document: dict[str, Any]) -> dict[str, float]:
    return {
        f"{r['part']}:{r['kind']}": r["value"]
        for r in document["readings"]
        if r["value"] is not None
    }


def shared(name: str) -> str:
    if not os.environ.get("WATTKEEPER_CAPTURES"):
        pytest.skip("WATTKEEPER_CAPTURES names no folder with device captures")
    return name


def test_a_bsd_capture_of_an_apc_pdu(capsys: pytest.CaptureFixture[str], target: str) -> None:
    document = read(capsys, target, "apc-8641")
    assert document["profile"] == "pdu/apc-rpdu2"
    assert document["device"]["model"] == "AP8641"
    seen = values(document)
    assert seen["total:active_power"] == 1210.0
    assert seen["phase.1:current"] == pytest.approx(6.5)
    assert seen["outlet.1:active_power"] == 163.0  # 0.9 A x 201 V = 181 VA: whole watts
    assert all(check["ok"] for check in document["checks"])
    outlets = [v for k, v in seen.items() if k.startswith("outlet.") and k.endswith("active_power")]
    assert sum(outlets) == pytest.approx(seen["total:active_power"], rel=0.1)


def test_a_bsd_capture_of_an_eaton_ups(capsys: pytest.CaptureFixture[str], target: str) -> None:
    document = read(capsys, target, "eaton-93e-80")
    assert document["profile"] == "ups/eaton-mge"
    seen = values(document)
    assert seen["total:active_power"] == 5100.0 + 3600.0 + 2700.0
    assert seen["battery:runtime"] == 1092 * 60.0
    assert all(check["ok"] for check in document["checks"])


def test_apc_ap8959eu3(capsys: pytest.CaptureFixture[str], target: str) -> None:
    document = read(capsys, target, shared("apc_ap8959eu3"))
    assert document["device"]["vendor"] == "APC"
    assert document["device"]["model"] == "AP8959EU3"
    assert document["device"]["firmware"] == "6.4.0"
    seen = values(document)
    assert seen["total:active_power"] == 270.0
    assert seen["total:apparent_power"] == 300.0
    assert seen["total:energy"] == 1_967_700.0
    assert seen["phase.1:active_power"] == 250.0
    assert seen["phase.1:voltage"] == 231.0
    assert seen["phase.1:current"] == 1.3
    assert "phase.2:current" not in seen
    assert not [k for k in seen if k.startswith("sensor.")]  # -1: none is plugged in


def test_raritan_px2(capsys: pytest.CaptureFixture[str], target: str) -> None:
    document = read(capsys, target, shared("raritan-pdu_px2"))
    seen = values(document)
    assert document["profile"] == "pdu/raritan-px"
    assert seen["inlet.1:current"] == 0.680
    assert seen["inlet.1:voltage"] == 233.0
    assert seen["inlet.1:active_power"] == seen["total:active_power"] == 138.0
    assert seen["inlet.1:frequency"] == 50.0
    assert sum(k.startswith("outlet.") and k.endswith("current") for k in seen) == 12


def test_a_liquid_cooler_whose_variables_are_found_by_name(
    capsys: pytest.CaptureFixture[str], target: str
) -> None:
    document = read(capsys, target, shared("rittal-lcp_cmciii-pu-lcp"))
    assert document["profile"] == "cooling/rittal-lcp-cmc3"
    seen = values(document)
    assert seen["loop.secondary:flow"] == 5.3
    assert seen["loop.secondary:return_temperature"] == 20.7
    assert seen["total:heat"] == 1707.0
    assert sum(k.startswith("fan.") for k in seen) == 6
    assert [(c["check"], c["ok"]) for c in document["checks"]] == [
        ("heat = flow x temperature difference", True)
    ]


def test_a_cooler_that_names_its_values_twice_and_tells_divisors(
    capsys: pytest.CaptureFixture[str], target: str
) -> None:
    document = read(capsys, target, shared("apc_inrow-dx"))
    assert document["profile"] == "cooling/apc-cooling-unit"
    seen = values(document)
    assert (seen["unit:supply_temperature"], seen["unit:return_temperature"]) == (19.4, 28.0)
    assert seen["total:heat"] == 10_800.0
    assert [k for k in seen if k.startswith("rack.")] == ["rack.3:temperature"]


def test_a_ups_that_shares_its_object_identifier_with_a_pdu(
    capsys: pytest.CaptureFixture[str], target: str
) -> None:
    document = read(capsys, target, shared("liebert_apm"))
    assert document["profile"] == "ups/liebert-gp"
    assert values(document)["total:active_power"] == 20_000.0


@pytest.mark.parametrize(
    "name",
    [n for n in SHARED if n.startswith(("apc_a", "raritan", "eaton", "generex"))],
)
def test_physics_agrees_with_every_capture(
    capsys: pytest.CaptureFixture[str], target: str, name: str
) -> None:
    document = read(capsys, target, shared(name))
    failed = [c for c in document["checks"] if not c["ok"]]
    assert document["checks"]
    assert not failed


@pytest.mark.parametrize("name", SHARED)
def test_no_sentinel_is_a_number(
    capsys: pytest.CaptureFixture[str], target: str, name: str
) -> None:
    document = read(capsys, target, shared(name))
    for reading in document["readings"]:
        assert (reading["value"] is None) == (reading["quality"] == "bad"), reading
        if reading["raw"] in ("-1", "4294967295", "65535", "65534", "655350", "", "NULL"):
            assert reading["value"] is None, reading
    assert values(document)


def test_what_the_agent_cannot_mean_shows(capsys: pytest.CaptureFixture[str], target: str) -> None:
    """This Huawei counts output power in kW against the standard: V x I shows it."""
    document = read(capsys, target, shared("huaweiups_ups2000"), "ups/rfc1628")
    failed = {c["check"]: c["detail"] for c in document["checks"] if not c["ok"]}
    assert "ups/huawei-ups2000" in failed.pop("the profile is for this device")
    assert set(failed) == {"active power within voltage x current"}
    tenths = read(capsys, target, shared("deltaups_rfc1628string"), "ups/rfc1628")
    voltage = next(
        r for r in tenths["readings"] if r["part"] == "output.1" and r["kind"] == "voltage"
    )
    assert (voltage["value"], voltage["quality"], voltage["flaw"]) == (
        2300.0,
        "suspect",
        "implausible",
    )
