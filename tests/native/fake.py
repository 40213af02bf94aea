"""Builds the fake libnvidia-ml.so.1 and holds the file in which its GPUs live."""

from __future__ import annotations

import mmap
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

SOURCE = Path(__file__).with_name("fake_nvml.c")
SLOTS = 16
#: struct gpu of fake_nvml.c: name -> (offset, format).
_NAMES = [
    "limit_mw", "min_mw", "max_mw", "default_mw", "board_mw", "power_mw", "temperature_c",
    "margin_k", "clock_mhz", "lost", "no_permission", "hang_ms", "no_limits", "writes",
]  # fmt: skip
FIELDS = {
    name: (48 + 4 * i, "i" if name == "margin_k" else "I") for i, name in enumerate(_NAMES)
} | {"energy_mj": (104, "Q"), "events": (112, "Q")}
SIZE = 120


def build(folder: Path, *flags: str) -> Path:
    """Compile the shim; returns the library."""
    gcc = shutil.which("gcc") or shutil.which("cc")
    if gcc is None:
        pytest.skip("gcc is not installed")
    folder.mkdir(parents=True, exist_ok=True)
    library = folder / "libnvidia-ml.so.1"
    subprocess.run(
        [gcc, "-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", *flags,
         "-Wl,-soname,libnvidia-ml.so.1", "-o", str(library), str(SOURCE)],
        check=True,
    )  # fmt: skip
    return library


class Rack:
    """The GPUs of the fake driver, as the tests see and move them."""

    def __init__(self, path: Path, *uuids: str) -> None:
        self.path = path
        path.write_bytes(b"\0" * SLOTS * SIZE)
        self._file = path.open("r+b")
        self._map = mmap.mmap(self._file.fileno(), SLOTS * SIZE)
        for slot, uuid in enumerate(uuids):
            self._map[slot * SIZE : slot * SIZE + 48] = uuid.encode().ljust(48, b"\0")
            self.put(
                slot, limit_mw=700_000, min_mw=200_000, max_mw=700_000, default_mw=700_000,
                power_mw=510_250, temperature_c=61, margin_k=26, clock_mhz=1755,
                energy_mj=7_200_000, events=4,
            )  # fmt: skip

    def put(self, slot: int, **values: int) -> None:
        for name, value in values.items():
            offset, form = FIELDS[name]
            struct.pack_into(f"={form}", self._map, slot * SIZE + offset, value)

    def get(self, slot: int, name: str) -> int:
        offset, form = FIELDS[name]
        return int(struct.unpack_from(f"={form}", self._map, slot * SIZE + offset)[0])

    def limits_w(self, count: int = 2) -> list[float]:
        return [self.get(slot, "limit_mw") / 1000.0 for slot in range(count)]

    def swap(self, a: int, b: int) -> None:
        """Number two GPUs the other way round, as a reload of the driver may."""
        one, two = (self._map[s * SIZE : (s + 1) * SIZE] for s in (a, b))
        self._map[a * SIZE : (a + 1) * SIZE], self._map[b * SIZE : (b + 1) * SIZE] = two, one
