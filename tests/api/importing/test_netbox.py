from __future__ import annotations

import contextlib
import itertools
import json
import time
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from api.cli import app
from api.importing.netbox import client
from api.importing.netbox.client import NetBox, NetBoxError
from facility.loading import load
from tests.api.importing.fake_netbox import TOKEN, Instead, Rows, serving, site

FILE = """facility: 1
site: {name: Lab, timezone: UTC}
power:
  elements:
    utility: {kind: source}
    ups-a: {kind: ups, fed_by: [utility], rating: 90 kW}
    ups-b: {kind: ups, fed_by: [utility], rating: 90 kW}
"""
RULES = """import: 1
voltage_reference: {three-phase: ll}
draw: per_port
sides:
  - {panel: "PNL-A*", side: a}
  - {panel: "PNL-B*", side: b}
panels:
  PNL-A1: {fed_by: [ups-a], rating: 80 kW}
  PNL-B1: {fed_by: [ups-b]}
racks:
  "*": {overhead: 2 kW}
"""


class Site:
    """A facility file, rules, and a NetBox to import from."""

    def __init__(self, folder: Path) -> None:
        self.file, self.rules = folder / "hall.yaml", folder / "rules.yaml"
        self.file.write_text(FILE)
        self.rules.write_text(RULES)

    def run(
        self, rows: Rows, *words: str, token: str = TOKEN, **how: Any
    ) -> tuple[int, dict[str, Any]]:
        with serving(rows, **how) as url:
            arguments = ["import", "netbox", url, str(self.file), "--site", "lab", "--json"]
            arguments += ["--rules", str(self.rules), *words]
            result = CliRunner().invoke(app, arguments, env={"NETBOX_TOKEN": token})
        return result.exit_code, json.loads(result.stdout)

    def problems(self, rows: Rows, **how: Any) -> str:
        code, answer = self.run(rows, "--write", **how)
        assert code == 1
        assert self.file.read_text() == FILE
        return "\n".join(f"{p['path']}: {p['problem']} ({p['hint']})" for p in answer["problems"])


