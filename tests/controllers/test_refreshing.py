"""A device that forgets its set-point is written to at half its life, while the point stands."""

from __future__ import annotations

from itertools import pairwise

import pytest

from facility.commands import Mode
from tests.controllers import toy
from tests.controllers.rig import Hall

LIFE_S = 60.0
ARRIVED_C = 34.5


@pytest.fixture
def hall(monkeypatch: pytest.MonkeyPatch) -> Hall:
    """A hall whose supply temperature stands where it is wanted, and whose devices forget."""
    monkeypatch.setattr(toy, "SETPOINT_LIFE_S", LIFE_S)
    # Sites are made once for each text; this one is nobody else's.
    made = Hall(toy.Toy(toy.site_of(toy.small_hall() + "# devices that forget\n")))
    made.toy.setpoints = dict.fromkeys(made.toy.setpoints, ARRIVED_C)
    made.run(10)
    return made


def written(hall: Hall, since: int) -> dict[str, list[int]]:
    """CDU -> cycles (seconds) after `since` in which its set-point was written."""
    found: dict[str, list[int]] = {}
    for decision in hall.decisions:
        for command in decision.commands:
            if command.point.kind == "supply_setpoint" and decision.cycle > since:
                found.setdefault(command.point.device, []).append(decision.cycle)
    return found


def test_a_set_point_that_stands_is_written_again_at_half_its_life(hall: Hall) -> None:
    hall.run(300)
    assert set(hall.toy.setpoints.values()) == {ARRIVED_C}
    found = written(hall, since=0)
    assert set(found) == set(hall.toy.setpoints)
    for cycles in found.values():
        apart = [b - a for a, b in pairwise(cycles)]
        assert len(apart) >= 8
        assert all(0.5 * LIFE_S <= gap <= 0.5 * LIFE_S + 3.0 for gap in apart)
        assert cycles[0] <= 0.2 * LIFE_S, "the one before may have written half a life ago"


def test_who_lost_the_lease_lets_the_device_fall_back(hall: Hall) -> None:
    hall.epoch = None
    hall.run(90)
    assert not written(hall, since=11)


@pytest.mark.parametrize("mode", [Mode.OBSERVE, Mode.OFF])
def test_a_mode_that_writes_nothing_lets_the_device_fall_back(hall: Hall, mode: Mode) -> None:
    hall.modes = {"hall": mode}
    hall.run(90)
    assert not written(hall, since=11)


def test_a_set_point_that_somebody_else_moved_is_not_fought_for(hall: Hall) -> None:
    hall.run(40)
    theirs = {device: value - 2.0 for device, value in hall.toy.setpoints.items()}
    hall.toy.setpoints = dict(theirs)
    moved = hall.cycle
    hall.run(150)
    assert any(key.startswith("foreign_write") for key in hall.raised())
    assert hall.toy.setpoints == theirs
    assert not written(hall, since=moved)
