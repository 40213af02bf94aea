"""The last thing before the wire."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controllers.guard import Draft, StandingOrders, WriteLimits, authoriser, check, refusal
from facility.commands import Bounds, Mode
from facility.config import AllowWrites
from facility.points import PointId

CAP = PointId("n01", "total", "power_cap")
OTHER = PointId("n02", "total", "power_cap")
ALLOW = (AllowWrites(points="*:total:power_cap", by="kim"),)
LIMITS = {p: WriteLimits(Bounds(200.0, 700.0), 300.0) for p in (CAP, OTHER)}
ORDERS = StandingOrders(
    enabled=True,
    allow=ALLOW,
    mode_of=lambda point: Mode.AUTO,
    limits=LIMITS,
    epoch=7,
    last_epoch=7,
    journal_ok=True,
)
RAISE = Draft(CAP, 500.0, 400.0, True, "plan")
LOWER = Draft(CAP, 300.0, 400.0, False, "plan")


def test_a_good_write_passes_with_epoch_sequence_and_deadline() -> None:
    sent, withheld = check([RAISE], ORDERS, sequence=41, now_ms=5)
    assert withheld == ()
    (command,) = sent
    assert (command.sequence, command.epoch, command.issued_ms) == (42, 7, 5)
    assert command.deadline_s == 2.0


@pytest.mark.parametrize(
    ("orders", "draft", "why"),
    [
        (replace(ORDERS, enabled=False), LOWER, "not enabled"),
        (replace(ORDERS, mode_of=lambda p: Mode.OBSERVE), LOWER, "observe"),
        (replace(ORDERS, mode_of=lambda p: Mode.ADVISE), LOWER, "advise"),
        (replace(ORDERS, mode_of=lambda p: Mode.OFF), LOWER, "off"),
        (replace(ORDERS, allow=()), LOWER, "allow-list"),
        (ORDERS, replace(LOWER, value=math.nan), "not a number"),
        (ORDERS, replace(RAISE, value=math.inf), "not a number"),
        (ORDERS, replace(RAISE, value=701.0), "hard limits"),
        (ORDERS, replace(LOWER, value=199.0), "hard limits"),
        (ORDERS, replace(LOWER, value=200.0, present=600.0), "move of 400"),
        (replace(ORDERS, limits={}), LOWER, "no hard limits"),
        (replace(ORDERS, epoch=None), RAISE, "lease"),
        (replace(ORDERS, epoch=None, last_epoch=None), LOWER, "lease"),
        (replace(ORDERS, journal_ok=False), RAISE, "journal"),
        (ORDERS, replace(RAISE, data_good=False, doubt="pdu-1"), "pdu-1"),
    ],
)
def test_what_is_not_in_order_is_withheld_and_says_why(
    orders: StandingOrders, draft: Draft, why: str
) -> None:
    sent, withheld = check([draft], orders, sequence=0, now_ms=0)
    assert sent == ()
    assert why in withheld[0][2]


def test_without_a_lease_lowering_goes_on_under_the_last_epoch() -> None:
    sent, _ = check([LOWER], replace(ORDERS, epoch=None), sequence=0, now_ms=0)
    assert [c.epoch for c in sent] == [7]


def test_doubtful_data_and_a_dead_journal_never_stop_a_lowering() -> None:
    orders = replace(ORDERS, journal_ok=False)
    assert refusal(replace(LOWER, data_good=False), orders) is None


def test_lowerings_come_before_raises() -> None:
    up, down = replace(RAISE, point=CAP), replace(LOWER, point=OTHER)
    sent, _ = check([up, down], ORDERS, sequence=0, now_ms=0)
    assert [c.point for c in sent] == [OTHER, CAP]
    assert [c.sequence for c in sent] == [1, 2]


def test_the_allow_list_names_who_authorised() -> None:
    assert authoriser(CAP, ALLOW) == "kim"
    assert authoriser(PointId("n01", "gpu.0", "power_cap"), ALLOW) is None


@given(
    st.floats(allow_nan=True, allow_infinity=True),
    st.booleans(),
    st.booleans(),
    st.sampled_from([None, 3]),
)
def test_nothing_outside_the_hard_limits_ever_passes(
    value: float, raises: bool, good: bool, epoch: int | None
) -> None:
    draft = Draft(CAP, value, 400.0, raises, "any", good)
    sent, withheld = check([draft], replace(ORDERS, epoch=epoch), sequence=0, now_ms=0)
    assert len(sent) + len(withheld) == 1
    for command in sent:
        assert 200.0 <= command.value <= 700.0
        assert abs(command.value - 400.0) <= 300.0 + 1e-9
        assert not (command.raises and (epoch is None or not good))
