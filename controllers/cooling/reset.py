"""Where the set-point goes next: bounded, slewed, dwelling, and quiet once it has arrived."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

from controllers.blocks import dwelt, slew
from controllers.cooling.bounds import LoopBounds
from controllers.cooling.memory import LoopMemory
from facility.config import CoolingSettings, Loop

RESOLUTION_K: Final = 0.1
SAME_K: Final = 0.15
#: A write must show in two polls (and the write itself takes one).
READBACK_S: Final = 4.0
TRACK_K: Final = 2.0
TRACK_S: Final = 300.0
POLLS_S: Final = 2.0
HOLD_S: Final = 180.0
DEFAULT_S: Final = 600.0
RELEASE_S: Final = 1800.0
#: A protective move starts with at most this many seconds' worth of its rate.
CREDIT_S: Final = 15.0
GRID_K: Final = 0.25
#: Coolant cannot come out colder than the facility's water plus this.
APPROACH_K: Final = 2.0


@dataclass(frozen=True, slots=True)
class Move:
    """The next value of a loop's set-point.

    Attributes:
        value_c: None: nothing to say (unknown present value, or released).
        low_c, high_c: the room that protection leaves in this cycle, slew included.
        protective: the move is exempt from dwell, dead-band and count.
        state: `track`, `hold`, `default`, `released`, `frozen`, `foreign`.
        text: the reason, with numbers.
        next_c, due_s: what the set-point moves to after this, and in how many seconds from now;
            None: nothing more is meant, or it is not sure yet.
    """

    value_c: float | None
    low_c: float
    high_c: float
    protective: bool
    state: str
    text: str
    next_c: float | None = None
    due_s: float = 0.0


def _snap(value: float, low: float, high: float) -> float:
    snapped = round(value / RESOLUTION_K) * RESOLUTION_K
    if snapped < low - 1e-9:
        snapped = math.ceil(low / RESOLUTION_K - 1e-9) * RESOLUTION_K
    elif snapped > high + 1e-9:
        snapped = math.floor(high / RESOLUTION_K + 1e-9) * RESOLUTION_K
    return round(max(snapped, low) if low <= high else low, 6)


def aim(
    bounds: LoopBounds,
    settings: CoolingSettings,
    ambient_c: float,
    primary_c: float,
    default_c: float,
) -> tuple[float, str]:
    """The economic target inside [L, U], and why.

    The optimum of fans, pumps, chiller and leakage lies near the outdoor temperature plus a
    constant; until a plant's own parameters are identified that constant is the site's setting.
    """
    if math.isnan(ambient_c):
        wanted, why = default_c, f"no outdoor temperature: the default {default_c:.1f} °C"
    else:
        wanted = ambient_c + settings.ambient_approach
        why = f"outdoor {ambient_c:.1f} °C + {settings.ambient_approach:.1f} K"
    if not math.isnan(primary_c) and wanted < primary_c + APPROACH_K:
        wanted = primary_c + APPROACH_K
        why = f"reachable from {primary_c:.1f} °C facility water"
    wanted = round(wanted / GRID_K) * GRID_K
    if bounds.high_c is not None and wanted > bounds.high_c:
        wanted, why = bounds.high_c, f"U: {bounds.high_because}"
    if wanted < bounds.low_c:
        wanted, why = bounds.low_c, f"L: {bounds.low_because}"
    return wanted, why


def ladder(lost_s: float) -> str:
    """What a missing input allows after `lost_s` seconds."""
    if lost_s >= RELEASE_S:
        return "released"
    if lost_s >= DEFAULT_S:
        return "default"
    if lost_s >= HOLD_S:
        return "hold"
    return "no raise" if lost_s >= POLLS_S else "track"


def verify(
    memory: LoopMemory, readback_c: float, supply_c: float | None, now_s: float
) -> LoopMemory:
    """Compare what was written with what is read back and what the supply does."""
    written, when = memory.written_c, memory.written_s
    unconfirmed, foreign = memory.unconfirmed, memory.foreign
    if written is not None and when is not None and not math.isnan(readback_c):
        agrees = abs(readback_c - written) <= SAME_K
        if agrees:
            unconfirmed = foreign = False
        elif now_s - when > READBACK_S:
            # It read back once and differs now: somebody else. It never did: it was not taken.
            confirmed_before = memory.confirmed
            foreign = foreign or confirmed_before
            unconfirmed = not foreign
        memory = replace(memory, confirmed=memory.confirmed or agrees)
    off = memory.off_track_since_s
    if supply_c is None or math.isnan(readback_c) or abs(supply_c - readback_c) <= TRACK_K:
        off = None if supply_c is not None else off
    elif off is None:
        off = now_s
    return replace(memory, unconfirmed=unconfirmed, foreign=foreign, off_track_since_s=off)


def next_move(
    loop: Loop,
    settings: CoolingSettings,
    bounds: LoopBounds,
    memory: LoopMemory,
    present_c: float | None,
    now_s: float,
    *,
    may_raise: bool,
) -> Move:
    """Where the set-point goes in this cycle.

    Args:
        loop: of the file.
        settings: of the file.
        bounds: L and U now.
        memory: with the economic target.
        present_c: the set-point in force, None when unknown.
        now_s: monotonic.
        may_raise: margins are confirmed and the data good in this cycle.
    """
    low, high = bounds.low_c, bounds.high_c
    ceiling = max(low, high) if high is not None else math.inf
    lost_s = 0.0 if memory.lost_since_s is None else now_s - memory.lost_since_s
    state = ladder(lost_s)
    if present_c is None or state == "released":
        why = "set-point unknown" if present_c is None else "inputs lost for 30 min"
        return Move(None, low, ceiling, False, "released", f"{why}: left to the device")
    since = math.inf if memory.written_s is None else now_s - memory.written_s
    credit = settings.protection_rate / 60.0 * min(since, CREDIT_S)
    room_low, room_high = min(low, present_c + credit), max(ceiling, present_c - credit)
    if present_c < low - 1e-6:
        end = math.ceil(low / RESOLUTION_K - 1e-9) * RESOLUTION_K
        value = slew(present_c, end, credit, credit)
        text = f"L {low:.1f} °C: {bounds.low_because}"
        return _stepped(value, present_c, end, room_low, max(room_high, end), text)
    conflict = high is not None and low > high
    if present_c > ceiling + (RESOLUTION_K if conflict else 1e-6):
        end = low if conflict else math.floor(ceiling / RESOLUTION_K + 1e-9) * RESOLUTION_K
        value = slew(present_c, end, credit, credit)
        text = f"U {ceiling:.1f} °C: {bounds.low_because if conflict else bounds.high_because}"
        return _stepped(value, present_c, end, room_low, room_high, text)
    hold = Move(present_c, room_low, room_high, False, "hold", "inside [L, U]")
    if state == "default":
        target = min(max(loop.default_setpoint, low), ceiling)
        text = "inputs lost for 10 min: towards the site's default"
        value = slew(present_c, target, credit, credit)
        return _stepped(value, present_c, target, room_low, room_high, text, state="default")
    if state == "hold":
        return replace(hold, text=f"holding: {', '.join(bounds.inputs_lost)} lost")
    if memory.foreign:
        return replace(hold, state="foreign", text="somebody else wrote the set-point: not fought")
    off_s = 0.0 if memory.off_track_since_s is None else now_s - memory.off_track_since_s
    if memory.unconfirmed or off_s >= TRACK_S:
        return replace(hold, state="frozen", text="the supply does not follow: frozen")
    if memory.target_c is None:
        return replace(hold, text="no target yet")
    target = min(max(memory.target_c, low), ceiling)
    gap = target - present_c
    if abs(gap) < settings.dead_band:
        return replace(hold, state="track", text=f"within {settings.dead_band:g} K of the target")
    ready = dwelt(memory.written_s, now_s, settings.dwell)
    steps = _steps(settings, min(since, settings.dwell) / 60.0 if ready else settings.dwell / 60.0)
    value = _snap(slew(present_c, target, *steps), low, ceiling)
    unsure = gap > 0 and (not may_raise or high is None or state == "no raise")
    towards = f"towards {target:.1f} °C from {present_c:.1f} °C"
    if not ready:
        due_s = settings.dwell - since
        hold = replace(hold, next_c=None if unsure else value, due_s=due_s)
        return replace(hold, state="track", text=towards)
    if len(memory.writes_s) >= settings.writes_per_hour:
        return replace(hold, state="track", text=f"{settings.writes_per_hour} writes this hour")
    if unsure:
        return replace(hold, state="track", text="no raise: margins or inputs not confirmed")
    if abs(value - present_c) < RESOLUTION_K / 2:
        return replace(hold, state="track", text="the step is below the device's resolution")
    after = _snap(slew(value, target, *_steps(settings, settings.dwell / 60.0)), low, ceiling)
    more = after if abs(after - value) >= RESOLUTION_K / 2 else None
    return Move(value, room_low, room_high, False, "track", towards, more, settings.dwell)


def _steps(settings: CoolingSettings, minutes: float) -> tuple[float, float]:
    """Largest step up and down after so many minutes, K.

    A write is one step for the plant: however long ago the last one was, it lowers by no more
    than a minute of the rate.
    """
    up = min(settings.raise_rate * minutes, settings.max_raise_per_dwell)
    return up, settings.lower_rate * min(minutes, 1.0)


def _stepped(
    value: float,
    present_c: float,
    end: float,
    room_low: float,
    room_high: float,
    text: str,
    state: str = "track",
) -> Move:
    """A protective move, kept back until it is worth a device's resolution."""
    if abs(value - present_c) + 1e-9 < min(RESOLUTION_K, abs(end - present_c)):
        room = (min(room_low, present_c), max(room_high, present_c))
        return Move(present_c, room[0], room[1], True, state, text)
    return Move(round(value, 2), room_low, room_high, True, state, text)
