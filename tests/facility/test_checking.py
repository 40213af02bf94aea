"""Meaning: what a file says must fit together; every fault is named, at its place, with a hint."""

from __future__ import annotations

from pathlib import Path

import pytest

from facility.checking import Known, Offers, check, examine
from facility.config import DeviceConfig
from facility.loading import load_text

PDU = frozenset({("total", "active_power")})
OFFERS: Offers = {
    "pdu/some": (PDU, frozenset()),
    "cdu/some": (PDU, frozenset({("loop.secondary", "supply_setpoint")})),
    "sensor/some": (frozenset({("inlet", "temperature")}), frozenset()),
}


class _Known:
    """Drivers that take any address but those of the web."""

    offers = OFFERS

    def device_fault(self, device: DeviceConfig) -> tuple[str, str] | None:
        return ("address", "is no address") if device.address.startswith("http") else None

    def clashes(self, devices: object) -> tuple[tuple[str, str, str], ...]:
        return ()

    def broker_fault(self, url: str, prefix: str) -> tuple[str, str] | None:
        return None if url.startswith("mqtt") else ("broker", "is no broker")


KNOWN: Known = _Known()

GOOD = """facility: 1
site: {name: Row, timezone: Europe/Berlin}
power:
  elements:
    grid: {kind: source}
    row-[a,b]: {kind: busway, fed_by: [grid], rating: {current: 250 A, voltage_ll: 415 V}}
  racks:
    r1: {feeds: {a: row-a, b: row-b}, rating: 30 kW}
  loads:
    pump: {feeds: {a: row-a, b: row-b}, rating: 4 kW}
nodes:
  n1: {rack: r1, gpus: 8, gpu: h100, min_cap: 200 W, max_cap: 700 W}
cooling:
  loops:
    loop-1:
      cdus: {cdu: pump}
      racks: {r1: 90 %}
      sensors: [inlet]
      design_flow: 100 L/min
      heat_capacity: 60 kW
devices:
  meter-[a,b]: {profile: pdu/some, address: "snmp://10.0.0.1", measures: {rack: r1, feed: "{1}"}}
  cdu: {profile: cdu/some, address: "modbus://10.0.0.2/1", measures: {loop: loop-1}}
  inlet: {profile: sensor/some, address: "mqtt:hall/inlet", measures: {rack: r1}}
control:
  enabled: true
  allow: [{points: "*:total:power_cap", by: me}]
host: {fed_by: [row-a, row-b]}
"""


def faults(text: str) -> list[tuple[str, str]]:
    return [(p.path, p.problem) for p in check(load_text(text), KNOWN)]


def test_a_sound_file_has_no_fault() -> None:
    assert faults(GOOD) == []


@pytest.mark.parametrize(
    ("old", "new", "path", "words"),
    [
        ("b: row-b}, rating: 30", "b: row-c}, rating: 30", "power.racks.r1.feeds.b", "row-c"),
        ("rack: r1, gpus", "rack: r9, gpus", "nodes.n1.rack", "no rack 'r9'"),
        ("min_cap: 200 W", "min_cap: 800 W", "nodes.n1.min_cap", "above max_cap"),
        (
            "max_cap: 700 W}",
            "max_cap: 700 W, floor_tokens: 9 tok/s}",
            "nodes.n1.floor_tokens",
            "needs a curve",
        ),
        (
            "max_cap: 700 W}",
            (
                "max_cap: 700 W, floor_tokens: 7900 tok/s,\n"
                "    curve: {tm: 1000 tok/s, c0: 120 W, k: 300 W, n: 4}}"
            ),
            "nodes.n1.floor_tokens",
            "no cap up to 700 W gives that",
        ),
        ("profile: pdu/some", "profile: pdu/sum", "devices.meter-a.profile", "no profile"),
        ("Europe/Berlin", "Europe/Berlim", "site.timezone", "no time zone"),
        ("cdus: {cdu: pump}", "cdus: {cdu: pumpe}", "cooling.loops.loop-1.cdus.cdu", "no load"),
        ("sensors: [inlet]", "sensors: [outlet]", "cooling.loops.loop-1.sensors.0", "no device"),
        ("meter-[a,b]", "meter-[a]", "power.racks.r1.feeds.b", "no device measures"),
        ("fed_by: [row-a, row-b]", "fed_by: [row-a]", "host.fed_by", "one side only"),
        ('address: "snmp://10.0.0.1"', 'address: "http://x"', "devices.meter-a.address", "is no"),
        (
            "measures: {loop: loop-1}",
            "measures: {loop: l2}",
            "devices.cdu.measures.loop",
            "no loop",
        ),
    ],
)
def test_a_fault_of_meaning_is_named_at_its_place(
    old: str, new: str, path: str, words: str
) -> None:
    assert old in GOOD
    found = faults(GOOD.replace(old, new, 1))
    assert [p for p, problem in found if words in problem] == [path]


