"""Deciding is pure: a recording gives the same decisions, here and in another process."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from facility.exact import decode_array, encode
from tests.scenarios.runs import demo


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recorded")
    path = folder / "run.jsonl"
    demo("feed-loss", 3, folder, seconds=45.0, record=path)
    return path


def replay(path: Path, root: Path, *more: str) -> tuple[int, dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, "-m", "api.cli", "replay", str(path), "--json", *more],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, json.loads(done.stdout)


def documents(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def written(path: Path, lines: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    return path


def test_in_another_process(recording: Path, root: Path) -> None:
    code, report = replay(recording, root)
    assert code == 0
    assert report["same"] is True
    assert report["cycles"] > 40


def test_a_changed_reading_is_noticed(recording: Path, root: Path, tmp_path: Path) -> None:
    lines = documents(recording)
    meter = next(
        number
        for number, layout in enumerate(lines[0]["layouts"])
        if any(tuple(p["id"])[1:] == ("total", "active_power") for p in layout["points"])
        and layout["device"].startswith("pdu-")
    )
    points = lines[0]["layouts"][meter]["points"]
    place = [tuple(point["id"])[1:] for point in points].index(("total", "active_power"))
    scans = [line for line in lines if line["line"] == "scan" and line["layout"] == meter]
    scan = scans[len(scans) // 2]
    values = decode_array(scan["values"]).copy()
    values[place] *= 1.25
    scan["values"] = encode(values)
    code, report = replay(written(tmp_path / "read.jsonl", lines), root)
    assert code == 1
    assert report["same"] is False
    assert report["cycles"] > 40
    # Nothing before the reading differs, the cycle that saw it does.
    before = lines[: lines.index(scan)]
    decided = max(line["inputs"]["cycle"] for line in before if line["line"] == "cycle")
    assert report["differences"][0]["cycle"] == decided + 1


def test_a_decision_that_is_not_the_recorded_one_is_noticed(
    recording: Path, root: Path, tmp_path: Path
) -> None:
    lines = documents(recording)
    cycle = [line for line in lines if line["line"] == "cycle"][20]
    cycle["decision"] = "0" * len(cycle["decision"])
    code, report = replay(written(tmp_path / "decided.jsonl", lines), root)
    assert code == 1
    assert report["same"] is False
    assert [d["cycle"] for d in report["differences"]] == [cycle["inputs"]["cycle"]]


def test_another_policy_shows_what_it_would_have_decided(
    recording: Path, root: Path, tmp_path: Path
) -> None:
    text = documents(recording)[0]["facility"]
    assert "policy: efficiency" in text
    other = tmp_path / "throughput.yaml"
    other.write_text(text.replace("policy: efficiency", "policy: throughput"), "utf-8")
    code, report = replay(recording, root, "--with", str(other))
    assert code == 1
    assert report["same"] is False
    assert report["differences"]
    same = tmp_path / "same.yaml"
    same.write_text(text, "utf-8")
    assert replay(recording, root, "--with", str(same))[0] == 0


def test_a_recording_of_another_version_is_refused_in_words(
    recording: Path, root: Path, tmp_path: Path
) -> None:
    lines = documents(recording)
    lines[0] |= {"version": "0.0.9", "shape": "0" * 32}
    memory = next(line for line in lines if line["line"] == "memory")
    memory["memory"]["a_field_of_old"] = 1
    code, report = replay(written(tmp_path / "old.jsonl", lines), root)
    assert code == 1
    words = report["problems"][0]["problem"]
    assert "recorded by another version of Wattkeeper (0.0.9" in words
    assert "TypeError" not in words
