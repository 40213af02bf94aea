"""`headroom` and `allocate` as a person or a script runs them on a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from api.commands.studies import allocate, headroom

FILE = """
facility: 1
site: {name: Small, timezone: UTC}
power:
  elements:
    u-a: {kind: source}
    u-b: {kind: source}
    ups-a: {kind: ups, fed_by: [u-a], rating: [50 kVA, 40 kW], autonomy: 300 s}
    ups-b: {kind: ups, fed_by: [u-b], rating: 38 kW, autonomy: 300 s}
  racks:
    r01: {feeds: {a: ups-a, b: ups-b}, rating: 20 kW, overhead: 1 kW}
    r02: {feeds: {a: ups-a, b: ups-b}, rating: 16 kW, overhead: 1 kW}
  loads:
    cdu-1: {feeds: {a: ups-a, b: ups-b}, rating: 2 kW}
nodes:
  n1: {rack: r01, gpus: 8, gpu: h100, min_cap: 200 W, max_cap: 700 W,
       curve: {tm: 1000 tok/s, c0: 120 W, k: 300 W, n: 4}}
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "facility.yaml"
    path.write_text(FILE)
    return str(path)


def loads(tmp_path: Path, text: str) -> str:
    path = tmp_path / "loads.json"
    path.write_text(text)
    return str(path)


def document(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_headroom_counts_at_ratings_what_is_not_named(
    file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert headroom(file, None, [], json=True) == 0
    found = document(capsys)
    assert found["ok"] is True
    assert found["cases"] == 5
    # 20 + 16 + 2 kW all on the 38 kW unit: exactly at its limit, which is no violation.
    assert found["binding"] == {
        "element": "ups-b", "case": "loss of ups-a", "headroom_w": 0.0,
    }  # fmt: skip
    assert found["racks"][0]["headroom_w"] == 0.0


def test_headroom_says_no_by_its_exit_code(
    file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = loads(tmp_path, '{"racks": {"r01": {"load_w": 21000, "split": {"a": 0.7, "b": 0.3}}}}')
    assert headroom(file, given, [], json=True) == 1
    found = document(capsys)
    assert found["ok"] is False
    assert found["binding"]["headroom_w"] == pytest.approx(-1000.0)
    assert found["elements"][2]["normal_w"] == pytest.approx(0.7 * 21000 + 9000)


def test_a_failed_element_is_maintenance(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert headroom(file, None, ["ups-a"], json=True) == 0
    found = document(capsys)
    assert found["cases"] == 4
    assert found["racks"][0]["down_in"] == ["loss of ups-b"]
    assert headroom(file, None, ["ups-c"], json=True) == 2
    assert "ups-c: no such element" in capsys.readouterr().err


def test_a_name_in_capitals_from_the_top_line_is_the_element(
    file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert headroom(file, None, ["UPS-A", "Ups-A"], json=True) == 0
    assert document(capsys)["cases"] == 4
    assert headroom(file, None, ["UPS-AA"], json=True) == 2
    assert "UPS-AA: no such element (did you mean ups-a?)" in capsys.readouterr().err


def test_allocate_adds_the_plan_to_headroom_at_its_caps(
    file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert allocate(file, None, [], "throughput", json=True) == 0
    found = document(capsys)
    assert found["feasible"] is True
    assert found["missing"] is None
    (node,) = found["nodes"]
    assert node["cap_w"] == 700.0
    assert found["racks"][0]["load_w"] == pytest.approx(1000 + 1.05 * 8 * 700 / 0.96)
    assert found["racks"][1]["load_w"] == 16000.0
    assert found["ok"] is True
    assert found["seconds"] >= 0.0


def test_a_rack_with_nodes_takes_only_its_split_from_the_loads(
    file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = loads(
        tmp_path,
        '{"racks": {"r01": {"load_w": 1, "split": {"a": 1}}, "r02": {"load_w": 35000}}}',
    )
    assert allocate(file, given, [], "throughput", json=True) == 1
    found = document(capsys)
    assert found["feasible"] is False
    assert found["missing"]["element"] == "ups-b"
    assert found["missing"]["kw"] == pytest.approx(
        (1000 + 1.05 * 8 * 200 / 0.96 + 37000) / 1e3 - 38
    )
    assert found["nodes"][0]["cap_w"] == 200.0
    normal = found["elements"][2]["normal_w"]
    assert normal == pytest.approx(1000 + 1.05 * 8 * 200 / 0.96 + 17500 + 1000)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "loads.json:1:2"),
        ('{"racks": {"r09": {"load_w": 1}}}', "no rack 'r09' (did you mean r0"),
        ('{"racks": {"r01": {"load_w": NaN}}}', "NaN is no number"),
        ('{"racks": {"r01": {"load_w": 1e999}}}', "no number of at least 0 W"),
        ('{"racks": {"r01": {"load_w": -5}}}', "no number of at least 0 W"),
        ('{"racks": {"r01": {"load_w": true}}}', "no number of at least 0 W"),
        ('{"racks": {"r01": {"load_w": "5 kW"}}}', "no number of at least 0 W"),
        ('{"racks": {"r01": {"watts": 5}}}', "unknown key 'watts'"),
        ('{"racks": {"r01": {"split": {"c": 1}}}}', "no feed 'c'"),
        ('{"racks": {"r01": {"split": {"a": -1}}}}', "at least zero"),
        ('{"racks": {"r01": {"phases": {"a": {"L1": 0.2}}}}}', "the shares make 0.2, not 1"),
        ('{"racks": {"r01": {"load_w": 1}, "r01": {"load_w": 2}}}', "stands twice"),
        ('{"rack": {}}', "unknown key 'rack'"),
        ('{"loads": {"r01": {"load_w": 1}}}', "no load 'r01'"),
        ("[]", "not an object"),
    ],
)
def test_a_wrong_loads_file_is_refused_by_name(
    file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, said: str
) -> None:
    assert headroom(file, loads(tmp_path, text), [], json=True) == 1
    printed = capsys.readouterr()
    assert said in printed.err
    assert json.loads(printed.out)["ok"] is False


def test_a_wrong_facility_file_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(FILE.replace("fed_by: [u-b]", "fed_by: [u-c]"))
    assert allocate(str(path), None, [], "efficiency", json=True) == 1
    printed = capsys.readouterr()
    assert "no element or group 'u-c'" in printed.err
    assert "bad.yaml:" in printed.err
    assert json.loads(printed.out)["ok"] is False
    assert headroom(str(path), str(tmp_path / "none.json"), [], json=True) == 1


def test_people_get_tables(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert headroom(file, None, [], json=False) == 0
    text = capsys.readouterr().out
    assert text.startswith("Any single loss is survivable. Tightest: UPS-B if UPS-A fails")
    assert allocate(file, None, [], "efficiency", json=False) == 0
    text = capsys.readouterr().out
    assert "A plan fits (policy efficiency)" in text
    assert "most tokens per watt of r01" in text