def test_faults_of_shape_and_of_meaning_are_listed_together(tmp_path: Path) -> None:
    file = tmp_path / "row.yaml"
    text = GOOD.replace("name: Row", "name: Row, nmae: x").replace("b: row-b}", "b: row-c}", 1)
    file.write_text(text, "utf-8")
    loaded, problems = examine(str(file), KNOWN)
    assert loaded is None
    assert {p.path for p in problems} >= {"site.nmae", "power.racks.r1.feeds.b"}
    assert all(p.line > 0 and p.column > 0 for p in problems)


def test_what_a_faulty_part_hides_is_not_blamed_on_others(tmp_path: Path) -> None:
    file = tmp_path / "row.yaml"
    file.write_text(GOOD.replace("r1: {feeds", "r1: {feds", 1), "utf-8")
    _, problems = examine(str(file), KNOWN)
    assert {p.path for p in problems} == {"power.racks.r1.feds", "power.racks.r1.feeds"}


def test_a_study_needs_no_devices() -> None:
    text = GOOD[: GOOD.index("cooling:")]
    assert check(load_text(text)) == []


def test_a_file_without_devices_is_a_study() -> None:
    text = GOOD[: GOOD.index("cooling:")]
    assert faults(text) == []


def test_serving_needs_devices_and_meters() -> None:
    only_one = GOOD.replace("meter-[a,b]", "meter-[a]")
    assert any("no device measures" in problem for _, problem in faults(only_one))


@pytest.mark.parametrize(
    ("old", "new", "path"),
    [
        ("loop: loop-1}", "rack: r1, feed: c}", "devices.cdu.measures.feed"),
        ("loop: loop-1}", "loop: loop-1, feed: a}", "devices.cdu.measures.feed"),
        ("heat_capacity: 60 kW", "heat_capacity: 0 kW", "cooling.loops.loop-1.heat_capacity"),
        ("racks: {r1: 90 %}", "racks: {r1: 101 %}", "cooling.loops.loop-1.racks.r1"),
        ("min_cap: 200 W, max_cap: 700 W", "min_cap: 0 W, max_cap: 0 W", "nodes.n1.max_cap"),
        ("host:", "agents: {broker: 'http://x'}\nhost:", "agents.broker"),
        ("host:", "agents: {auth: nobody}\nhost:", "agents.auth"),
        ("host:", "store: {url: 'postgresql://h/d', auth: nobody}\nhost:", "store.auth"),
        ("host:", "store: {url: 'postgresql://[h/d'}\nhost:", "store.url"),
        (
            "host:",
            "alerts: {webhooks: {w: {url: 'http://[h', secret: {env: X}}}}\nhost:",
            "alerts.webhooks.w.url",
        ),
    ],
)
def test_what_would_end_the_service_at_its_start_is_a_fault_of_the_file(
    old: str, new: str, path: str
) -> None:
    assert old in GOOD
    assert [p for p, _ in faults(GOOD.replace(old, new, 1))] == [path]


def test_a_simulation_stands_in_for_what_a_file_leaves_out_but_not_for_what_it_says_wrongly(
    tmp_path: Path,
) -> None:
    file = tmp_path / "f.yaml"
    left_out = GOOD.replace("meter-[a,b]", "meter-[a]").replace("sensors: [inlet]", "sensors: []")
    file.write_text(left_out.replace("host:", "#").replace("cdus: {cdu:", "cdus: {other:"), "utf-8")
    assert examine(str(file), KNOWN, simulated=True)[1] == []
    assert len(examine(str(file), KNOWN)[1]) == 4
    file.write_text(GOOD.replace("pdu/some", "pdu/none"), "utf-8")
    found = [p.problem for p in examine(str(file), KNOWN, simulated=True)[1]]
    assert found == ["no profile 'pdu/none'"]
