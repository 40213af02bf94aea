"""The banner: what is out of service now or soon, until when, and whether it may be opened."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from zoneinfo import ZoneInfo

from api.hall import Hall
from api.web.wording import date, moment
from facility.maintenance import Maintenance

#: What starts within this is announced.
SOON_MS: Final = 24 * 3_600_000


def banner(hall: Hall) -> list[dict[str, str]]:
    """One line per maintenance that is open, counts already, or starts within a day."""
    now_ms = hall.clock.utc_ms()
    zone = ZoneInfo(hall.facility.site.timezone)
    decision = hall.decision()
    told: Any = () if decision is None else decision.facts.get("maintenance", ())
    secured: Mapping[str, Any] = {row["id"]: row["secured"] for row in told}
    return [
        {"state": work.state(now_ms), "text": _text(work, now_ms, zone, secured.get(work.id))}
        for work in hall.upkeep.works()
        if work.since_ms - now_ms <= SOON_MS
    ]


def _text(work: Maintenance, now_ms: int, zone: ZoneInfo, secured: bool | None) -> str:
    state = work.state(now_ms)
    ticket = f", {work.ticket}" if work.ticket else ""
    who = f"{work.by}{ticket}: {work.reason.rstrip('.')}"
    name = work.subject.upper() if work.kind == "element" else work.subject
    if state == "planned":
        return f"{name} goes out of service at {date(work.since_ms, zone)} ({who})."
    until = f"until {moment(work.until_ms, zone)}"
    if work.until_ms - now_ms > SOON_MS:
        until = f"until {date(work.until_ms, zone)}"
    start = "counts as lost" if state == "securing" else "is in maintenance"
    text = f"{name} {start} {until} ({who})."
    if work.kind != "element" or secured is None:
        return text
    if secured:
        return f"{text} N+1 holds without it."
    return f"{text} N+1 does not hold without it yet: do not open it."
