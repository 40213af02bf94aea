"""`wattkeeper poll` on impersonated devices, and on what is none."""

from __future__ import annotations

import asyncio
import json
import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from api.commands.poll import poll, shown_amount
from drivers.capture import read_capture
from drivers.sim.serve_modbus import serve_modbus
from drivers.sim.serve_snmp import serve_snmp
from drivers.sim.source import Instruments
from facility.config import DeviceConfig
from facility.errors import ConfigError, Problem
from facility.points import PointId, PointSpec

pytestmark = [
    pytest.mark.system,
    pytest.mark.filterwarnings("ignore::DeprecationWarning:pysnmp"),
]

DEVICES = {
    "pdu": DeviceConfig(profile="pdu/apc-rpdu2", address="snmp://pdu:161"),
    "cdu": DeviceConfig(profile="cdu/wattkeeper-sim", address="modbus://cdu:502/2"),
}
PLANT = Instruments.of(
    "pdu", {"total:active_power": 4120.0, "phase.1:current": 6.2, "phase.1:voltage": 231.0}
)


@pytest.fixture(scope="module")
def addresses() -> Iterator[dict[str, str]]:
    """The devices above, served by a loop in a thread of its own: `poll` brings its own loop."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    async def start() -> list:
        return [await serve_snmp(PLANT, DEVICES), await serve_modbus(PLANT, DEVICES)]

    served = asyncio.run_coroutine_threadsafe(start(), loop).result(10.0)
    yield {**served[0], **served[1]}
    for each in served:
        loop.call_soon_threadsafe(each.close)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(10.0)
    loop.close()


def test_auto_knows_the_device_and_prints_one_document(
    addresses: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert poll("auto", addresses["pdu"], None, "public", True, None, True) == 0
    out = capsys.readouterr().out
    document = json.loads(out)
    assert out.count("\n") == 1
    assert document["profile"] == "pdu/apc-rpdu2"
    assert document["device"]["serial"] == "pdu"
    first = document["readings"][0]
    assert first == {
        "part": "total",
        "kind": "active_power",
        "value": 4120.0,
        "unit": "W",
        "quality": "good",
        "flaw": None,
        "raw": "412",
    }
    missing = next(r for r in document["readings"] if r["kind"] == "energy")
    assert (missing["value"], missing["quality"], missing["flaw"]) == (None, "bad", "sentinel")


def test_a_profile_that_another_device_is_for_is_a_failed_check(
    addresses: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert poll("pdu/eaton-epdu", addresses["pdu"], None, "public", True, None, True) == 1
    said = capsys.readouterr()
    assert "nothing that pdu/eaton-epdu reads" in said.out + said.err
    assert "pdu/apc-rpdu2" in said.out + said.err
    assert poll("pdu/hpe-mapdu", addresses["pdu"], None, "public", True, None, True) == 1
    checks = json.loads(capsys.readouterr().out)["checks"]
    assert any(c["check"] == "something can be read" and not c["ok"] for c in checks)
    strange = next(c for c in checks if c["check"] == "the profile is for this device")
    assert not strange["ok"]
    assert "pdu/apc-rpdu2" in strange["detail"]


def test_a_table_for_people(addresses: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert poll("cdu/wattkeeper-sim", addresses["cdu"], None, None, True, None, False) == 0
    out = capsys.readouterr().out
    assert "loop.secondary" in out
    assert "bad: sentinel" in out
    assert "running" in out


@pytest.mark.parametrize(
    ("kind", "value", "shown"),
    [
        ("humidity", 0.45, ("45", "%")),
        ("power_factor", 0.98, ("0.98", "")),
        ("state", 3.0, ("3", "")),
        ("requests_running", 7.0, ("7", "")),
        ("active_power", 4120.0, ("4120", "W")),
        ("level", None, ("-", "%")),
    ],
)
def test_units_for_people_were_1_and_code(
    kind: str, value: float | None, shown: tuple[str, str]
) -> None:
    spec = PointSpec(PointId("d", "total", kind), -1e9, 1e9, 5.0)
    assert shown_amount(spec, value) == shown


def test_a_modbus_device_is_the_same_to_the_second_opinion(
    addresses: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    seen = []
    for reader in ("own", "reference"):
        asked = ("cdu/wattkeeper-sim", addresses["cdu"], None, None, True, None, True, reader)
        assert poll(*asked) == 0
        seen.append(json.loads(capsys.readouterr().out)["readings"])
    assert seen[0] == seen[1]
    page = ("engine/vllm", "http://127.0.0.1:9/metrics", None, None, True, None, True, "reference")
    assert poll(*page) == 2
    assert "snmp and modbus" in capsys.readouterr().err


def test_a_recording_is_a_capture_without_names(addresses: dict[str, str], tmp_path: Path) -> None:
    path = tmp_path / "pdu.json"
    assert poll("auto", addresses["pdu"], None, "public", True, str(path), True) == 0
    capture = read_capture(path)
    assert capture.profile == "pdu/apc-rpdu2"
    assert capture.readings["total:active_power"] == 4120.0
    assert capture.identity == {"vendor": "APC", "model": "Simulated", "firmware": "1.0"}
    assert capture.claim is not None
    assert capture.claim.description == "MN:Simulated  PF:v1.0  SN: name1 "


@pytest.mark.parametrize("scheme", ["snmp", "modbus"])
def test_a_target_where_nobody_answers_is_a_clear_no(
    scheme: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        port = silent.getsockname()[1]
        profile = {"snmp": "auto", "modbus": "cdu/wattkeeper-sim"}[scheme]
        assert poll(profile, f"{scheme}://127.0.0.1:{port}", None, None, True, None, True) == 1
    captured = capsys.readouterr()
    assert json.loads(captured.out)["ok"] is False
    assert "does not answer" in captured.err


@pytest.mark.parametrize(
    ("profile", "target", "auth", "why"),
    [
        ("pdu/nothing", "snmp://127.0.0.1", None, "no profile"),
        ("auto", "modbus://127.0.0.1/1", None, "sysObjectID"),
        ("auto", "ftp://127.0.0.1", None, "is no snmp://"),
        ("auto", "http://127.0.0.1", None, "needs an snmp:// target"),
        ("auto", "snmp://", None, "is not snmp://host"),
        ("auto", "snmp://h:99999", None, "Port out of range"),
        ("cdu/orv3-rpu", "snmp://127.0.0.1", None, "speaks modbus"),
        ("cdu/orv3-rpu", "modbus://127.0.0.1/999", None, "no Modbus unit"),
        ("auto", "mqtt:hall/r01", None, "poll asks devices"),
        ("auto", "snmp://127.0.0.1", "NO_SUCH_VARIABLE", "is not set"),
    ],
)
def test_wrong_usage_says_what_is_wrong(
    profile: str, target: str, auth: str | None, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert poll(profile, target, auth, None, True, None, False) == 2
    assert why in capsys.readouterr().err


def test_the_community_comes_from_the_environment(
    addresses: dict[str, str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PDU_COMMUNITY", "s3cret")
    assert poll("auto", addresses["pdu"], "PDU_COMMUNITY", None, True, None, True) == 0
    captured = capsys.readouterr()
    assert "s3cret" not in captured.out + captured.err


def test_a_reader_that_is_not_installed_was_an_internal_error(
    addresses: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delitem(sys.modules, "drivers.modbus.reference", raising=False)
    monkeypatch.setitem(sys.modules, "pymodbus", None)
    asked = ("cdu/wattkeeper-sim", addresses["cdu"], None, None, True, None, False, "reference")
    assert poll(*asked) == 2
    assert "--reader reference needs the Python package pymodbus" in capsys.readouterr().err


def test_a_faulty_profile_was_an_internal_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def faulty() -> object:
        raise ConfigError([Problem("x.yaml", 3, 7, "points", "is missing")])

    monkeypatch.setattr("api.commands.poll.profiles", faulty)
    assert poll("pdu/x", "snmp://127.0.0.1:9", None, "public", True, None, False) == 2
    assert "x.yaml:3:7: points: is missing" in capsys.readouterr().err