@pytest.fixture
def lab(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_racks_panels_feeds_and_ports_become_a_facility_file(lab: Site) -> None:
    code, answer = lab.run(site(), "--write")
    assert code == 0, answer
    power = load(str(lab.file)).power
    feed = power.elements["PNL-A1.F1"]
    assert (feed.kind, feed.fed_by, feed.continuous) == ("branch", ("PNL-A1",), 0.8)
    assert not isinstance(feed.rating, (str, tuple))
    assert (feed.rating.current, feed.rating.voltage_ll, feed.rating.phases) == (63.0, 415.0, 3)
    pdu = power.elements["pdu-r01-a"]
    assert (pdu.kind, pdu.fed_by, pdu.rating) == ("rack_pdu", ("PNL-A1.F1",), "40000 W")
    rack = power.racks["r01"]
    assert rack.feeds == {"a": "pdu-r01-a", "b": "pdu-r01-b"}
    assert (rack.rating, rack.overhead) == (18000.0, 2000.0)
    assert rack.phases is not None
    assert rack.phases["a"] == pytest.approx({"L1": 1 / 3, "L2": 1 / 3, "L3": 1 / 3}, abs=1e-3)
    assert power.elements["PNL-A1"].rating == "80 kW"
    assert any("power-panel 2 PNL-B1 has no rating" in note for note in answer["notes"])
    assert any("rack 4 r04 has no active feed" in note for note in answer["notes"])


def test_a_second_import_changes_nothing(lab: Site) -> None:
    with serving(site()) as url:
        words = ["import", "netbox", url, str(lab.file), "--site", "lab", "--rules", str(lab.rules)]
        one = CliRunner().invoke(app, [*words, "--write"], env={"NETBOX_TOKEN": TOKEN})
        before = lab.file.read_bytes()
        two = CliRunner().invoke(app, [*words, "--write"], env={"NETBOX_TOKEN": TOKEN})
    assert (one.exit_code, two.exit_code, two.stdout) == (0, 0, "")
    assert lab.file.read_bytes() == before


def test_a_side_that_no_rule_tells_is_asked_for(lab: Site) -> None:
    lab.rules.write_text(RULES.replace('  - {panel: "PNL-B*", side: b}\n', ""))
    said = lab.problems(site())
    assert "power-feed 2 PNL-B1 F1: is on a side that no rule tells" in said
    assert "PNL-A1" not in said


def test_a_side_can_stand_in_a_tag_or_a_custom_field(lab: Site) -> None:
    rules = RULES.replace('{panel: "PNL-A*", side: a}', "{tag: side-a, side: a}")
    lab.rules.write_text(
        rules.replace('{panel: "PNL-B*", side: b}', "{field: power_side, value: B, side: b}")
    )
    rows = site()
    for feed in rows["power-feeds"]:
        if feed["power_panel"]["name"] == "PNL-A1":
            feed["tags"] = [{"id": 9, "name": "Side A", "slug": "side-a"}]
        else:
            feed["custom_fields"] = {"power_side": {"value": "B", "label": "Side B"}}
    assert lab.run(rows, "--write")[0] == 0
    assert load(str(lab.file)).power.racks["r02"].feeds["b"] == "pdu-r02-b"


def test_line_to_line_or_to_neutral_is_asked_for(lab: Site) -> None:
    lab.rules.write_text(RULES.replace("voltage_reference: {three-phase: ll}\n", ""))
    assert "does not say whether its 415 V are line to line or to neutral" in lab.problems(site())


def test_what_feeds_a_panel_is_asked_for(lab: Site) -> None:
    lab.rules.write_text(RULES.replace("  PNL-B1: {fed_by: [ups-b]}\n", ""))
    said = lab.problems(site())
    assert "power-panel 2 PNL-B1: is fed by something that NetBox does not know" in said


def test_a_panel_on_an_unknown_element_is_refused(lab: Site) -> None:
    lab.rules.write_text(RULES.replace("ups-b", "ups-x"))
    assert "ups-x" in lab.problems(site())


def test_ports_of_one_device_are_not_counted_twice_by_guessing(lab: Site) -> None:
    lab.rules.write_text(RULES.replace("draw: per_port\n", ""))
    said = lab.problems(site())
    assert "holds r01-n1; do its 6 ports draw that each, or together?" in said
    lab.rules.write_text(RULES.replace("per_port", "per_device"))
    assert lab.run(site(), "--write")[0] == 0
    assert load(str(lab.file)).power.racks["r01"].rating == 3000.0


def test_an_unknown_draw_is_never_zero(lab: Site) -> None:
    rows = site()
    ports = [port for port in rows["power-ports"] if port["device"]["name"] == "r02-n1"]
    ports[0]["maximum_draw"] = None
    assert "rack 2 r02: holds r02-n1, of which not every port states" in lab.problems(rows)
    lab.rules.write_text(RULES.replace('"*": {', '"*": {rating: 20 kW, '))
    assert lab.run(rows, "--write")[0] == 0
    rack = load(str(lab.file)).power.racks["r02"]
    assert rack.rating == 20000.0
    assert rack.phases is None or "a" not in rack.phases


def test_a_feed_that_is_offline_makes_a_rack_single_fed(lab: Site) -> None:
    rows = site()
    rows["power-feeds"][1]["status"] = {"value": "offline", "label": "Offline"}
    code, answer = lab.run(rows, "--write")
    assert code == 0
    assert load(str(lab.file)).power.racks["r01"].feeds == {"a": "pdu-r01-a"}
    assert any("power-feed 2 PNL-B1 F1 is offline" in note for note in answer["notes"])


def test_several_cords_on_a_side_want_to_know_how_many_are_needed(lab: Site) -> None:
    rows = site()
    rows["power-feeds"][2] |= {"rack": rows["power-feeds"][0]["rack"], "connected_endpoints": None}
    rows["power-feeds"][2]["connected_endpoints_type"] = None
    assert "rack 1 r01: has 3 cords; how many it needs" in lab.problems(rows)
    lab.rules.write_text(RULES.replace('"*": {', '"*": {needs: 1, '))
    assert lab.run(rows, "--write")[0] == 0
    assert load(str(lab.file)).power.racks["r01"].feeds == {
        "a1": "pdu-r01-a",
        "a2": "PNL-A1.F2",
        "b": "pdu-r01-b",
    }


def test_a_feed_whose_cable_and_rack_disagree_is_refused(lab: Site) -> None:
    rows = site()
    rows["power-feeds"][0]["rack"] = rows["power-feeds"][2]["rack"]
    assert "power-feed 1 PNL-A1 F1: is at the racks r01 and r02" in lab.problems(rows)


def test_a_renamed_feed_is_told_and_followed(lab: Site) -> None:
    with serving(site()) as url:
        words = ["import", "netbox", url, str(lab.file), "--site", "lab", "--rules", str(lab.rules)]
        CliRunner().invoke(app, [*words, "--write"], env={"NETBOX_TOKEN": TOKEN})
    text = lab.file.read_text()
    instance = url.removeprefix("http://")
    rows = site()
    rows["power-feeds"][0]["name"] = "F1-new"
    with serving(rows) as other:
        lab.file.write_text(text.replace(instance, other.removeprefix("http://")))
        words[2] = other
        result = CliRunner().invoke(app, [*words, "--write"], env={"NETBOX_TOKEN": TOKEN})
    assert result.exit_code == 0
    assert "PNL-A1.F1 is now called PNL-A1.F1-new (power-feed 1)" in result.stderr
    assert load(str(lab.file)).power.elements["pdu-r01-a"].fed_by == ("PNL-A1.F1-new",)


def test_devices_that_the_rules_name_become_nodes(lab: Site) -> None:
    types = (
        "node_types:\n  h100x8: {gpus: 8, gpu: h100, min_cap: 200 W, max_cap: 700 W,"
        " curve: {tm: 1000 tok/s, c0: 120 W, k: 300 W, n: 4}}\n"
    )
    lab.file.write_text(FILE + types)
    lab.rules.write_text(RULES + "devices: {dgx-h100: h100x8}\n")
    code, answer = lab.run(site(), "--write")
    assert code == 0, answer
    assert load(str(lab.file)).nodes["r03-n1"].rack == "r03"


def test_a_wrong_token_is_named(lab: Site) -> None:
    code, answer = lab.run(site(), token="nbt_no.no")
    assert code == 1
    assert "refuses the token (403)" in answer["problems"][0]["problem"]


def raw(status: int, body: bytes, **headers: str) -> Instead:
    def answer(handler: BaseHTTPRequestHandler) -> bool:
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)
        return True

    return answer


