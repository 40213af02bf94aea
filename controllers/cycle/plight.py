"""What people must know besides the kilowatts: what is lost, since when, and what to do."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from controllers.alarms import AlarmMemory
from controllers.cycle.plant import Plant
from controllers.cycle.wanted import Wanted
from controllers.headroom import Headroom, Plight
from controllers.wording import capital
from facility.commands import Severity
from facility.site import SiteModel

_SHORT = ("redundancy_lost", "overload")
NO_HANDS = "Wattkeeper moves no caps: take load away, or set the mode to auto."


def short_since(memory: AlarmMemory) -> int | None:
    """Since when (UTC ms) an alarm says that some element lacks headroom; None: none says so."""
    since = [
        state.since_ms
        for state in memory.states.values()
        if state.last.kind in _SHORT and state.delayed.on and state.since_ms is not None
    ]
    return min(since, default=None)


def critical(memory: AlarmMemory) -> tuple[str, ...]:
    """Keys of the critical alarms that stand."""
    return tuple(
        key
        for key, state in memory.states.items()
        if state.delayed.on and state.last.severity is Severity.CRITICAL
    )


def cooling_trouble(memory: AlarmMemory) -> str:
    """Pumps, flows and confirmed leaks that a critical alarm tells of, a sentence each."""
    said = []
    for key in critical(memory):
        last = memory.states[key].last
        name = last.subject
        if last.kind == "pump_lost":
            one = last.numbers.get("pumps_standing") == 1.0
            stand = f"A pump of {name.upper()} stands" if one else f"{name.upper()}'s pumps stand"
            said.append(f"{stand}; cooling has no spare pump.")
        elif last.kind == "flow_lost":
            said.append(f"{name.upper()} has lost its coolant flow.")
        elif last.kind == "leak":
            said.append(f"A leak at {name} is confirmed.")
    return " ".join(said)


def plight(
    site: SiteModel,
    plant: Plant,
    headroom: Headroom,
    wanted: Wanted,
    memory: AlarmMemory,
    now_ms: int,
    *,
    acts: bool = True,
) -> Plight:
    """What is lost, since when, and what to do about it; `acts`: whether any cap is moved."""
    zone = ZoneInfo(site.facility.site.timezone)
    lost = plant.losses.lost
    if lost:
        since_ms: int | None = min(plant.memory.since_ms.get(name, now_ms) for name in lost)
    else:
        since_ms = None if headroom.ok else short_since(memory)
    since = "" if since_ms is None else clock_time(since_ms, now_ms, zone)
    parts = []
    if not headroom.ok:
        parts.append(_shortage(plant, wanted, zone, now_ms) if acts else NO_HANDS)
    if lost:
        parts.append(f"Restore {' and '.join(name.upper() for name in lost)}.")
    return Plight(tuple(lost), since, " ".join(parts), cooling_trouble(memory))


def _shortage(plant: Plant, wanted: Wanted, zone: ZoneInfo, now_ms: int) -> str:
    if plant.holding:
        if plant.resecure_ms is None:
            return "Caps hold."
        return f"Caps hold until {clock_time(plant.resecure_ms, now_ms, zone)}, then come down."
    if wanted.shortfall is not None:
        fix = str(wanted.shortfall.get("would_fix") or "")
        return f"No caps fit. {capital(fix)}" if fix else "No caps fit: take load away."
    return "Caps come down until it is restored."


def clock_time(at_ms: int, now_ms: int, zone: ZoneInfo) -> str:
    """`03:12:04 CET` in site time, with the day if it is not today's."""
    at = datetime.fromtimestamp(at_ms / 1000.0, UTC).astimezone(zone)
    today = datetime.fromtimestamp(now_ms / 1000.0, UTC).astimezone(zone).date()
    day = "" if at.date() == today else f"{at:%Y-%m-%d} "
    return f"{day}{at:%H:%M:%S %Z}"
