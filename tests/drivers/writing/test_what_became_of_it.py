"""Writes to a real Modbus server: the outcome is what the register says, not what was asked."""

from __future__ import annotations

from typing import Any

import pytest

from drivers.profile.binding import Binding
from facility.commands import Outcome
from tests.drivers.wires import binding_of
from tests.drivers.writing.registers import Register, asked, command, served

pytestmark = pytest.mark.system


def setpoint(**write: Any) -> Binding:
    bounds = {"min": "15 degC", "max": "60 degC", "step": "0.5 K", "settle": "50 ms"}
    return binding_of(
        {
            "part": "loop",
            "kind": "supply_setpoint",
            "at": {"modbus": {"address": 0, "type": "s16"}},
            "scale": 0.1,
            "write": bounds | write,
        }
    )


@pytest.mark.parametrize(
    ("mood", "outcome", "actual", "detail"),
    [
        ("obeys", Outcome.APPLIED, 50.0, "read back"),
        ("refuses", Outcome.REJECTED, 30.0, "exception 3"),
        ("ignores", Outcome.REJECTED, 30.0, "still 30"),
        ("clamps", Outcome.CLAMPED, 45.0, "asked 50, got 45"),
        ("dawdles", Outcome.APPLIED, 50.0, "read back"),
        ("never acks", Outcome.APPLIED, 50.0, "not acknowledged"),
    ],
)
async def test_a_rejected_or_ignored_write_is_not_reported_as_done(
    mood: str, outcome: Outcome, actual: float, detail: str
) -> None:
    """Case 17: solax-modbus#2199 and five more."""
    register = Register(mood)
    async with served(register) as port:
        box = asked(setpoint(), port)
        ack = await box.write(command(50.0))
        assert ack.outcome is outcome
        assert ack.actual == pytest.approx(actual)
        assert detail in ack.detail
        assert register.writes == 1
        await box.close()


async def test_an_acknowledgement_that_comes_after_the_timeout_repeats_no_write() -> None:
    """Case 18: a slow ack put two to four writes on the wire."""
    register = Register(ack_after_s=0.8)
    async with served(register) as port:
        box = asked(setpoint(), port)
        ack = await box.write(command(50.0, deadline_s=10.0))
        assert ack.outcome is Outcome.APPLIED
        assert ack.actual == pytest.approx(50.0)
        assert register.writes == 1
        await box.close()


@pytest.mark.parametrize(
    ("write", "deadline_s", "writes", "outcome"),
    [
        ({}, 10.0, 2, Outcome.APPLIED),
        ({"idempotent": False}, 10.0, 1, Outcome.UNANSWERED),
        ({}, 0.2, 1, Outcome.UNANSWERED),
    ],
)
async def test_a_lost_write_is_sent_again_only_when_twice_is_as_good_as_once(
    write: dict[str, Any], deadline_s: float, writes: int, outcome: Outcome
) -> None:
    """Case 18: solaredge-modbus-multi#1025 got no second try at all."""
    register = Register(loses=1)
    async with served(register) as port:
        box = asked(setpoint(**write), port)
        ack = await box.write(command(50.0, deadline_s=deadline_s))
        assert (ack.outcome, register.writes) == (outcome, writes)
        frames = [frame[0] for frame in register.frames]
        first = frames.index(6)
        # Never a second write before a read-back has shown that the first did not take.
        assert 6 not in frames[first + 1 : first + 2]
        await box.close()


async def test_a_write_that_is_lost_twice_stays_unanswered() -> None:
    register = Register(loses=9)
    async with served(register) as port:
        box = asked(setpoint(), port)
        ack = await box.write(command(50.0, deadline_s=10.0))
        assert ack.outcome is Outcome.UNANSWERED
        assert ack.actual == pytest.approx(30.0)
        assert register.writes == 2
        await box.close()
