"""The fake driver, built once; loaded before anything asks for the real one."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest

from tests.native.fake import Rack, build


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library of a present driver."""
    return build(tmp_path_factory.mktemp("nvml"))


@pytest.fixture(scope="session")
def old_driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library of a driver without margins."""
    return build(tmp_path_factory.mktemp("nvml-old"), "-DOLD_DRIVER")


@pytest.fixture
def rack(tmp_path: Path) -> Rack:
    """Two GPUs."""
    return Rack(tmp_path / "gpus", "GPU-aaaa", "GPU-bbbb")


@pytest.fixture
def loaded(driver: Path, rack: Rack, monkeypatch: pytest.MonkeyPatch) -> Rack:
    """Two GPUs behind the NVML of this very process: the loader finds a library by its soname."""
    monkeypatch.setenv("FAKE_NVML", str(rack.path))
    ctypes.CDLL(str(driver), ctypes.RTLD_GLOBAL)
    return rack