@pytest.mark.parametrize(
    ("instead", "said"),
    [
        (raw(200, b"<html>Log in</html>"), "answers no JSON"),
        (raw(200, b"[" * 100_000), "answers no JSON"),
        (raw(200, b'{"results": {}}'), "answers no list of results"),
        (raw(200, b'{"results": [], "next": 7}'), "the next page is 7"),
        (raw(503, b"busy"), "answers 503"),
        (
            raw(302, b"", Location="https://other.example/x"),
            "sends on to 'https://other.example/x'",
        ),
    ],
)
def test_what_is_no_netbox_is_named(lab: Site, instead: Instead, said: str) -> None:
    problem = lab.problems(site(), instead=instead)
    assert said in problem
    assert "power-panels" in problem
    assert TOKEN not in problem


def test_pages_that_never_end_are_given_up(lab: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "MAX_PAGES", 20)
    asked = itertools.count()

    def onward(handler: BaseHTTPRequestHandler) -> bool:
        following = json.dumps({"results": [], "next": f"http://x/?offset={next(asked)}"})
        return raw(200, following.encode())(handler)

    assert "the pages never end" in lab.problems(site(), instead=onward)
    assert "the pages never end" in lab.problems(
        site(), instead=raw(200, b'{"results": [], "next": "http://x/?offset=2"}')
    )


