"""Each capture reads as it says, and each shipped profile that is asked has one."""

from __future__ import annotations

from pathlib import Path

import pytest

from drivers.capture import Capture, Replay, read_capture, reading_name, shown_reading
from drivers.catalog import profiles
from drivers.device import ProfiledDevice
from drivers.finding import recognise
from drivers.profile.binding import bind
from facility.clock import SystemClock
from tests.conftest import ROOT

FOLDER = ROOT / "tests" / "captures"
FILES = sorted(FOLDER.rglob("*.json"))


def device_of(capture: Capture) -> ProfiledDevice:
    binding = bind(profiles()[capture.profile], "d", found=capture.rows)
    return ProfiledDevice(binding, Replay(capture), SystemClock())


async def readings(capture: Capture) -> dict[str, float | str]:
    device = device_of(capture)
    seen: dict[str, float | str] = {}
    for layout in device.layouts:
        for spec, decoded in zip(layout.points, await device.look(layout), strict=True):
            seen[reading_name(spec)] = shown_reading(decoded)
    return seen


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.relative_to(FOLDER).as_posix())
async def test_a_capture_reads_as_it_says(path: Path) -> None:
    await reads_as_it_says(path)


async def reads_as_it_says(path: Path) -> None:
    capture = read_capture(path)
    seen = await readings(capture)
    assert capture.readings
    for name, expected in capture.readings.items():
        if isinstance(expected, str):
            assert seen[name] == expected, name
        else:
            assert seen[name] == pytest.approx(expected), name
    who = await device_of(capture).identify()
    for name, text in capture.identity.items():
        assert getattr(who, name) == text
    if capture.claim is not None:
        assert recognise(profiles().values(), capture.claim).profile == capture.profile


def test_every_profile_that_is_asked_has_a_capture() -> None:
    asked = {name for name, p in profiles().items() if p.protocol in ("modbus", "snmp")}
    assert asked <= {read_capture(path).profile for path in FILES}


def test_a_capture_survives_being_written(tmp_path: Path) -> None:
    for path in FILES:
        capture = read_capture(path)
        capture.write(tmp_path / "again.json")
        again = read_capture(tmp_path / "again.json")
        assert again == capture
