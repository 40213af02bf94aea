"""Frozen values: to the last digit, while what they are coupled with moves."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from drivers.profile.binding import bind
from facility.points import Flaw
from tests.drivers.physics.looks import Watched, shipped
from tests.drivers.physics.test_watching import APC, outlet
from tests.drivers.wires import profile_of


def swinging(t: float) -> float:
    """A load between 8 and 16 A, amperes."""
    return 12.0 + 4.0 * math.sin(t / 40.0)


def test_a_power_that_stands_while_its_current_moves_is_frozen_until_it_moves() -> None:
    box = Watched(shipped("pdu/apc-rpdu2", **APC))
    box.run(300.0, lambda t: outlet(swinging(t)))
    stuck = {"phase.1:active_power": 1800.0, "total:active_power": 1800.0}
    box.run(200.0, lambda t: outlet(swinging(t)) | stuck)
    assert Flaw.FROZEN not in box.doubted.values()  # a meter may average over minutes
    box.run(200.0, lambda t: outlet(swinging(t)) | stuck)
    assert box.doubted["phase.1:active_power"] is Flaw.FROZEN
    assert "phase.1:current" not in box.doubted
    doubt = next(d for d in box.physics.doubts if d.points == ("phase.1:active_power",))
    assert "stands at 1800 for" in doubt.detail
    box.run(20.0, lambda t: outlet(swinging(t)))
    assert Flaw.FROZEN not in box.doubted.values()


@pytest.mark.parametrize(
    "amperes",
    [
        lambda t: 12.0,
        lambda t: 0.0,
        lambda t: 0.1 * (t % 2.0 > 1.0),
        lambda t: 12.0 + 0.1 * (t % 2),
    ],
    ids=["steady", "off", "idle", "coarse"],
)
def test_a_steady_load_a_dead_outlet_and_coarse_steps_are_not_frozen(
    amperes: Callable[[float], float],
) -> None:
    box = Watched(shipped("pdu/apc-rpdu2", **APC))
    box.run(1800.0, lambda t: outlet(amperes(t)) | {"phase.1:voltage": 230.0 + round(t) % 3})
    assert not box.ever


def test_a_supply_temperature_that_ignores_its_set_point_is_frozen_and_a_held_one_is_not() -> None:
    box = Watched(shipped("cdu/wattkeeper-sim"))

    def held(t: float) -> dict[str, float]:
        return {
            "loop.secondary:supply_temperature": 30.0,
            "loop.secondary:return_temperature": 36.0 + math.sin(t / 50.0),
            "loop.secondary:supply_setpoint": 30.0,
        }

    box.run(2000.0, held)
    assert not box.ever
    box.run(900.0, lambda t: held(t) | {"loop.secondary:supply_setpoint": 32.0})
    assert box.doubted == {"loop.secondary:supply_temperature": Flaw.FROZEN}


def test_set_points_states_and_nameplates_are_never_called_frozen() -> None:
    box = Watched(shipped("cdu/wattkeeper-sim"))
    readings = {
        "loop.secondary:supply_setpoint": 30.0,
        "total:state": 1.0,
        "total:leak": 0.0,
        "pump.1:state": 1.0,
        "pump.1:speed": 0.5,
    }
    box.run(
        2000.0,
        lambda t: readings | {"loop.secondary:supply_temperature": 30.0 + math.sin(t / 30.0)},
    )
    assert not box.ever


def test_a_counter_ten_times_too_small_is_marked_and_its_power_is_not() -> None:
    points = [
        {"part": "total", "kind": kind, "at": {"modbus": {"address": at, "type": "u32"}}}
        for kind, at in (("active_power", 0), ("energy", 2))
    ]
    for scale, marked in ((1.0, {}), (0.1, {"total:energy": Flaw.INCONSISTENT})):
        box = Watched(bind(profile_of(*points), "d"))

        def counts(t: float, scale: float = scale) -> dict[str, float]:
            counted = float(int(1e6 + scale * 3000.0 * t / 3600.0))
            return {"total:active_power": 3000.0 + 1000.0 * math.sin(t), "total:energy": counted}

        box.run(3600.0, counts)
        assert box.doubted == marked