def test_an_answer_that_drips_or_grows_for_ever_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(client, "MAX_BYTES", 100_000)

    def endless(piece: bytes, pause_s: float) -> Instead:
        def answer(handler: BaseHTTPRequestHandler) -> bool:
            handler.send_response(200)
            handler.end_headers()
            with contextlib.suppress(OSError):
                while not handler.wfile.closed:
                    handler.wfile.write(piece)
                    time.sleep(pause_s)
            return True

        return answer

    for instead, said in (
        (endless(b" " * 10_000, 0.0), "more than 100000 bytes"),
        (endless(b" ", 0.01), "takes longer than 0.3 s"),
    ):
        with serving(site(), instead=instead) as url:
            netbox = NetBox(url, TOKEN, page_patience_s=0.3)
            with pytest.raises(NetBoxError, match=said):
                list(netbox.rows("racks", site="lab"))
            netbox.close()


def test_a_row_that_came_or_went_between_two_pages_is_not_missed(lab: Site) -> None:
    """Offsets shift when a row goes: the first of the next page was skipped without a word."""
    rows = site()
    short = json.dumps({"count": 6, "next": None, "results": rows["power-feeds"][:5]}).encode()

    def missing(handler: BaseHTTPRequestHandler) -> bool:
        return "power-feeds" in handler.path and raw(200, short)(handler)

    assert "counts 6 rows and gave 5" in lab.problems(rows, instead=missing)


def test_an_id_that_stands_for_two_things_is_refused(lab: Site) -> None:
    rows = site()
    rows["racks"][1]["id"] = 1
    assert "racks 1: came twice, and not the same" in lab.problems(rows)


def test_names_of_other_scripts_are_named_and_never_a_traceback(lab: Site) -> None:
    lab.rules.write_text(RULES + "devices: {dgx-h100: h100x8}\n")
    rows = site()
    rows["racks"][0]["name"] = "\u673a\u67dc"
    told = lab.problems(rows)
    assert "makes no name of 1 to 64 letters" in told
    rows["racks"][0]["name"] = "r02\u00e9"
    rows["racks"][2]["name"] = "r02\u00ea"
    assert "are both called r02" in lab.problems(rows)


def test_a_feed_at_a_rack_of_another_site_is_named(lab: Site) -> None:
    rows = site()
    rows["power-feeds"][0]["rack"] = {"id": 99, "name": "elsewhere"}
    assert "is at rack 99, which the site does not have" in lab.problems(rows)
    rows["power-feeds"][0]["connected_endpoints"] = None
    rows["power-feeds"][0]["connected_endpoints_type"] = None
    assert "is at rack 99, which the site does not have" in lab.problems(rows)


def test_a_panel_without_a_name_is_not_called_none(lab: Site) -> None:
    rows = site()
    rows["power-feeds"][0]["power_panel"] = {"id": 1}
    assert "name is None, not text" in lab.problems(rows)


def test_the_token_never_follows_a_page_to_another_host(lab: Site) -> None:
    assert lab.run(site(), next_host="127.0.0.1:1")[0] == 0


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("voltage", "415", "power-feeds 1: voltage is '415', not a whole number"),
        ("power_panel", None, "power-feeds 1: power_panel is None, not an object"),
        ("status", 7, "power-feeds 1: status is 7, not a choice"),
        ("connected_endpoints", "x", "connected_endpoints is 'x', not a list of objects"),
        ("voltage", 0, "power-feed 1 PNL-A1 F1: has 0 V"),
        ("max_utilization", 0, "may be used to 0 %"),
        ("phase", {"value": "two-phase"}, "has the phase 'two-phase'"),
    ],
)
def test_nonsense_from_netbox_names_the_row(
    lab: Site, field: str, value: object, said: str
) -> None:
    rows = site()
    rows["power-feeds"][0][field] = value
    assert said in lab.problems(rows)


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        ("import: 2\n", "rules.yaml:1:9: import"),
        ("import: 1\nside: a\n", "rules.yaml:2:"),
        ("import: 1\nsides: [{panel: x}]\n", "sides.0.side"),
    ],
)
def test_faults_of_the_rules_name_the_place(lab: Site, rules: str, said: str) -> None:
    lab.rules.write_text(rules)
    with serving(site()) as url:
        words = ["import", "netbox", url, str(lab.file), "--site", "lab", "--rules", str(lab.rules)]
        result = CliRunner().invoke(app, words, env={"NETBOX_TOKEN": TOKEN})
    assert result.exit_code == 1
    assert said in result.stderr
