"""Delays, folding, and one page per cause."""

from __future__ import annotations

from collections.abc import Mapping

from controllers.alarms import AlarmMemory, step
from controllers.base import Condition
from facility.commands import AlarmEvent, Severity

LOSS = Condition("element_lost", "pdu-b", Severity.CRITICAL, "lost", page=True, on_delay_s=0.0)
CHILD = Condition(
    "device_unreachable", "pdu-r01-b", Severity.WARNING, "mute", page=True, about=("r01/b",)
)
THIN = Condition("redundancy_lost", "ups-a1", Severity.CRITICAL, "thin", page=True)


class Board:
    def __init__(self) -> None:
        self.memory = AlarmMemory()
        self.now_s = 0.0

    def at(
        self, now_s: float, *conditions: Condition, dead: Mapping[str, str] | None = None
    ) -> list[AlarmEvent]:
        events, self.memory = step(
            self.memory,
            conditions,
            dead or {},
            now_s=now_s,
            now_ms=round(now_s * 1000),
            on_delay_s=3.0,
            off_delay_s=10.0,
        )
        return list(events)


def test_an_alarm_waits_for_its_on_delay_and_its_off_delay() -> None:
    board = Board()
    assert board.at(0.0, THIN) == []
    assert board.at(2.0, THIN) == []
    (raised,) = board.at(3.0, THIN)
    assert raised.active
    assert raised.page
    assert board.at(4.0) == []
    assert board.at(8.0, THIN) == []
    assert board.at(10.0) == []
    (cleared,) = board.at(20.0)
    assert not cleared.active
    assert not cleared.page
    assert board.memory.states == {}


def test_a_flicker_shorter_than_the_on_delay_is_no_alarm() -> None:
    board = Board()
    for second in range(0, 60, 2):
        assert board.at(float(second), *((THIN,) if second % 4 == 0 else ())) == []


def test_children_of_a_dead_element_are_folded_and_do_not_page() -> None:
    board = Board()
    dead = {"r01/b": "element_lost:pdu-b"}
    (loss,) = board.at(0.0, LOSS, CHILD, THIN, dead=dead)
    assert loss.page
    events = {e.key: e for e in board.at(3.0, LOSS, CHILD, THIN, dead=dead)}
    assert events["device_unreachable:pdu-r01-b"].parent == "element_lost:pdu-b"
    assert events["redundancy_lost:ups-a1"].parent == "element_lost:pdu-b"
    assert not any(e.page for e in events.values())


def test_without_a_cause_each_pages_once_and_only_once() -> None:
    board = Board()
    board.at(0.0, THIN)
    assert [e.page for e in board.at(3.0, THIN)] == [True]
    for second in range(4, 30):
        assert board.at(float(second), THIN) == []


def test_an_alarm_that_gets_worse_is_told_again() -> None:
    board = Board()
    wet = Condition("leak", "r01", Severity.WARNING, "one sensor")
    sure = Condition("leak", "r01", Severity.CRITICAL, "two sensors", page=True)
    board.at(0.0, wet)
    assert [e.page for e in board.at(3.0, wet)] == [False]
    (worse,) = board.at(4.0, sure)
    assert worse.severity is Severity.CRITICAL
    assert worse.page


def test_everything_behind_a_dead_broker_is_one_page() -> None:
    board = Board()
    broker = Condition("broker_unreachable", "broker", Severity.CRITICAL, "broker?", page=True)
    sensor = Condition(
        "device_unreachable", "air-1", Severity.WARNING, "mute", page=True, about=("broker",)
    )
    board.at(0.0, broker, sensor)
    events = board.at(3.0, broker, sensor)
    assert sum(e.page for e in events) == 1
    assert {e.parent for e in events if e.kind == "device_unreachable"} == {
        "broker_unreachable:broker"
    }


def test_of_two_conditions_with_one_key_the_more_severe_counts() -> None:
    board = Board()
    info = Condition("overload", "ups-a1", Severity.WARNING, "soft", on_delay_s=0.0)
    hard = Condition("overload", "ups-a1", Severity.CRITICAL, "hard", on_delay_s=0.0)
    (event,) = board.at(0.0, hard, info)
    assert event.severity is Severity.CRITICAL


GATEWAY = Condition("endpoint_unreachable", "gw:502", Severity.WARNING, "gateway mute")
METER = Condition("device_unreachable", "m1", Severity.WARNING, "mute", about=("r01/a", "gw:502"))


def test_a_device_told_before_its_gateway_is_folded_and_its_end_is_told() -> None:
    board = Board()
    board.at(0.0, METER)
    (first,) = board.at(3.0, METER)
    assert first.parent is None
    moved = board.at(4.0, METER, GATEWAY)
    assert [(e.key, e.active, e.parent) for e in moved] == [
        ("device_unreachable:m1", True, "endpoint_unreachable:gw:502")
    ]
    (gateway,) = board.at(7.0, METER, GATEWAY)
    assert gateway.key == "endpoint_unreachable:gw:502"
    board.at(8.0)
    ended = board.at(18.0)
    assert {(e.key, e.active, e.parent) for e in ended} == {
        ("device_unreachable:m1", False, None),
        ("endpoint_unreachable:gw:502", False, None),
    }


def test_what_stays_silent_when_its_gateway_is_back_is_told_at_last() -> None:
    board = Board()
    board.at(0.0, METER, GATEWAY)
    assert {e.parent for e in board.at(3.0, METER, GATEWAY) if e.subject == "m1"} == {
        "endpoint_unreachable:gw:502"
    }
    told: list[AlarmEvent] = []
    for second in range(4, 20):
        told += board.at(float(second), METER)
    assert [(e.key, e.active, e.parent) for e in told] == [
        ("endpoint_unreachable:gw:502", False, None),
        ("device_unreachable:m1", True, None),
    ]


def test_an_old_lack_of_redundancy_is_not_blamed_on_a_later_loss() -> None:
    board = Board()
    board.at(0.0, THIN)
    board.at(3.0, THIN)
    events = board.at(4.0, THIN, LOSS)
    assert [e.key for e in events] == ["element_lost:pdu-b"]


def test_a_rack_without_meters_does_not_explain_its_silent_node() -> None:
    board = Board()
    blind = Condition("data_blind", "r01", Severity.WARNING, "blind")
    node = Condition("agent_silent", "r01-n1", Severity.WARNING, "mute", about=("r01", "broker"))
    board.at(0.0, blind, node)
    assert {e.parent for e in board.at(3.0, blind, node)} == {None}
