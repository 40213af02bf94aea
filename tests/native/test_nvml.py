"""drivers/nvml.py against a driver that can be made to fail in each of NVML's ways."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from drivers.agent.gpu import LimitAnswer
from drivers.nvml import Nvml
from facility.clock import SystemClock
from tests.native.fake import Rack

pytestmark = pytest.mark.system


async def opened(**deadlines: float) -> Nvml:
    nvml = Nvml(**deadlines)
    assert len(await nvml.boards()) == 2
    return nvml


async def test_everything_is_read_in_canonical_units(loaded: Rack) -> None:
    nvml = Nvml()
    boards = await nvml.boards()
    assert [(b.index, b.uuid, b.min_w, b.max_w, b.default_w) for b in boards] == [
        (0, "GPU-aaaa", 200.0, 700.0, 700.0),
        (1, "GPU-bbbb", 200.0, 700.0, 700.0),
    ]
    read = await nvml.read("GPU-bbbb")
    assert read.fault is None
    assert (read.power_w, read.limit_w, read.enforced_w) == (510.25, 700.0, 700.0)
    assert read.energy_wh == 2.0
    assert (read.temperature_c, read.margin_k) == (61.0, 26.0)
    assert read.clock_hz == 1.755e9
    assert read.events == 4
    await nvml.close()


async def test_a_limit_is_set_and_read_back(loaded: Rack) -> None:
    nvml = await opened()
    assert await nvml.set_limit("GPU-bbbb", 412.5) == LimitAnswer(412.5, 412.5)
    assert loaded.limits_w() == [700.0, 412.5]


async def test_another_limiter_shows_in_what_is_enforced(loaded: Rack) -> None:
    nvml = await opened()
    loaded.put(0, board_mw=300_000)
    assert await nvml.set_limit("GPU-aaaa", 500.0) == LimitAnswer(500.0, 300.0)


async def test_without_permission_the_limit_in_force_is_told(loaded: Rack) -> None:
    nvml = await opened()
    loaded.put(0, no_permission=1)
    assert await nvml.set_limit("GPU-aaaa", 400.0) == LimitAnswer(700.0, 700.0, "no_permission")


async def test_out_of_range_is_refused_by_the_board(loaded: Rack) -> None:
    nvml = await opened()
    assert (await nvml.set_limit("GPU-aaaa", 100.0)).fault == "out_of_range"
    assert loaded.limits_w()[0] == 700.0


async def test_a_lost_gpu_is_a_fault_and_the_other_goes_on(loaded: Rack) -> None:
    nvml = await opened()
    loaded.put(0, lost=1)
    assert (await nvml.read("GPU-aaaa")).fault == "gpu_lost"
    assert (await nvml.set_limit("GPU-aaaa", 400.0)).fault == "gpu_lost"
    assert (await nvml.read("GPU-bbbb")).power_w == 510.25
    assert [board.uuid for board in await nvml.boards()] == ["GPU-bbbb"]


async def test_a_board_without_limits_reads_none_never_zero(loaded: Rack) -> None:
    nvml = await opened()
    loaded.put(0, no_limits=1)
    read = await nvml.read("GPU-aaaa")
    assert (read.limit_w, read.power_w, read.energy_wh, read.fault) == (None, None, None, None)
    assert read.temperature_c == 61.0
    assert (await nvml.set_limit("GPU-aaaa", 400.0)).fault == "not_supported"


async def test_a_gpu_is_found_by_uuid_when_indexes_move(loaded: Rack) -> None:
    nvml = await opened()
    loaded.swap(0, 1)
    await nvml.set_limit("GPU-aaaa", 333.0)
    assert loaded.limits_w() == [700.0, 333.0]


async def test_a_hung_gpu_blocks_neither_the_others_nor_itself_later(loaded: Rack) -> None:
    nvml = await opened(read_s=0.1, write_s=0.1)
    clock = SystemClock()
    loaded.put(0, hang_ms=150)
    began_s = clock.monotonic_s()
    assert (await nvml.read("GPU-aaaa")).fault == "timeout"
    # The hung call is still out there: the next is not even begun, so no write comes late.
    assert (await nvml.set_limit("GPU-aaaa", 400.0)).fault == "timeout"
    assert (await nvml.read("GPU-bbbb")).fault is None
    assert clock.monotonic_s() - began_s < 0.6
    loaded.put(0, hang_ms=0)
    for _ in range(100):
        if (await nvml.read("GPU-aaaa")).fault is None:
            break
        await asyncio.sleep(0.02)
    else:
        pytest.fail("the GPU never came back")
    assert loaded.get(0, "writes") == 0


async def test_without_a_driver_there_are_no_boards(
    loaded: Rack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_NVML", "/nonexistent")
    assert await Nvml().boards() == ()


PROBE = """
import asyncio, json
from drivers.nvml import Nvml
async def main():
    nvml = Nvml()
    boards = await nvml.boards()
    read = await nvml.read(boards[0].uuid) if boards else None
    print(json.dumps([len(boards), read and read.margin_k, read and read.temperature_c,
                      read and read.fault]))
asyncio.run(main())
"""


def probe(root: Path, **env: str) -> list[object]:
    found = subprocess.run(
        [sys.executable, "-c", PROBE],
        env=os.environ | {"PYTHONPATH": str(root)} | env,
        capture_output=True,
        check=True,
        timeout=60,
    )
    answer = json.loads(found.stdout)
    assert isinstance(answer, list)
    return answer


def test_a_driver_without_newer_calls_degrades(root: Path, old_driver: Path, rack: Rack) -> None:
    found = probe(root, LD_LIBRARY_PATH=str(old_driver.parent), FAKE_NVML=str(rack.path))
    assert found == [2, None, 61.0, None]


def test_a_machine_without_the_library_has_no_boards(root: Path, tmp_path: Path) -> None:
    (tmp_path / "libnvidia-ml.so.1").write_bytes(b"no library")
    assert probe(root, LD_LIBRARY_PATH=str(tmp_path)) == [0, None, None, None]
