"""The cap in force is the greatest that a node may be running at."""

from __future__ import annotations

import numpy as np
import pytest

from controllers.gpu_caps import CapForce, CapMemory, caps_in_force
from controllers.gpu_caps.force import remember_sent
from facility.commands import Ack, Command, Outcome
from facility.points import Flaw
from tests.controllers.toy import Toy, site_of, small_hall


class Look:
    def __init__(self) -> None:
        self.site = site_of(small_hall())
        self.toy = Toy(self.site, cap_w=300.0)
        self.memory = CapMemory.empty(len(self.site.nodes))
        self.meter = False

    def at(self, *acks: Ack) -> CapForce:
        bounded = np.full(len(self.site.nodes), self.meter)
        force, self.memory = caps_in_force(
            self.site, self.toy.snapshot(), self.memory, acks, bounded
        )
        self.toy.advance()
        return force

    def send(self, watts: float) -> Command:
        point = self.site.cap_points[0]
        command = Command(point, watts, 1, 1, 0, 2.0, "test", watts > 300.0)
        self.memory = remember_sent(self.site, self.memory, [command], self.toy.now_s)
        return command


def test_a_node_never_heard_counts_at_the_boards_maximum() -> None:
    look = Look()
    look.toy.broken.add("r01-n1")
    force = look.at()
    assert force.in_force_w.tolist() == [700.0, 300.0, 300.0, 300.0]
    assert not force.answering[0]


def test_a_cap_sent_counts_until_a_later_read_back_disproves_it() -> None:
    look = Look()
    look.at()
    look.send(500.0)
    assert look.at().in_force_w[0] == 500.0
    for _ in range(4):
        force = look.at()
    assert force.in_force_w[0] == 300.0


def test_a_cap_sent_to_a_silent_node_counts_as_long_as_it_is_silent() -> None:
    look = Look()
    look.at()
    look.send(500.0)
    look.toy.broken.add("r01-n1")
    for _ in range(30):
        assert look.at().in_force_w[0] == 500.0


def test_a_lowering_counts_only_once_it_is_read_back() -> None:
    look = Look()
    look.at()
    look.send(250.0)
    assert look.at().in_force_w[0] == 300.0
    look.toy.caps["r01-n1"] = 250.0
    assert look.at().in_force_w[0] == 250.0


@pytest.mark.parametrize(("metered", "want"), [(False, 700.0), (True, 300.0)])
def test_a_node_silent_for_a_minute_may_have_rebooted_unless_its_meter_says_no(
    metered: bool, want: float
) -> None:
    look = Look()
    look.meter = metered
    look.at()
    look.toy.broken.add("r01-n1")
    for _ in range(60):
        assert look.at().in_force_w[0] == 300.0
    for _ in range(5):
        force = look.at()
    assert force.silent[0]
    assert force.in_force_w[0] == want


def test_the_highest_board_of_a_node_counts() -> None:
    look = Look()
    look.toy.changes["r01-n1:gpu.5:power_cap_enforced"] = 420.0
    assert look.at().in_force_w[0] == 420.0


def test_a_clamped_write_is_not_taken_for_somebody_elses() -> None:
    look = Look()
    look.at()
    command = look.send(500.0)
    look.toy.caps["r01-n1"] = 480.0
    force = look.at(Ack(command, Outcome.CLAMPED, 480.0, "board", 0))
    for _ in range(6):
        force = look.at()
    assert not force.foreign.any()
    look.toy.caps["r01-n1"] = 333.0
    assert look.at().foreign.tolist() == [True, False, False, False]


def test_a_cap_whose_answer_was_lost_was_taken_for_somebody_elses() -> None:
    look = Look()
    look.at()
    look.at(Ack(look.send(300.0), Outcome.APPLIED, 300.0, "", 0))
    for _ in range(5):
        look.at()
    command = look.send(500.0)
    look.at(Ack(command, Outcome.UNANSWERED, None, "no ack", 0))
    look.toy.caps["r01-n1"] = 500.0
    for _ in range(8):
        assert not look.at().foreign.any()


def test_a_reverted_cap_was_never_told_where_a_lowering_was_on_its_way_already() -> None:
    look = Look()
    look.at()
    command = look.send(300.0)
    look.at(Ack(command, Outcome.APPLIED, 300.0, "", 0))
    for _ in range(5):
        look.at()
    look.send(250.0)
    assert not look.at().foreign.any()
    look.toy.caps["r01-n1"] = 700.0
    assert look.at().foreign.tolist() == [True, False, False, False]


def test_a_lowering_acknowledged_before_the_next_status_was_taken_for_somebody_elses() -> None:
    look = Look()
    look.at()
    look.at(Ack(look.send(500.0), Outcome.APPLIED, 500.0, "", 0))
    look.toy.caps["r01-n1"] = 500.0
    for _ in range(6):
        look.at()
    # Acknowledged at once; the newest status is still of before.
    assert not look.at(Ack(look.send(250.0), Outcome.APPLIED, 250.0, "", 0)).foreign.any()
    look.toy.caps["r01-n1"] = 250.0
    for _ in range(6):
        assert not look.at().foreign.any()


def test_a_board_that_shows_a_higher_cap_counts_while_another_board_is_mute() -> None:
    look = Look()
    look.at()
    look.toy.changes["r01-n1:gpu.5:power_cap_enforced"] = 700.0
    look.toy.doubted.add("r01-n1:total:power_cap")
    force = look.at()
    assert not force.answering[0]
    assert force.in_force_w[0] == 700.0


def test_a_limit_that_its_device_calls_not_available_is_no_limit() -> None:
    """Case 11, the controller's part: 6553.5 kW was shown as a limit, and 0 W would be one."""
    look = Look()
    look.at()
    look.send(250.0)
    look.toy.caps["r01-n1"] = 250.0
    assert [look.at() for _ in range(6)][-1].in_force_w[0] == 250.0
    look.toy.changes["r01-n1:total:power_cap"] = None
    look.toy.flaws["r01-n1:total:power_cap"] = Flaw.SENTINEL
    look.send(200.0)
    for _ in range(10):
        force = look.at()
        assert not force.answering[0]
        assert force.in_force_w[0] == 250.0  # the lower one was sent, and nothing proves it
        assert not force.foreign.any()


def test_a_lower_cap_that_is_doubtful_disproves_nothing() -> None:
    look = Look()
    look.at()
    look.toy.caps["r01-n1"] = 250.0
    look.toy.doubted.add("r01-n1:total:power_cap")
    assert look.at().in_force_w[0] == 300.0
