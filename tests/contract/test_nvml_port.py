"""What every set of GPUs promises the agent: NVML over a fake driver, and the simulated plant."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from drivers.agent.gpu import NvmlPort
from drivers.nvml import Nvml
from drivers.sim.nvml import PlantNvml
from tests.drivers.sim.test_agents_and_sensors import Boards
from tests.native.fake import Rack, build


@dataclass
class Node:
    """A port over two GPUs of 200 to 700 W, and a way to see the limits behind it."""

    port: NvmlPort
    limits_w: Callable[[], list[float]]


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("nvml-port"))


@pytest.fixture(params=["nvml", "plant"])
def node(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    if request.param == "plant":
        plant = Boards()
        return Node(
            PlantNvml(plant, "n01", 2),
            lambda: [plant.gpu_reading("n01", i).limit_w for i in range(2)],
        )
    library: Path = request.getfixturevalue("library")
    rack = Rack(tmp_path / "gpus", "GPU-aaaa", "GPU-bbbb")
    monkeypatch.setenv("FAKE_NVML", str(rack.path))
    ctypes.CDLL(str(library), ctypes.RTLD_GLOBAL)
    return Node(Nvml(), rack.limits_w)


async def test_boards_are_listed_by_index_with_their_range(node: Node) -> None:
    boards = await node.port.boards()
    assert [board.index for board in boards] == [0, 1]
    assert len({board.uuid for board in boards}) == 2
    assert {(board.min_w, board.max_w, board.default_w) for board in boards} == {
        (200.0, 700.0, 700.0)
    }
    await node.port.close()


async def test_a_reading_has_the_limit_in_force_and_no_fault(node: Node) -> None:
    for board in await node.port.boards():
        read = await node.port.read(board.uuid)
        assert (read.limit_w, read.enforced_w, read.fault) == (700.0, 700.0, None)
        assert read.power_w is not None
        assert 0.0 < read.power_w <= 700.0
        assert read.clock_hz is not None
        assert read.clock_hz > 1e8  # Hz, not MHz


async def test_a_limit_moves_one_gpu_and_is_read_back(node: Node) -> None:
    boards = await node.port.boards()
    answer = await node.port.set_limit(boards[1].uuid, 412.5)
    assert (answer.limit_w, answer.enforced_w, answer.fault) == (412.5, 412.5, None)
    assert node.limits_w() == [700.0, 412.5]
    assert (await node.port.read(boards[1].uuid)).limit_w == 412.5


@pytest.mark.parametrize("watts", [0.0, 199.0, 701.0])
async def test_out_of_range_is_a_fault_and_moves_nothing(node: Node, watts: float) -> None:
    boards = await node.port.boards()
    answer = await node.port.set_limit(boards[0].uuid, watts)
    assert (answer.limit_w, answer.fault) == (700.0, "out_of_range")
    assert node.limits_w() == [700.0, 700.0]


async def test_a_gpu_that_is_not_here_is_lost_not_an_error(node: Node) -> None:
    await node.port.boards()
    assert (await node.port.read("GPU-nowhere")).fault == "gpu_lost"
    assert (await node.port.set_limit("GPU-nowhere", 400.0)).fault == "gpu_lost"
