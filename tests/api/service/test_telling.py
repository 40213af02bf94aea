"""What the log tells of a cycle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from structlog.testing import capture_logs

from api.service.telling import tell
from facility.commands import AlarmEvent, Command, Decision, Severity
from facility.points import PointId


def decided(alarms: Sequence[AlarmEvent] = (), commands: Sequence[Command] = ()) -> Decision:
    return Decision(
        cycle=7,
        snapshot=1,
        last_scan=1,
        now_ms=0,
        setpoints=(),
        commands=tuple(commands),
        withheld=(),
        alarms=tuple(alarms),
        facts={},
        config_sha256="0" * 64,
    )


def logged(decision: Decision) -> list[Mapping[str, object]]:
    with capture_logs() as lines:
        tell(decision)
    return list(lines)


def event(*, active: bool = True, page: bool = False, parent: str | None = None) -> AlarmEvent:
    return AlarmEvent(
        "leak:r01", "leak", "r01", Severity.CRITICAL, active, "wet", 0, page, parent, {}
    )


def test_the_log_never_named_an_alarm() -> None:
    raised, cleared = logged(decided([event(page=True), event(active=False)]))
    assert raised == {
        "event": "alarm_raised",
        "log_level": "warning",
        "key": "leak:r01",
        "severity": "critical",
        "page": True,
        "text": "wet",
    }
    assert (cleared["event"], cleared["log_level"]) == ("alarm_cleared", "info")


def test_what_another_alarm_explains_is_logged_for_those_who_look_closely() -> None:
    (line,) = logged(decided([event(parent="element_lost:pdu-b")]))
    assert (line["log_level"], line["parent"]) == ("debug", "element_lost:pdu-b")


def test_commands_are_counted_with_the_first_reason() -> None:
    point = PointId("n01", "total", "power_cap")
    sent = [Command(point, 400.0, i, 1, 0, 2.0, f"why {i}") for i in (1, 2, 3)]
    (line,) = logged(decided(commands=sent))
    assert (line["event"], line["count"], line["because"]) == ("commands_sent", 3, "why 1")
    assert logged(decided()) == []
