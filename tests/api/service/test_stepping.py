"""A simulation moves the calendar of the controller, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from api.service.stepping import SteppedClock, write_step
from facility.clock import SystemClock

DAY_MS = 86_400_000


def test_only_the_calendar_steps(tmp_path: Path) -> None:
    path, right = tmp_path / "clock", SystemClock()
    clock = SteppedClock(path)
    assert abs(clock.utc_ms() - right.utc_ms()) < 60_000
    write_step(path, -DAY_MS)
    clock.look()
    assert abs(clock.utc_ms() - right.utc_ms() + DAY_MS) < 60_000
    assert abs(clock.monotonic_s() - right.monotonic_s()) < 60.0
    write_step(path, 0)
    clock.look()
    assert abs(clock.utc_ms() - right.utc_ms()) < 60_000


def test_a_controller_that_starts_meanwhile_has_the_wrong_time_too(tmp_path: Path) -> None:
    write_step(tmp_path / "clock", DAY_MS)
    clock = SteppedClock(tmp_path / "clock")
    assert abs(clock.utc_ms() - SystemClock().utc_ms() - DAY_MS) < 60_000


@pytest.mark.parametrize("text", ["", "soon", "1e9", "\u0661"])
def test_a_file_without_a_number_is_no_step(text: str, tmp_path: Path) -> None:
    path = tmp_path / "clock"
    path.write_text(text, "utf-8")
    assert abs(SteppedClock(path).utc_ms() - SystemClock().utc_ms()) < 60_000
