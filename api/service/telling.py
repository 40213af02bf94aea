"""One line in the log for each alarm and each batch of commands that a cycle brought."""

from __future__ import annotations

import structlog

from facility.commands import AlarmEvent, Decision

log = structlog.get_logger(__name__)


def tell(decision: Decision) -> None:
    """Log what changed: alarms by name, and how many commands went out and why the first did."""
    for event in decision.alarms:
        _tell_alarm(event)
    if decision.commands:
        first = decision.commands[0]
        log.info(
            "commands_sent",
            cycle=decision.cycle,
            count=len(decision.commands),
            first=str(first.point),
            value=first.value,
            because=first.because,
        )


def _tell_alarm(event: AlarmEvent) -> None:
    """A page warns; what another alarm explains is for those who look closely."""
    say = log.warning if event.page else log.info
    words = {"severity": event.severity.name.lower(), "page": event.page, "text": event.text}
    if event.parent is not None:
        say, words = log.debug, words | {"parent": event.parent}
    say("alarm_raised" if event.active else "alarm_cleared", key=event.key, **words)
