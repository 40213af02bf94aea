"""kill -9 during flush, compaction and retention: what was acknowledged is there, once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT


def kill(url: str, spill: Path, kills: int, seed: int, timeout_s: float) -> dict[str, Any]:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "tests.facility.store.nursery"),
            *(url, str(spill), str(kills), str(seed)),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=timeout_s,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert sum(told["kinds"].values()) == kills
    assert set(told["kinds"]) == set("fcr"), "a flush, a compaction and a retention were hit"
    assert told["gone"] > 3, "retention never took anything: the test proved little"
    assert told["intents"] > kills / 4
    return told


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory where there is one: kill -9 takes no disk away, and fsync takes time."""
    shm = "/dev/shm"
    if not os.access(shm, os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=shm) as folder:
        yield Path(folder)


@pytest.mark.system
@pytest.mark.slow
def test_fifty_kills_lose_and_double_nothing_that_was_acknowledged(memory: Path) -> None:
    kill(f"sqlite:///{memory / 'hall.db'}", memory / "spill", 50, 20261130, 170)


@pytest.mark.system
@pytest.mark.slow
def test_kills_beside_postgresql_lose_and_double_nothing(postgres: str, memory: Path) -> None:
    kill(postgres, memory / "spill", 12, 5, 170)


@pytest.mark.soak
@pytest.mark.system
def test_a_thousand_kills_lose_and_double_nothing(memory: Path) -> None:
    for seed in range(10):
        folder = memory / str(seed)
        folder.mkdir()
        kill(f"sqlite:///{folder / 'hall.db'}", folder / "spill", 100, seed, 3600)


@pytest.mark.soak
@pytest.mark.system
def test_two_hundred_kills_beside_postgresql(postgres: str, memory: Path) -> None:
    kill(postgres, memory / "spill", 200, 77, 3600)
