"""The brokers of a facility file: which are used, with which login and trust."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
import yaml

from api.service.brokers import LEAST_SILENCE_S, brokers_of, silence_s
from api.service.overlay import Overlay
from api.service.secrets import SecretMissing
from api.service.trust import TlsUnusable
from drivers.known import DriverKnowledge
from facility.checking import check
from facility.clock import SystemClock
from facility.config import Agents, AuthConfig, Broker, DeviceConfig
from facility.loading import load_text
from tests.conftest import ROOT
from tests.drivers.mqtt.test_addresses import certificate

FILE = """
facility: 1
site: {{name: hall one, timezone: UTC}}
power:
  elements: {{src: {{kind: source, rating: 1 MW}}}}
  racks: {{r01: {{feeds: {{a: src}}, rating: 100 kW}}}}
devices:
  in-1: {{profile: sensor/json-mqtt, address: "mqtt:a/b", measures: {{rack: r01}}{device}}}
  r01: {{profile: dsx/rack, address: "dsx:R01", broker: bms, measures: {{rack: r01}}}}
brokers:
  bms: {{url: "{url}"{more}}}
  spare: {{url: "mqtt://spare"}}
auth:
  bms: {{kind: password, user: wk, secret: {{env: WK_TEST_BMS}}}}
"""


def text(url: str = "mqtt://bms", more: str = "", device: str = "") -> str:
    return FILE.format(url=url, more=more, device=device)


def faults(body: str) -> list[tuple[str, str]]:
    found = check(load_text(body), DriverKnowledge.shipped())
    return [(p.path, p.problem) for p in found if "broker" in p.path]


def test_each_broker_in_use_has_a_bus_with_its_own_login(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cert, key = certificate(tmp_path)
    files = f"ca_file: {cert}, cert_file: {cert}, key_file: {key}"
    more = f", auth: bms, client_id: wk-1, tls: {{{files}}}"
    facility = load_text(text("mqtts://bms", more)).facility
    clock, rng = SystemClock(), random.Random(1)
    with pytest.raises(SecretMissing):
        brokers_of(facility, None, clock, rng)
    monkeypatch.setenv("WK_TEST_BMS", "secret")
    found = brokers_of(facility, None, clock, rng)
    assert set(found.buses) == {None, "bms"}
    bus = found.buses["bms"]
    access = bus._access
    assert (access.host, access.port, access.user, access.password) == ("bms", 8883, "wk", "secret")
    assert access.tls is not None
    assert "secret" not in repr(access)
    assert bus._identifier == "wk-1"
    assert found.agents._access.user is None
    assert found.brokers["bms"].name == "broker bms"


@pytest.mark.parametrize("key", ["ca_file", "cert_file"])
@pytest.mark.parametrize("content", [None, "no certificate"])
def test_a_file_of_tls_that_is_no_good_is_named(
    tmp_path: Path, key: str, content: str | None
) -> None:
    path = tmp_path / "x.pem"
    if content is not None:
        path.write_text(content)
    facility = load_text(text("mqtts://bms", f", tls: {{{key}: {path}}}")).facility
    with pytest.raises(TlsUnusable, match=f"tls.{key}: .*x.pem"):
        brokers_of(facility, None, SystemClock(), random.Random(1))


def test_a_simulation_has_one_broker() -> None:
    overlay = Overlay(addresses={}, broker="mqtt://127.0.0.1:1", store="sqlite://")
    found = brokers_of(load_text(text()).facility, overlay, SystemClock(), random.Random(1))
    assert found.others == ()
    assert set(found.brokers) == {None, "bms", "spare"}


def test_silence_is_judged_by_who_ought_to_speak() -> None:
    facility = load_text(text()).facility
    assert silence_s(facility, None) == LEAST_SILENCE_S
    assert silence_s(facility, "bms") == 750.0  # values are repeated every 100 s only
    assert silence_s(facility, "spare") is None


@pytest.mark.parametrize(
    ("body", "path", "word"),
    [
        (text("http://bms"), "brokers.bms.url", "mqtt"),
        (text(more=", auth: nobody"), "brokers.bms.auth", "no auth 'nobody'"),
        (text(more=", tls: {ca_file: x}"), "brokers.bms.tls", "mqtts"),
        (text(device=", broker: bmx"), "devices.in-1.broker", "no broker 'bmx'"),
    ],
)
def test_what_is_wrong_with_a_broker_is_said_at_its_line(body: str, path: str, word: str) -> None:
    assert faults(text()) == []
    assert any(p == path and word in problem for p, problem in faults(body))


def test_the_example_of_the_operators_guide_is_a_facility_file() -> None:
    guide = (ROOT / "docs" / "operating.md").read_text("utf-8")
    section = guide.partition("## MQTT: brokers")[2].partition("\n## ")[0]
    (example,) = re.findall(r"```yaml\n(.*?)```", section, re.DOTALL)
    tree = yaml.safe_load(example)
    Agents.model_validate(tree["agents"])
    known = DriverKnowledge.shipped()
    for name, entry in tree["devices"].items():
        device = DeviceConfig.model_validate(entry)
        assert known.device_fault(device) is None, name
        if device.broker is not None:
            Broker.model_validate(tree["brokers"][device.broker])
    for entry in tree["auth"].values():
        AuthConfig.model_validate(entry)
