"""Deciding is pure: a recording gives the same decisions, here and in another process."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.scenarios.runs import demo


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recorded")
    path = folder / "run.jsonl"
    demo("feed-loss", 3, folder, seconds=45.0, record=path)
    return path


def replay(path: Path, root: Path) -> tuple[int, dict[str, object]]:
    done = subprocess.run(
        [sys.executable, "-m", "api.cli", "replay", str(path), "--json"],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, json.loads(done.stdout)


def test_in_another_process(recording: Path, root: Path) -> None:
    code, report = replay(recording, root)
    assert code == 0
    assert report["same"] is True
    assert int(str(report["cycles"])) > 40


def test_a_changed_reading_is_noticed(recording: Path, root: Path, tmp_path: Path) -> None:
    lines = recording.read_text("utf-8").splitlines()
    cycles = [i for i, line in enumerate(lines) if json.loads(line)["line"] == "cycle"]
    document = json.loads(lines[cycles[20]])
    document["decision"] = "0" * len(document["decision"])
    lines[cycles[20]] = json.dumps(document)
    damaged = tmp_path / "damaged.jsonl"
    damaged.write_text("\n".join(lines) + "\n", "utf-8")
    code, report = replay(damaged, root)
    assert code == 1
    assert report["same"] is False
